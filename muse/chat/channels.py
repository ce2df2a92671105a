"""Splits what a model generates into its channels: the visible answer and the reasoning before it.

One parser a turn, fed in order, any chunking. Models without channels pass through; models that think
between `<think>` tags are told by their template. What could still become a marker is held back until it is
one or is not, and `flush` gives it out at the end: no text is ever lost. Calls of tools are read by parsers of
their own (harmony.py, hermes.py), which are chosen here too.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final, Literal

from muse.api.tools import Tool
from muse.chat import harmony, hermes
from muse.chat.channel_types import Channel, ChannelParser, Event, Piece, TextKind
from muse.protocol import Segment, TextSegment

OPEN: Final = "<think>"
CLOSE: Final = "</think>"


class PlainParser:
    """All text is the answer."""

    @property
    def channel(self) -> Channel:
        """Always the same."""
        return "answer"

    @property
    def turn_over(self) -> bool:
        """Cannot be told: the language is not known."""
        return False

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        """Pass on, but for control tokens: they are for nobody's eyes."""
        return [("answer", text)] if text and kind != "control" else []

    def flush(self) -> list[Event]:
        """Nothing is ever held back."""
        return []

    def close_reasoning(self) -> None:
        """There is none."""
        return

    def answer_call(self, name: str, text: str) -> None:
        """Nothing is known of tools."""
        return

    def copy(self) -> PlainParser:
        """It has no state."""
        return self


class ThinkTagParser:
    """Reasoning stands between `<think>` and `</think>` at the very beginning of a turn; what looks like a
    tag anywhere else is text. White space round the tags belongs to nobody.

    opened: the generation prompt already ends with the opening tag.
    """

    def __init__(self, *, opened: bool) -> None:
        self._state: Literal["start", "reasoning", "gap", "answer"] = "reasoning" if opened else "start"
        self._held = ""
        self._given = 0  # characters of it that were given out, since the generation ended there
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
        held, self._given = self._held[self._given :], len(self._held)
        return [(self.channel, held)] if held else []

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """The closing tag and the blank line that models write behind it."""
        if self._state != "reasoning":
            return None
        self._held, self._given = "", 0
        self._state = "gap"
        return (TextSegment(text=f"\n{CLOSE}\n\n", special=True),)

    def answer_call(self, name: str, text: str) -> None:
        """Nothing is known of tools."""
        return

    def copy(self) -> ThinkTagParser:
        """One in the same state, which goes its own way from here."""
        return copy.copy(self)

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
                pieces.append(("answer", self._held[self._given :]))
                self._held, self._given = "", 0
                return False

    def _at_start(self) -> bool:
        text = self._held.lstrip()
        if text.startswith(OPEN):
            self._held, self._given = text[len(OPEN) :], 0
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
            pieces.append(("reasoning", before.rstrip()[self._given :]))
            self._held, self._given = after, 0
            self._state = "gap"
            return True
        keep = _undecided(before)
        cut = len(before) - keep
        pieces.append(("reasoning", before[self._given : cut]))
        self._held, self._given = before[cut:], max(self._given - cut, 0)
        return False


def _undecided(text: str) -> int:
    """Length of the end of `text` that may belong to the closing tag or to the white space before it."""
    for size in range(min(len(CLOSE) - 1, len(text)), 0, -1):
        if CLOSE.startswith(text[-size:]):
            return size + len(text[:-size]) - len(text[:-size].rstrip())
    return len(text) - len(text.rstrip())


def parser_for(chat_template: str | None, prompt: Sequence[Segment], tools: Sequence[Tool] = ()) -> ChannelParser:
    """The parser for a model, chosen by its template and by how the prompt of this turn ends.

    tools: those that the prompt offers; none of a model that `can_call_tools` denies.
    """
    offered = tuple(tools) if can_call_tools(chat_template) else ()
    if chat_template is not None and _is_harmony(chat_template):
        return harmony.HarmonyParser(offered)
    last = prompt[-1] if prompt else None
    scaffold = last.text if isinstance(last, TextSegment) and last.special else ""
    parser: PlainParser | ThinkTagParser = PlainParser()
    if chat_template is not None and CLOSE in chat_template:
        parser = ThinkTagParser(opened=scaffold.rstrip().endswith(OPEN))
    if not offered:
        return parser
    is_chatml = chat_template is None or hermes.TURN_START in chat_template
    return hermes.HermesParser(parser, offered, header=hermes.header_of(scaffold) if is_chatml else None)


def can_think(chat_template: str | None) -> bool:
    """Whether answers of a model with this template may begin with thinking: the parser then tells it apart."""
    return chat_template is not None and (_is_harmony(chat_template) or CLOSE in chat_template)


def can_call_tools(chat_template: str | None) -> bool:
    """Whether it is known how a model with this template writes calls, and reads their results. Where the template
    itself says nothing of tools but is ChatML, which ours is, others tell the model about them."""
    if chat_template is None:
        return True
    if _is_harmony(chat_template):
        return "<atem:" in chat_template
    return hermes.OPEN in chat_template or hermes.TURN_START in chat_template


def _is_harmony(chat_template: str) -> bool:
    return harmony.START in chat_template and harmony.MESSAGE in chat_template
