"""The visible text around calls of tools: white space before and between calls is nobody's."""

from __future__ import annotations

from muse.chat.channel_types import Piece


class Prose:
    """Holds white space back until it is known what it stands before."""

    def __init__(self) -> None:
        self._space: list[str] = []
        self._is_said = False
        self._is_behind_call = False

    def text(self, text: str) -> list[Piece]:
        """Text that belongs to no call."""
        visible = text.rstrip()
        if not visible:
            self._space.append(text)
            return []
        given = self.before_broken() + visible
        if self._is_behind_call and not self._is_said:
            given = given.lstrip()
        self._space.append(text[len(visible) :])
        self._is_said, self._is_behind_call = True, False
        return [("answer", given)]

    def before_broken(self) -> str:
        """A call that cannot be read begins here and will be shown: what has to be shown before it."""
        space = "" if self._is_behind_call and not self._is_said else "".join(self._space)
        self._space.clear()
        return space

    def end_call(self, *, is_shown: bool) -> None:
        """A call stood here. is_shown: it is broken, and so its text is part of the answer."""
        self._space.clear()
        self._is_said = self._is_said or is_shown
        self._is_behind_call = not is_shown

    def end(self) -> list[Piece]:
        """Nothing follows for now: gives the white space at the end of a text, but not that behind a call."""
        space = "" if self._is_behind_call else "".join(self._space)
        self._space.clear()
        return [("answer", space)] if space else []
