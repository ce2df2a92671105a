"""Models that think between `<think>` tags at the beginning of a turn."""

from __future__ import annotations

import copy
from typing import Final, Literal

from muse.chat.channel_types import Channel, Event, Piece, TextKind
from muse.protocol import Segment, TextSegment

OPEN: Final = "<think>"
CLOSE: Final = "</think>"


class ThinkTagParser:
    """Reasoning stands between `<think>` and `</think>` at the very beginning of a turn; what looks like a
    tag anywhere else is text. White space round the tags belongs to nobody. Linear in the length of the text.

    opened: the generation prompt already ends with the opening tag.
    """

    def __init__(self, *, opened: bool) -> None:
        self._state: Literal["start", "reasoning", "gap", "answer"] = "reasoning" if opened else "start"
        # What is held back: white space that may stand before a tag, and behind it the beginning of a tag.
        self._space: list[str] = []
        self._held = ""
        self._given = 0  # characters of both that were given out, since the generation ended there
        self._fresh = opened  # white space right behind the opening tag

    @property
    def channel(self) -> Channel:
        """Reasoning until the closing tag was complete."""
        return "reasoning" if self._state == "reasoning" else "answer"

    @property
    def turn_over(self) -> bool:
        """Cannot be told: the language is known for its thoughts only."""
        return False

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        """Take text; a tag cut into pieces is found all the same, also where it is a control token."""
        if kind == "control" and text not in (OPEN, CLOSE):
            return []
        self._held += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        return [piece for piece in pieces if piece[1]]

    def flush(self) -> list[Event]:
        """Give out what waited for the rest of a tag; it may still become one, should the generation go on."""
        waiting = "".join(self._space) + self._held
        held, self._given = waiting[self._given :], len(waiting)
        return [(self.channel, held)] if held else []

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """The closing tag and the blank line that models write behind it."""
        if self._state != "reasoning":
            return None
        self._drop()
        self._state = "gap"
        return (TextSegment(text=f"\n{CLOSE}\n\n", special=True),)

    def answer_call(self, name: str, text: str) -> None:
        """Nothing is known of tools."""
        return

    def copy(self) -> ThinkTagParser:
        """One in the same state, which goes its own way from here."""
        copied = copy.copy(self)
        copied._space = self._space[:]
        return copied

    def _step(self, pieces: list[Piece]) -> bool:
        """One step over what is held; true when another may follow."""
        match self._state:
            case "start":
                return self._at_start()
            case "reasoning":
                return self._in_reasoning(pieces)
            case "gap":
                self._held = self._held.lstrip()
                if not self._held:
                    return False
                self._state = "answer"
                return True
            case "answer":
                pieces.append(("answer", self._take(self._held)))
                self._drop()
                return False

    def _at_start(self) -> bool:
        text = self._held.lstrip()
        self._space.append(self._held[: len(self._held) - len(text)])
        self._held = text
        if text.startswith(OPEN):
            self._drop(text[len(OPEN) :])
            self._state = "reasoning"
            self._fresh = True
            return True
        if OPEN.startswith(text):
            return False  # also when only white space came so far
        self._state = "answer"
        return True

    def _in_reasoning(self, pieces: list[Piece]) -> bool:
        if self._fresh:
            self._held = self._held.lstrip()
            if not self._held:
                return False
            self._fresh = False
        before, tag, after = self._held.partition(CLOSE)
        if tag:
            if said := before.rstrip():
                pieces.append(("reasoning", self._take(said)))
            self._drop(after)
            self._state = "gap"
            return True
        cut = len(before) - _begun_tag(before)
        said = before[:cut].rstrip()
        if said:
            pieces.append(("reasoning", self._take(said)))
        self._space.append(before[len(said) : cut])
        self._held = before[cut:]
        return False

    def _take(self, said: str) -> str:
        """The white space that was held, and this behind it, without what was given out before."""
        text = "".join(self._space) + said
        new, self._given = text[self._given :], max(self._given - len(text), 0)
        self._space.clear()
        return new

    def _drop(self, rest: str = "") -> None:
        """Nothing is held but `rest`."""
        self._space.clear()
        self._held, self._given = rest, 0


def _begun_tag(text: str) -> int:
    """Length of the end of `text` that may belong to the closing tag."""
    sizes = range(min(len(CLOSE) - 1, len(text)), 0, -1)
    return next((size for size in sizes if CLOSE.startswith(text[-size:])), 0)
