"""Splits what a model generates into its channels: the visible answer and the reasoning before it.

One parser a turn, fed in order, any chunking. Models without channels pass through; models that think
between `<think>` tags are told by their template. What could still become a marker is held back until it is
one or is not, and `flush` gives it out at the end: no text is ever lost. Calls of tools are read by parsers of
their own (harmony.py, hermes.py), which are chosen here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from muse.api.tools import Tool
from muse.chat import harmony, hermes
from muse.chat.channel_types import Channel, ChannelParser, Event, TextKind
from muse.chat.think_tags import CLOSE, OPEN, ThinkTagParser
from muse.protocol import Segment, TextSegment


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
