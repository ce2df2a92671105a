"""What is said in the README's pictures. The scripted engine gives these answers; no model made them."""

from __future__ import annotations

import re
from typing import Any, Final

SORTING: Final = "Why does merge sort take n log n steps? Show me a short version in Python."
WALK: Final = "I walk 3 km at 4 km/h and back at 6 km/h. What is my average speed?"

_SORTING_THOUGHT: Final = """\
The list is halved until single items are left, which makes log n levels. On each level every item is moved once.
So n times log n. A version with slices is the shortest that reads well.
"""
_SORTING_ANSWER: Final = r"""Halving $n$ items down to single ones takes $\log_2 n$ levels; each moves all **once**:

$$T(n) = 2\,T\!\left(\tfrac{n}{2}\right) + n \quad\Rightarrow\quad T(n) = n \log_2 n + n$$

```python
def merge_sort(items: list[int]) -> list[int]:
    if len(items) < 2:
        return items
    middle = len(items) // 2
    left, right = merge_sort(items[:middle]), merge_sort(items[middle:])
    merged = []
    while left and right:
        merged.append((left if left[0] <= right[0] else right).pop(0))
    return merged + left + right  # one of them is empty
```
"""
_WALK_THOUGHT: Final = """\
It is tempting to say 5 km/h, the mean of the two. But the slow way takes longer, so it counts for more.

45 and 30 minutes for 6 km: 6 / 1.25 = 4.8.
"""
_WALK_ANSWER: Final = """\
**4.8 km/h.** Not 5: you spend more time on the slow way.

| | km | minutes |
|:--|--:|--:|
| There | 3 | 45 |
| Back | 3 | 30 |
| Both | 6 | 75 |
"""


def _tokens(thought: str, answer: str) -> list[str]:
    """A turn in Harmony's channels, in pieces of about the size of tokens."""
    pieces = [re.findall(r"\s*\S{1,5}|\s+", text) for text in (thought, answer)]
    to_user = ["<|eom|>", "<|start|>", "assistant", " to=user", "<|message|>"]
    return [" to=", "self", "<|message|>", *pieces[0], *to_user, *pieces[1]]


SCRIPT: Final[dict[str, Any]] = {
    "model_id": "scripted-demo",
    "context_length": 8192,
    "special_tokens": ["<|eot|>", "<|start|>", "<|message|>", "<|eom|>"],
    "chat_template": (
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %} to=user{% endif %}<|message|>"
        "{{ m.content }}<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    ),
    "prefill_us_per_token": 400,
    "answers": [
        {"when": "merge sort", "tokens": _tokens(_SORTING_THOUGHT, _SORTING_ANSWER), "token_ms": 12},
        {"when": "average speed", "tokens": _tokens(_WALK_THOUGHT, _WALK_ANSWER), "token_ms": 12},
    ],
}
