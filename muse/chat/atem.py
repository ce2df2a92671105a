"""ATEM, the language in which Muse Glimmer calls tools (contracts/harmony-format.md section 5).

    block  := "<atem:function_calls>" invoke+ "</atem:function_calls>"
    invoke := '<atem:invoke name="' NAME '">' param* "</atem:invoke>"
    param  := '<atem:parameter name="' KEY '">' VALUE "</atem:parameter>"

with white space between the tags. It is not XML: values are raw, and may hold what looks like a tag. So an end tag
counts only if what must follow it does, and a call is known when the next one, the end of the text, or the end of
its block shows that it is over. Where text follows the end of a block, all of it may have been inside a value; the
last end that is possible counts.

States, and what they wait for:

    outside       text for the user, or a tag that opens a block or a call
    block         behind the opening tag of a block: a call, or else that tag was text
    call          behind the opening tag of a call: its first parameter, or its end
    value         the end of a parameter
    after value   what shows that this was the end of the parameter
    after call    the same for the call
    after block   the same for the block

A call that is wrong is still read to its end, so that the good ones around it are kept. No text is lost: what is
not part of a good call is given as text or within a BrokenCall.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Literal

import attrs

from muse.api.tools import Tool
from muse.chat.allowed_values import SchemaReader, Work
from muse.chat.atem_tags import BLOCK_END, TAG, Token, is_tag_surely, may_become_tag, token_of
from muse.chat.atem_values import typed_value
from muse.chat.channel_types import CUT_OFF, BrokenCall, Event, FoundCall
from muse.chat.prose import Prose
from muse.chat.tag_reader import TagReader
from muse.chat.tool_names import find_tool, unknown_tool

_BAD_CALL: Final = 'The tag of a call must read <atem:invoke name="NAME">.'
_BAD_PARAMETER: Final = 'The tag of a parameter must read <atem:parameter name="NAME">.'
_OUTSIDE_PARAMETERS: Final = "The call holds text outside of its parameters."
_NOT_CLOSED: Final = "The end tag of the call is missing."

State = Literal["outside", "block", "call", "value", "after value", "after call", "after block"]


@attrs.define
class _Call:
    """A call that is being read. raw: all that it was written with, and the tag of the block before it. Places are
    indices into raw."""

    raw: list[str]
    name: str
    fault: str | None = None
    key: str | None = None
    """Of the open parameter; `values` has those before it."""
    start: int = 0
    end: int = 0
    """Of the value of the open parameter."""
    stop: int = 0
    """Behind the end tag of the call, or of the block if that came."""
    doubtful: tuple[int, int] | None = None
    """(end, stop), where text followed: they count unless a later pair does."""
    values: list[tuple[str, int, int]] = attrs.field(factory=list[tuple[str, int, int]])

    def open_parameter(self, tag: Token) -> None:
        self.close_parameter()
        if tag.is_malformed:
            self.fault = self.fault or _BAD_PARAMETER
        self.key, self.doubtful = tag.name, None
        self.raw.append(tag.raw)
        self.start = len(self.raw)

    def close_parameter(self) -> None:
        if self.key is not None:
            self.values.append((self.key, self.start, self.end))
            self.key = None

    def result(self, tools: Sequence[Tool], schemas: Schemas, before: str) -> FoundCall | BrokenCall:
        """Of a call that is complete."""
        tool = find_tool(self.name, tools)
        if tool is None or self.fault is not None:
            return BrokenCall(
                text=before + "".join(self.raw[: self.stop]),
                name=tool.name if tool else self.name or None,
                reason=self.fault or unknown_tool(self.name),
            )
        reader = schemas.of(tool)
        arguments = {
            key: typed_value("".join(self.raw[start:end]), reader.property(key)) for key, start, end in self.values
        }
        return FoundCall(name=tool.name, arguments=json.dumps(arguments, ensure_ascii=False, allow_nan=False))


class Schemas:
    """What the schemas of the tools allow, each read once for all messages of an answer."""

    def __init__(self) -> None:
        self._readers: dict[str, SchemaReader] = {}
        self._work = Work()

    def of(self, tool: Tool) -> SchemaReader:
        """That of the arguments of a tool."""
        if tool.name not in self._readers:
            self._readers[tool.name] = SchemaReader(tool, self._work)
        return self._readers[tool.name]

    def __deepcopy__(self, _memo: object) -> Schemas:
        return self  # what it knows depends on the tools alone


class AtemParser:
    """The body of one message. Fed in order, any chunking; linear in the length of the text. schemas: of the tools, if
    they are shared with the parsers of other messages."""

    def __init__(self, tools: Sequence[Tool], schemas: Schemas | None = None) -> None:
        self._tools = tuple(tools)
        self._schemas = schemas or Schemas()
        self._reader = TagReader(TAG, may_become_tag)
        self._prose = Prose()
        self._state: State = "outside"
        self._is_in_block = False
        self._has_good_call = False  # in the block: its tags are nobody's text
        self._opening: list[str] = []  # of a block, until a call shows that it is one
        self._call = _Call([], "")
        self._is_told = False  # that the call is cut off

    def feed(self, text: str) -> list[Event]:
        """Take text of the message, without control tokens; give what is certain."""
        self._is_told = False
        events: list[Event] = []
        for found in self._reader.feed(text):
            token = Token("text", found) if isinstance(found, str) else token_of(found)
            while not self._take(token, events):
                pass
        return events

    def flush(self) -> list[Event]:
        """The message is over, or the generation. A call that was cut off is told as such, once, and kept: should
        the text go on after all, it is completed."""
        if self._is_told:
            return []
        events: list[Event] = []
        if self._state in ("after call", "after block"):
            self._finish(events)
        elif self._state != "outside" and self._call.doubtful is not None:
            self._finish_doubtful(events)
        held = self._reader.held
        if self._state != "outside" or is_tag_surely(held):
            is_call = self._state not in ("outside", "block")
            parts = self._call.raw if is_call else self._opening
            text = self._prose.before_broken() + "".join(parts) + held
            events.append(BrokenCall(text=text, name=self._call.name or None, reason=CUT_OFF))
            self._is_told = True
            return events
        if not self._has_good_call or not BLOCK_END.startswith(held):  # of which it may be the end, or become it
            events += self._prose.text(self._reader.give_out())
        events += self._prose.end()
        return events

    # ------------------------------------------------------------ the states; false: look at the token again

    def _take(self, token: Token, events: list[Event]) -> bool:
        match self._state:
            case "outside":
                return self._outside(token, events)
            case "block":
                return self._in_block(token, events)
            case "call":
                return self._in_call(token, events)
            case "value":
                return self._in_value(token, events)
            case "after value":
                return self._after_value(token, events)
            case "after call":
                return self._after_call(token, events)
            case "after block":
                return self._after_block(token, events)

    def _outside(self, token: Token, events: list[Event]) -> bool:
        if token.kind == "block":
            self._state, self._opening = "block", [token.raw]
        elif token.kind == "invoke":
            self._open_call(token)
        else:
            if token.kind != "/block" or not self._has_good_call:
                events += self._prose.text(token.raw)
            if token.kind == "/block":
                self._is_in_block = self._has_good_call = False
        return True

    def _in_block(self, token: Token, events: list[Event]) -> bool:
        if token.is_space:
            self._opening.append(token.raw)
            return True
        if token.kind == "invoke":
            self._is_in_block, self._has_good_call = True, False
            self._open_call(token)
            return True
        for text in self._opening:
            events += self._prose.text(text)
        self._opening = []
        self._state = "outside"
        return False

    def _open_call(self, tag: Token) -> None:
        self._call = _Call([*self._opening, tag.raw], tag.name, _BAD_CALL if tag.is_malformed else None)
        self._opening = []
        self._state = "call"

    def _in_call(self, token: Token, events: list[Event]) -> bool:
        call = self._call
        if token.kind == "parameter":
            call.open_parameter(token)
            self._state = "value"
        elif token.kind == "/invoke":
            self._end("after call", token)
        elif token.kind in ("block", "invoke", "/block"):
            return self._give_up(token, events)
        else:
            call.raw.append(token.raw)
            if not token.is_space:
                call.fault = call.fault or _OUTSIDE_PARAMETERS
        return True

    def _in_value(self, token: Token, events: list[Event]) -> bool:
        call = self._call
        if token.kind in ("block", "invoke") and call.doubtful is not None:
            self._finish_doubtful(events)
            return False
        if token.kind == "/parameter":
            call.end = len(call.raw)
            self._state = "after value"
        call.raw.append(token.raw)
        return True

    def _after_value(self, token: Token, events: list[Event]) -> bool:
        call = self._call
        if token.is_space:
            call.raw.append(token.raw)
        elif token.kind == "parameter":
            call.open_parameter(token)
            self._state = "value"
        elif token.kind == "/invoke":
            self._end("after call", token)
        elif token.kind in ("block", "invoke", "/block") and call.doubtful is None:
            return self._give_up(token, events)
        else:
            self._state = "value"
            return False
        return True

    def _after_call(self, token: Token, events: list[Event]) -> bool:
        if token.is_space:
            self._call.raw.append(token.raw)
        elif token.kind == "/block":
            self._end("after block", token)
        elif token.kind in ("block", "invoke"):
            self._finish(events)
            return False
        else:
            return self._go_on(events, is_possible_end=not self._is_in_block)
        return True

    def _after_block(self, token: Token, events: list[Event]) -> bool:
        if token.is_space:
            self._call.raw.append(token.raw)
            return True
        if token.kind in ("block", "invoke"):
            self._finish(events)
            return False
        return self._go_on(events, is_possible_end=True)

    # ------------------------------------------------------------ the end of a call

    def _end(self, state: State, tag: Token) -> None:
        self._state = state
        self._call.raw.append(tag.raw)
        self._call.stop = len(self._call.raw)

    def _go_on(self, events: list[Event], *, is_possible_end: bool) -> bool:
        """Text follows an end: the open value may hold that end."""
        call = self._call
        if call.key is None:
            self._finish(events)
            return False
        if is_possible_end:
            call.doubtful = (call.end, call.stop)
        self._state = "value"
        return False

    def _give_up(self, token: Token, events: list[Event]) -> bool:
        """The block is over, or another begins, and the call has no end."""
        call = self._call
        call.close_parameter()
        call.fault = call.fault or _NOT_CLOSED
        call.stop = len(call.raw)
        if token.kind == "/block":
            self._end("after block", token)
            return True
        self._finish(events)
        return False

    def _finish_doubtful(self, events: list[Event]) -> None:
        assert self._call.doubtful is not None
        self._call.end, self._call.stop = self._call.doubtful
        self._state = "after block"
        self._finish(events)

    def _finish(self, events: list[Event]) -> None:
        """The call is over at its `stop`; what was kept behind that is text."""
        call, self._call = self._call, _Call([], "")
        call.close_parameter()
        before = self._prose.before_broken()
        result = call.result(self._tools, self._schemas, before)
        events.append(result)
        is_good = isinstance(result, FoundCall)
        self._prose.end_call(is_shown=not is_good)
        if self._state == "after block":
            self._is_in_block = self._has_good_call = False
        elif is_good:
            self._has_good_call = self._is_in_block
        self._state = "outside"
        for text in call.raw[call.stop :]:
            events += self._prose.text(text)
