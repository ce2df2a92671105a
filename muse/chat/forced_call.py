"""A call that must be made (`tool_choice` required, or a certain function).

Constrained decoding holds the answer to one JSON object, the name of a tool and arguments by its schema
(muse/structured/jobs.py), whatever form the model has for calls of its own. So the call is always valid, and the model
gets no thoughts before it. Its arguments go out letter by letter as they were generated, whatever numbers and nesting
they have. The object is not what the model would have written, so its ids are not kept: later prompts have the call as
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from muse.chat import harmony
from muse.chat.channel_types import CUT_OFF, BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.json_text import read_object_text
from muse.protocol import Segment, TextSegment


def call_prefix(parser: ChannelParser, forced: Sequence[str]) -> tuple[Segment, ...]:
    """What stands between the prompt and the object. parser: that of an ordinary answer, as it is before the first
    token; it knows whether the prompt has opened a thought."""
    if isinstance(parser, harmony.HarmonyParser):
        recipient = forced[0] if len(forced) == 1 else "tool"
        return (TextSegment(text=f" to={recipient}{harmony.MESSAGE}", special=True),)
    return (*(parser.close_reasoning() or ()), TextSegment(text="<tool_call>\n", special=True))


def answer_prefix(parser: ChannelParser) -> tuple[Segment, ...]:
    """What stands between the prompt and an answer that is constrained to JSON: the model would write it itself before
    an answer to the user. parser: as above."""
    if isinstance(parser, harmony.HarmonyParser):
        return (TextSegment(text=f" to=user{harmony.MESSAGE}", special=True),)
    return parser.close_reasoning() or ()


class ForcedCallParser:
    """Reads the one object. Nothing is certain before its end. forced: names of the tools that may be called."""

    def __init__(self, forced: Sequence[str]) -> None:
        self._forced = forced
        self._texts: list[str] = []

    @property
    def channel(self) -> Channel:
        return "answer"

    @property
    def turn_over(self) -> bool:
        return False

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        if kind != "control":
            self._texts.append(text)
        return []

    def flush(self) -> list[Event]:
        text = "".join(self._texts)
        if not text:
            return []
        members: dict[str, str] = {}
        with suppress(ValueError):
            members = dict(read_object_text(text).members)
        name = next((name for name in self._forced if members.get("name") == f'"{name}"'), None)
        arguments = members.get("arguments", "")
        if name is None or not arguments.startswith("{"):
            return [BrokenCall(text=text, name=None, reason=CUT_OFF)]  # kept, for it may go on
        self._texts.clear()
        return [FoundCall(name=name, arguments=arguments)]

    def close_reasoning(self) -> None:
        return

    def answer_call(self, name: str, text: str) -> None:
        return

    def copy(self) -> ForcedCallParser:
        copied = ForcedCallParser(self._forced)
        copied._texts = self._texts[:]
        return copied
