"""Calls of tools as JSON between tags.

    <tool_call>{"name": "...", "arguments": {...}}</tool_call>

An end tag inside of a string is part of the string. Only where the object then never becomes complete (its author
forgot a quotation mark) the tag was an end after all; what follows is read again from there. At the end of the
text, or before the next call, the end tag may be missing if the object is complete. No text is lost: what is not
part of a good call is given as text or within a BrokenCall.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from muse.api.tools import Tool
from muse.chat.channel_types import CUT_OFF, BrokenCall, Event, FoundCall
from muse.chat.json_scanner import JsonScanner
from muse.chat.prose import Prose
from muse.chat.tag_reader import TagReader
from muse.chat.tool_names import find_tool, unknown_tool
from muse.errors import ClientFault
from muse.strict_json import JsonValue, decode_json

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"

_TAG: Final = re.compile(r"</?tool_call>")
_SURELY: Final = "<tool_"  # the beginning of a tag that is so long that it is nothing else
_NAME: Final = re.compile(r'"name"\s*:\s*"([^"\\]{1,64})"')
# How many characters of a call are searched for the name of its tool if it cannot be read.
_SEARCHED: Final = 1000
_NOT_CLOSED: Final = "The end tag of the call is missing."
_NO_OBJECT: Final = 'A call must be a JSON object with "name" and "arguments".'
_NO_ARGUMENTS: Final = "The arguments of a call must be a JSON object."


@attrs.frozen
class _Token:
    kind: Literal["text", "open", "close"]
    raw: str


class JsonCallParser:
    """The answer of one turn, or a part of it. Fed in order, any chunking; linear in the length of the text."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)
        self._reader = TagReader(_TAG, _may_become_tag)
        self._prose = Prose()
        self._call: list[_Token] = []  # the open one, with its tag
        self._json = JsonScanner()
        self._is_end_due = False  # a call was good without its end tag, which may still come if the text goes on
        self._is_told = False  # that the call is cut off
        self._end: int | None = None  # behind the first end tag of the call that stood inside of a string

    def feed(self, text: str) -> list[Event]:
        """Take text, where tags are spelled out even if they are control tokens; give what is certain."""
        self._is_told = False
        events: list[Event] = []
        for found in self._reader.feed(text):
            if isinstance(found, str):
                self._take([_Token("text", found)], events)
            else:
                self._take([_Token("open" if found.match[0] == OPEN else "close", found.raw)], events)
        return events

    def flush(self) -> list[Event]:
        """The generation is over. A call that was cut off is told as such, once, and kept: should the text go on
        after all, it is completed."""
        if self._is_told:
            return []
        events: list[Event] = []
        while self._call and self._end is not None:
            self._take(self._end_in_string(events), events)
        held = self._reader.held
        if (self._call and not self._json.is_complete) or held.startswith(_SURELY):
            written = self._prose.before_broken() + _joined(self._call) + held
            events.append(BrokenCall(text=written, name=_name_in(written), reason=CUT_OFF))
            self._is_told = True
            return events
        may_be_end = CLOSE.startswith(held)
        if self._call:
            if may_be_end:
                self._call.append(_Token("close", held))
            self._finish(events)
            self._is_end_due = isinstance(events[-1], FoundCall)
            if may_be_end and not self._is_end_due:
                self._reader.held = ""
        if not self._is_end_due or not may_be_end:
            events += self._prose.text(self._reader.give_out())
        events += self._prose.end()
        return events

    def _take(self, tokens: Sequence[_Token], events: list[Event]) -> None:
        waiting = deque(tokens)
        while waiting:
            token = waiting.popleft()
            if self._call:
                waiting.extendleft(reversed(self._in_call(token, events)))
            elif token.kind == "open":
                self._call, self._json, self._is_end_due = [token], JsonScanner(), False
            elif token.kind == "close" and self._is_end_due:
                self._is_end_due = False
            else:
                self._is_end_due = self._is_end_due and token.raw.isspace()
                events += self._prose.text(token.raw)

    def _in_call(self, token: _Token, events: list[Event]) -> Sequence[_Token]:
        """Returns what has to be looked at once more, since the call ended before it."""
        if token.kind == "text":
            return self._text_in_call(token, events)
        if self._json.is_in_string:
            self._call.append(token)
            if token.kind == "close" and self._end is None:
                self._end = len(self._call)
            return ()
        if self._end is not None:
            return [*self._end_in_string(events), token]
        if token.kind == "open":
            self._finish(events, fault=None if self._json.is_complete else _NOT_CLOSED)
            return [token]
        self._call.append(token)
        self._finish(events)
        return ()

    def _text_in_call(self, token: _Token, events: list[Event]) -> Sequence[_Token]:
        self._call.append(token)
        self._json.feed(token.raw)
        if self._json.is_complete:
            self._end = None
        if self._json.is_broken and self._end is not None:
            return self._end_in_string(events)
        return ()

    def _end_in_string(self, events: list[Event]) -> Sequence[_Token]:
        """The end tag inside of a string was the end. Returns what came after it."""
        rest = self._call[self._end :]
        del self._call[self._end :]
        self._finish(events)
        return rest

    def _finish(self, events: list[Event], fault: str | None = None) -> None:
        call, self._call, self._end = self._call, [], None
        before = self._prose.before_broken()
        body = call[1:-1] if call[-1].kind == "close" else call[1:]
        result = self._read(_joined(body), fault)
        if isinstance(result, BrokenCall):
            result = attrs.evolve(result, text=before + _joined(call))
        events.append(result)
        self._prose.end_call(is_shown=isinstance(result, BrokenCall))

    def _read(self, text: str, fault: str | None) -> FoundCall | BrokenCall:
        """What stood between the tags, as a call."""
        if fault is not None:
            return BrokenCall(text=text, name=_name_in(text), reason=fault)
        try:
            value = decode_json(text.encode("utf-8", "surrogatepass"))
        except ClientFault as error:
            return BrokenCall(text=text, name=_name_in(text), reason=f"The call cannot be read. {error.detail}")
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(name, str):
            return BrokenCall(text=text, name=None, reason=_NO_OBJECT)
        tool = find_tool(name, self._tools)
        if tool is None:
            return BrokenCall(text=text, name=name or None, reason=unknown_tool(name))
        arguments = value.get("arguments", value.get("parameters"))
        if isinstance(arguments, str):
            arguments = _object_in(arguments)  # small models write them as OpenAI's API does
        if arguments is None:
            arguments = {}  # models write so for a function without parameters
        if not isinstance(arguments, dict):
            return BrokenCall(text=text, name=tool.name, reason=_NO_ARGUMENTS)
        return FoundCall(name=tool.name, arguments=json.dumps(arguments, ensure_ascii=False, allow_nan=False))


def _object_in(text: str) -> JsonValue:
    """The JSON object that a text holds; None for an empty text, the text itself where it holds something else."""
    if not text.strip():
        return None
    try:
        value = decode_json(text.encode())
    except ClientFault:
        return text
    return value if isinstance(value, dict) else text


def _may_become_tag(text: str) -> bool:
    return OPEN.startswith(text) or CLOSE.startswith(text)


def _joined(tokens: Sequence[_Token]) -> str:
    return "".join(token.raw for token in tokens)


def _name_in(text: str) -> str | None:
    found = _NAME.search(text, 0, _SEARCHED)
    return found[1] if found else None
