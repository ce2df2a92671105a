"""Stop strings on the visible text of one answer, piece by piece.

Meaning, free of how the text was cut into pieces: of all occurrences of all stop strings, the one that
is complete first ends the text; if several are complete at the same character, the one that began first.
Shown is what stands before it. A call of a tool between two texts parts them: what was held back before it was shown
then, so no stop string goes over it. Nothing longer is waited for once a stop string is complete, so the model
is never asked for tokens that cannot be shown.

Held back is the longest end of the text that may still become a stop string, and no more.
tests/unit/test_chat_stop_strings.py proves both against the whole-text definition, at every split.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class _Progress:
    """How much of one stop string the text ends in (Knuth, Morris and Pratt)."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.length = 0
        """Length of the longest beginning of the stop string that the text ends in."""
        self._shorter = _border_lengths(stop)

    def step(self, char: str) -> None:
        """Take the next character. Not called again once the stop string is complete."""
        length = self.length
        while length and self.stop[length] != char:
            length = self._shorter[length - 1]
        self.length = length + 1 if self.stop[length] == char else 0


def _border_lengths(stop: str) -> list[int]:
    """For each beginning of the text: the length of its longest proper end that also begins the text."""
    lengths = [0]
    length = 0
    for char in stop[1:]:
        while length and stop[length] != char:
            length = lengths[length - 1]
        length = length + 1 if stop[length] == char else 0
        lengths.append(length)
    return lengths


class StopMatcher:
    """Feeds on pieces of visible text and gives out what may be shown. One per answer."""

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: none of them empty; no stop strings at all is fine."""
        self.matched: str | None = None
        """The stop string that ended the text."""
        # Longest first: of those complete at one character, it began first.
        self._watched = [_Progress(stop) for stop in sorted(stops, key=len, reverse=True)]
        # Most pieces hold no first character of any stop string: one scan in C settles them.
        self._first = re.compile("[" + "".join({re.escape(stop[0]) for stop in stops}) + "]") if stops else None
        self._held: str = ""

    def feed(self, text: str) -> tuple[str, bool]:
        """Take the next piece. Returns (what may be shown now, whether a stop string ended the text);
        after the end always ("", True)."""
        if self.matched is not None:
            return "", True
        if self._first is None:
            return text, False
        position = len(self._held)
        text = self._held + text
        begun = bool(self._held)
        while position < len(text):
            if not begun:
                found = self._first.search(text, position)
                if found is None:
                    break
                position = found.start()
            char = text[position]
            position += 1
            begun = False
            for watched in self._watched:
                watched.step(char)
                if watched.length == len(watched.stop):
                    self.matched = watched.stop
                    self._held = ""
                    return text[: position - watched.length], True
                begun = begun or watched.length > 0
        shown = len(text) - max(watched.length for watched in self._watched)
        self._held = text[shown:]
        return text[:shown], False

    def flush(self) -> str:
        """The model has ended, or something else than text stands here: what was held back is text after all, and no
        stop string goes over this place."""
        held, self._held = self._held, ""
        for watched in self._watched:
            watched.length = 0
        return held
