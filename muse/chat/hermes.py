"""Tools of ChatML models: calls are JSON between tags in the answer (json_calls.py), results are messages of the user.

The text comes from the parser of the model's channels, and only its answer is read here: a call inside a thought
is a thought.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from muse.api.tools import Tool
from muse.chat.channel_types import BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.chat.json_calls import CLOSE, OPEN, JsonCallParser
from muse.protocol import Segment, TextSegment

TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"


def header_of(scaffold: str) -> str:
    """What begins the model's turn at the end of a ChatML prompt. scaffold: the template's own text there; it may
    go on behind the role, such as with an open thought."""
    _, start, rest = scaffold.rpartition(TURN_START)
    return start + rest if start else f"{TURN_START}assistant\n"


class HermesParser:
    """One turn. Fed in order, any chunking.

    channels: a new parser of the model's channels. header: of the model's own turn, for results of tools; None if
    the language of the prompt is not ChatML.
    """

    def __init__(self, channels: ChannelParser, tools: Sequence[Tool], *, header: str | None) -> None:
        self._at_start = channels.copy()
        self._channels = channels
        self._tools = tuple(tools)
        self._header = header
        self._calls = JsonCallParser(self._tools)
        self._said: set[Channel] = set()
        self._joining: set[Channel] = set()  # a blank line parts what follows a tool's result from what came before
        self._has_end = False
        self._is_over = False

    @property
    def channel(self) -> Channel:
        """Where the next text belongs."""
        return self._channels.channel

    @property
    def turn_over(self) -> bool:
        """The control token that begins a turn came."""
        return self._is_over

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        """Take generated text, give what is certain."""
        if self._is_over:
            return []
        if kind == "control" and self._header is not None:
            if text == TURN_START:
                events = self.flush()
                self._is_over = True
                return events
            self._has_end = text == TURN_END
        elif text.strip():
            self._has_end = False
        if kind == "control" and text in (OPEN, CLOSE):
            kind = "text"
        return self._read(self._channels.feed(text, kind))

    def flush(self) -> list[Event]:
        """The generation is over: a call without an end tag is one if it is complete."""
        if self._is_over:
            return []
        events = self._read(self._channels.flush())
        events += self._joined(self._calls.flush())
        return events

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """As the model's channels do it."""
        return None if self._is_over else self._channels.close_reasoning()

    def answer_call(self, name: str, text: str) -> tuple[TextSegment, ...] | None:
        """The end of the turn, if the model did not write one, and the result in a message of the user. Results
        carry no name here: they stand in the order of the calls. If the turn is over, the prompt must end before
        its `<|im_start|>`."""
        if self._header is None:
            return None
        begin = f"{'' if self._has_end else TURN_END}\n{TURN_START}user\n"
        self._channels = self._at_start.copy()
        self._calls = JsonCallParser(self._tools)
        self._joining = set(self._said)
        self._has_end = self._is_over = False
        parts = (
            TextSegment(text=f"{begin}<tool_response>\n", special=True),
            TextSegment(text=text, special=False),
            TextSegment(text=f"\n</tool_response>{TURN_END}\n{self._header}", special=True),
        )
        return tuple(part for part in parts if part.text)

    def copy(self) -> HermesParser:
        """One in the same state, which goes its own way from here."""
        return copy.deepcopy(self)

    def _read(self, found: Iterable[Event]) -> list[Event]:
        events: list[Event] = []
        for event in found:
            if isinstance(event, tuple) and event[0] == "answer":
                events += self._joined(self._calls.feed(event[1]))
            else:
                events += self._joined([event])
        return events

    def _joined(self, found: Iterable[Event]) -> list[Event]:
        events: list[Event] = []
        for event in found:
            match event:
                case FoundCall():
                    events.append(event)
                case BrokenCall():
                    events.append(attrs.evolve(event, text=self._joint("answer") + event.text))
                case (channel, text):
                    if joint := self._joint(channel):
                        events.append((channel, joint))
                    events.append((channel, text))
        return events

    def _joint(self, channel: Channel) -> str:
        joint = "\n\n" if channel in self._joining else ""
        self._joining.discard(channel)
        self._said.add(channel)
        return joint
