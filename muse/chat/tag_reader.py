"""Finds tags in text that comes in pieces of any size, in time linear in the text.

Only the end of the text that may still become a tag is held back. The caller bounds how long that can be, and so
how often a character is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import attrs


@attrs.frozen
class Tag:
    """raw: what of its text was not given out before the rest of it came."""

    match: re.Match[str]
    raw: str


class TagReader:
    """Gives text and tags in order.

    tag: matches a whole tag, and what it looks ahead to must be there to match. may_become: whether text that
    begins with the last `<` so far may become a tag; false from some length on. No tag holds a second `<`.
    """

    def __init__(self, tag: re.Pattern[str], may_become: Callable[[str], bool]) -> None:
        self.held = ""
        """What may become a tag."""
        self._given = 0  # characters of it that were given out, since the text ended there
        self._tag = tag
        self._may_become = may_become

    def give_out(self) -> str:
        """What is held and was not given out before, as the text. Should the text go on after all, it may still become
        a tag."""
        text, self._given = self.held[self._given :], len(self.held)
        return text

    def feed(self, text: str) -> Iterator[str | Tag]:
        """Text between tags, never empty, and tags."""
        text, self.held = self.held + text, ""
        given, self._given = self._given, 0
        position = 0
        for found in self._tag.finditer(text):
            if found.start() > max(position, given):
                yield text[max(position, given) : found.start()]
            yield Tag(found, text[max(found.start(), given) : found.end()])
            position = found.end()
        last = text.rfind("<", position)
        if last >= 0 and self._may_become(text[last:]):
            self.held = text[last:]
            text = text[:last]
            self._given = max(given - last, 0)
        if max(position, given) < len(text):
            yield text[max(position, given) :]
