"""Finds tags in text that comes in pieces of any size, in time linear in the text.

Only the end of the text that may still become a tag is held back. The caller bounds how long that can be, and so
how often a character is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


class TagReader:
    """Gives text and tags in order.

    tag: matches a whole tag, and what it looks ahead to must be there to match. may_become: whether text that
    begins with the last `<` so far may become a tag; false from some length on. No tag holds a second `<`.
    """

    def __init__(self, tag: re.Pattern[str], may_become: Callable[[str], bool]) -> None:
        self.held = ""
        """What may become a tag. Who gives it out at the end empties it."""
        self._tag = tag
        self._may_become = may_become

    def feed(self, text: str) -> Iterator[str | re.Match[str]]:
        """Text between tags, never empty, and tags."""
        text, self.held = self.held + text, ""
        position = 0
        for found in self._tag.finditer(text):
            if found.start() > position:
                yield text[position : found.start()]
            yield found
            position = found.end()
        last = text.rfind("<", position)
        if last >= 0 and self._may_become(text[last:]):
            self.held = text[last:]
            text = text[:last]
        if position < len(text):
            yield text[position:]
