"""What a scripted model that speaks Harmony thinks and answers, and how the page shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.actors.test_harmony_turns import TEMPLATE
from tests.browser.scripts import LINES, pieces

OPEN = [" to=", "self", "<|message|>"]
TO_USER = ["<|eom|>", "<|start|>", "assistant", " to=user", "<|message|>"]
THOUGHT = """They want a **short** answer.

1. Say yes.
2. Say why.

```python
answer = "yes"
```

So: yes, and a word about the reason. """
ANSWER = """Yes, because it is *so*.

```python
def reason() -> str:
    return "so"
```

That is all."""
LONG_THOUGHT = "".join(f"Step {number} leads to the next one.\n\n" for number in range(1, 61))


def turn(thought: str, answer: str) -> list[str]:
    """A whole turn as tokens."""
    return [*OPEN, *pieces(thought), *TO_USER, *pieces(answer)]


def thinking_script(folder: Path) -> dict[str, Any]:
    """The script. `folder` counts the deaths of the worker: in the first "fragile" thought, and three times in the
    first "broken" answer, which fails it."""

    def dying(token: int) -> dict[str, Any]:
        counter = str(folder / f"deaths-{token}")
        return {"at": "token", "token": token, "do": "signal", "signal": "SIGKILL", "counter": counter}

    thought = len(OPEN) + len(pieces(THOUGHT))
    return {
        "model_id": "scripted-thinker",
        "special_tokens": ["<|eot|>", "<|start|>", "<|message|>", "<|eom|>"],
        "chat_template": "{% if reasoning_strength %}Strength: {{ reasoning_strength }}.{% endif %}" + TEMPLATE,
        "answers": [
            # Thinks until it is told to answer; its answer is then the same once more.
            {"when": "endless", "tokens": [*OPEN, *pieces(LONG_THOUGHT) * 20], "token_ms": 10},
            {"when": "long thought", "tokens": turn(LONG_THOUGHT, ANSWER)},
            {"when": "lines", "tokens": turn(THOUGHT, "\n\n".join(LINES)), "token_ms": 8},
            {"when": "fragile", "tokens": turn(THOUGHT, ANSWER), "faults": [dying(12)]},
            {
                "when": "broken",
                "tokens": turn(THOUGHT, ANSWER),
                "faults": [dying(thought + len(TO_USER) + number) for number in (3, 6, 9)],
            },
            {"when": "plain", "tokens": ["No", " thought."]},
            {"tokens": turn(THOUGHT, ANSWER)},
        ],
    }


def text_of(answer: Locator) -> Locator:
    """The answer's own text, without its thinking."""
    return answer.locator(":scope > .prose")


def head_of(answer: Locator) -> Locator:
    """The button that opens and folds the thinking."""
    return answer.locator(".thought-head")


def longest_answer(page: Page, tokens: str) -> None:
    """Set the longest answer; "" takes the setting back."""
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("Longest answer", exact=True).fill(tokens)
    # A setting that was not taken shows here, not as an answer that ends too early.
    expect(page.get_by_label("Longest answer", exact=True)).to_have_value(tokens)
    most = page.get_by_role("button", name="Max for Longest answer")
    expect(most).to_have_attribute("aria-pressed", "false" if tokens else "true")
    page.get_by_role("button", name="Close settings").click()
