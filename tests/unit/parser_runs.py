"""What the tests of the parsers share: feeding in pieces, events in a form that no cut changes, tools to call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from muse.api.tools import Tool
from muse.chat.channel_types import BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind

SPELLING: Final = re.compile(r"(<\|[a-z_]+\|>)")


def tool(name: str, **properties: Any) -> Tool:
    """A tool; properties: the JSON type of each argument, or its schema."""
    schemas = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in properties.items()}
    return Tool(name=name, parameters=json.dumps({"type": "object", "properties": schemas}))


TOOLS: Final = (
    tool("f", n="integer", s="string", b="boolean", x="number", a="array"),
    tool("g"),
    tool("weather.get", city="string", days="integer"),
    tool("read.read", path="string"),
    tool("mail.send", text="string"),
    tool("news.send", text="string"),
)


def call(name: str, **arguments: Any) -> FoundCall:
    """As the parsers write it."""
    return FoundCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False))


class Reader(Protocol):
    """A parser, or the part of one that reads one message."""

    def feed(self, text: str) -> list[Event]: ...

    def flush(self) -> list[Event]: ...


def joined(events: Iterable[Event]) -> list[Event]:
    """Neighbouring pieces of one channel become one, so that cuts leave no trace."""
    whole: list[Event] = []
    for event in events:
        last = whole[-1] if whole else None
        if isinstance(event, tuple):
            assert event[1], "an empty piece"
            if isinstance(last, tuple) and last[0] == event[0]:
                whole[-1] = (event[0], last[1] + event[1])
                continue
        whole.append(event)
    return whole


def read(reader: Reader, chunks: Iterable[str]) -> list[Event]:
    """All events of a text in pieces."""
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return joined([*events, *reader.flush()])


def run(parser: ChannelParser, chunks: Iterable[tuple[str, TextKind]]) -> list[Event]:
    """All events of a turn in pieces."""
    events = [event for text, kind in chunks for event in parser.feed(text, kind)]
    return joined([*events, *parser.flush()])


def marked(turn: str) -> list[tuple[str, TextKind]]:
    """A turn as a worker that knows ids gives it."""
    return [(part, "control" if SPELLING.fullmatch(part) else "text") for part in SPELLING.split(turn) if part]


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces."""
    ordered = sorted(places)
    return [text[start:end] for start, end in zip([0, *ordered], [*ordered, len(text)], strict=True)]


def said(events: Iterable[Event], channel: Channel) -> str:
    """The text of a channel."""
    return "".join(event[1] for event in events if isinstance(event, tuple) and event[0] == channel)


def calls(events: Iterable[Event]) -> list[FoundCall]:
    """The good ones."""
    return [event for event in events if isinstance(event, FoundCall)]


def shown(events: Iterable[Event]) -> str:
    """The answer as one who shows broken calls as text has it."""
    return "".join(
        event.text if isinstance(event, BrokenCall) else event[1]
        for event in events
        if isinstance(event, BrokenCall) or (isinstance(event, tuple) and event[0] == "answer")
    )
