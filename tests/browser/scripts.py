"""What the scripted engine answers in the page's tests, and the few steps that all of them take."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, Request, expect

HANG_GUARD_MS = 20_000
ALWAYS_SENT = {"messages", "session_id", "stream", "muse", "chat_template_kwargs"}
"""Fields of every completion request of the page."""

TOUR = """A **bold** start with *slant*, `code` and ~~gone~~.

## Steps

1. First
2. Second
   - nested

- [x] done
- [ ] to do

| Name | Value |
|:-----|------:|
| one  | 1     |
| two  | 2<br>or 3 |

```python
def double(x: int) -> int:
    return x * 2  # twice
```

> A quote.

See [the site](https://example.com/a?b=1) or mail <someone@example.com>.

![a picture](https://example.com/p.png)
"""

HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 1">
<iframe src="javascript:window.hacked=1"></iframe>
<style>body { display: none }</style>
<form action="https://evil.example"><input name=q autofocus onfocus="window.hacked=1"></form>
<a href="javascript:window.hacked=1">raw link</a>

[one](javascript:window.hacked=1) [two](JAVASCRIPT:window.hacked=1) [three](data:text/html,<script>hacked=1</script>)
[four](vbscript:x) [five](//evil.example/x) [six](/api/cancel) [seven](java&#115;cript:window.hacked=1)

![pixel](https://evil.example/pixel.png) ![inline](data:image/svg+xml,<svg/onload=hacked=1>)

| <script>hacked=1</script> | b |
|---|---|
| <img src=//evil.example/t.png> | c |

```html
<script>window.hacked = 1</script>
```

```"><img src=x onerror=hacked=1>
fence info
```

[ref]: javascript:window.hacked=1
[ref]

<svg><animate onbegin=hacked=1 attributeName=x dur=1s></svg>
"""

LONG = "".join(f"Paragraph {number} has some words, and then it ends.\n\n" for number in range(1, 61))

# With characters that count as one for the server and as two for JavaScript.
LINES = [f"Line {number} \U0001f98a is whole." for number in range(1, 151)]


def pieces(text: str) -> list[str]:
    """The text in token-like pieces."""
    return re.findall(r"\s*\S{1,6}|\s+", text)


CHAT_SCRIPT: dict[str, Any] = {
    "model_id": "scripted-model",
    "answers": [
        {"when": "tour", "tokens": pieces(TOUR), "token_ms": 1},
        {"when": "hostile", "tokens": pieces(HOSTILE)},
        {"when": "long", "tokens": pieces(LONG), "token_ms": 4},
        {"when": "endless", "tokens": {"repeat": ["on ", "and "], "count": 30000}, "token_ms": 10},
        {"when": "lines", "tokens": pieces("\n\n".join(LINES)), "token_ms": 8},
        {"when": "short", "tokens": ["Short", " answer."]},
        {"tokens": ["You", " said", " something."]},
    ],
}


def ask(page: Page, text: str) -> Locator:
    """Send a message; returns the answer's element at once."""
    before = page.locator(".from-model").count()
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")
    return page.locator(".from-model").nth(before)


def wait_over(answer: Locator, phase: str = "done") -> Locator:
    """Wait until the answer is in its final phase: done, stopped or failed."""
    expect(answer).to_have_attribute("data-phase", phase, timeout=HANG_GUARD_MS)
    return answer


def record_requests(page: Page) -> list[dict[str, Any]]:
    """The bodies of completion requests from now on, in order."""
    bodies: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/v1/chat/completions"):
            bodies.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    return bodies


def session_id(page: Page) -> str:
    """The id of the page's chat."""
    return str(page.evaluate("sessionStorage.getItem('muse.session')"))


def wait_until(page: Page, condition: str) -> None:
    """Wait until a JavaScript condition holds. (Playwright's own wait needs eval, which the page forbids.)"""
    page.evaluate(
        f"""() => new Promise((resolve, reject) => {{
          const check = () => {{ if ({condition}) resolve(); else requestAnimationFrame(check); }};
          setTimeout(() => reject(new Error("never: " + {json.dumps(condition)})), 20_000);
          check();
        }})"""
    )
