"""Finds a text in everything that the garbage collector can reach, to show that it is gone."""

from __future__ import annotations

import gc
from typing import Any, Final

_TEXTS: Final = (str, bytes, bytearray, memoryview)


def holders_of(backwards: str) -> list[str]:
    """What holds the text, in words: a line for each place. backwards: the text reversed, so that the test itself does
    not hold it. Looked into is every text and buffer that a tracked object leads to, also frames of suspended tasks.
    """
    gc.collect()
    texts = _reachable_texts()
    # No comprehension and no cell below: a generator or a cell that knows the text would be found itself.
    needle = backwards[::-1]
    coded = needle.encode()
    found: list[str] = []
    for text, holder in texts:
        if needle in text if isinstance(text, str) else coded in bytes(text):
            owners = sorted({type(owner).__qualname__ for owner in gc.get_referrers(holder)})
            found.append(f"{type(text).__name__}[{len(text)}] in {type(holder).__qualname__} in {owners[:8]}")
    return found


def _reachable_texts() -> list[tuple[Any, Any]]:
    """With what refers to each of them."""
    waiting: list[Any] = gc.get_objects()
    seen = set(map(id, waiting))
    seen.add(id(waiting))
    texts: list[tuple[Any, Any]] = []
    while waiting:
        holder = waiting.pop()
        for inner in gc.get_referents(holder):
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            if isinstance(inner, _TEXTS):
                texts.append((inner, holder))
            else:
                waiting.append(inner)  # also what the collector does not track, such as a tuple of texts
    return texts
