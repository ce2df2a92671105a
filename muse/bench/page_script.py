"""What the measurements of the page show: a long answer in Markdown, and a long chat."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

TOKENS_PER_S: Final = 250
CHAT_ENDING: Final = "trusts neither"
"""What every answer of `long_chat` says in its last words."""

_PARTS: Final = (
    """\
## Part {n}

The *keeper* of lighthouse {n} writes down what the **sea** brings: ropes, letters, and a box with `{n}` buttons. He
counts them twice, once by hand and once by heart, and trusts neither.

""",
    """\
- First, the ropes of day {n}
- Second, the letters
  - one of them wet
  - one of them burnt
- Third, the box

""",
    """\
```python
def count(day: int = {n}) -> int:
    total = 0
    for rope in range(day):
        total += rope * 2  # both ends
    return total


print("day {n}:", count())
```

""",
    """\
| Day | Ropes | Letters |
|:----|------:|--------:|
| {n} | 12 | 3 |
| next | 7 | 40 |
| last | 0 | 1 |

""",
    """\
> It was never the storm of day {n} that he feared, but the calm behind it, in which everything can be heard.

1. Light the lamp
2. Wind the clock
3. Listen, and write it down before it is gone

""",
)


def _pieces(text: str) -> list[str]:
    return re.findall(r"\s*\S{1,5}|\s+", text)


def _long_answer() -> Iterator[str]:
    for number in itertools.count(1):
        yield from _pieces(_PARTS[number % len(_PARTS)].format(n=number))


def page_script(tokens: int) -> dict[str, Any]:
    """A script for the scripted engine: every question gets an answer of so many tokens, at TOKENS_PER_S."""
    answer = list(itertools.islice(_long_answer(), tokens))
    return {
        "model_id": "scripted",
        "context_length": tokens + 65536,
        "answers": [{"tokens": answer, "token_ms": 1000 / TOKENS_PER_S}],
    }


def long_chat(count: int) -> list[dict[str, str]]:
    """A chat of so many messages, questions and answers in turn, as the server keeps it."""
    chat: list[dict[str, str]] = []
    for number in range(count // 2):
        answer = "".join(part.format(n=number) for part in (_PARTS[number % len(_PARTS)], _PARTS[0]))
        chat.append({"role": "user", "content": f"What did the sea bring on day {number}?"})
        chat.append({"role": "assistant", "content": answer})
    return chat
