"""The channels of Harmony, the language of Muse Glimmer: reasoning to oneself, the answer to the user, tool calls.

Grammar (contracts/harmony-format.md section 2), S = `<|start|>`, M = `<|message|>`:

    message := S "assistant" [" to=" recipient] [" constrain=" name] M body (`<|eom|>` | `<|eot|>`)

The prompt ends behind S "assistant", so a turn begins inside a header. `self` is reasoning, everything else
is visible: the user, nobody, and names that stand for nothing here. Messages of one kind are joined by a blank
line. Only `<|eot|>` ends a turn, or the header of somebody else's message: that part is not the model's.

Where tools are declared, a message to anybody but `self` and `user` may hold calls (atem.py), whatever its header
says exactly: models write the name of a tool, its namespace, nothing, or worse. What a model tells the user is
never a call, even if it reads like one.

Where the worker knows ids it says which tokens are control tokens, and text that merely looks like one is
text. Where it does not (`mixed`), spellings count, and what may still become one is held back until it is
one or is not. `flush` gives that out: no text is lost, and no control token is ever shown.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import attrs

from muse.api.tools import Tool
from muse.chat.atem import AtemParser, Schemas
from muse.chat.channel_types import BrokenCall, Channel, Event, FoundCall, TextKind
from muse.protocol import Segment, TextSegment

START: Final = "<|start|>"
MESSAGE: Final = "<|message|>"
END_OF_MESSAGE: Final = "<|eom|>"
END_OF_TURN: Final = "<|eot|>"

_SPELLING: Final = re.compile(r"<\|[a-z_]{1,24}\|>")
_UNFINISHED: Final = re.compile(r"<(\|([a-z_]{0,24}\|?)?)?\Z")
# Wider than the grammar: whatever stands between a role and `<|message|>` is no text for anybody.
_RECIPIENT: Final = re.compile(r"(?:assistant)?\s*to ?= ?(?P<to>[^\s]+)")
_HEADER: Final = re.compile(r"(?:assistant)?\s*(?:(?:to ?=|constrain=)[^\n]*)?")
_CUT_HEADER: Final = re.compile(r"\s+(?:to? ?|c|co|con|cons|const|constr|constra|constrai|constrain)")
_WORDS: Final = ("assistant", "to=", "to =", "constrain=")
_OTHER_ROLES: Final = ("user", "system", "developer", "tool")
_OTHER_HEADER: Final = re.compile(rf"\s*(?:{'|'.join(_OTHER_ROLES)})(?:[^\S\n][^\n]*)?")
# Longest header that is waited for: anything longer is a message without one.
_MOST_HEADER: Final = 256
_REASONING: Final = "self"
_USER: Final = "user"


class HarmonyParser:
    """One turn. Fed in order, any chunking. tools: those that the model was told of."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._tools = tuple(tools)
        self._schemas = Schemas()
        self._calls: AtemParser | None = None  # of the open message, if it may hold calls
        self._state: Literal["header", "body", "between"] = "header"
        self._header = ""
        self._is_own_header = True  # its role came with the prompt
        self._has_end = False  # the message before the header has its end token
        self._is_over = False
        self._channel: Channel = "answer"
        self._held = ""
        self._said: set[Channel] = set()
        self._is_joining = False  # a message of this kind came before: a blank line parts them

    @property
    def channel(self) -> Channel:
        """Where the next text belongs; a header belongs to the message before it."""
        return self._channel

    @property
    def turn_over(self) -> bool:
        """A header of another role came. What was generated from its `<|start|>` on is not part of the answer."""
        return self._is_over

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        """Take generated text, give what is certain."""
        events: list[Event] = []
        if kind == "control":
            self._release(events)
            self._control(text, events)
        elif kind == "text":
            self._release(events)
            self._text(text, events)
        else:
            self._mixed(text, events)
        return events

    def flush(self) -> list[Event]:
        """The generation is over: a header that never became one is text after all, but for one behind
        `<|start|>`, and one that was cut at its beginning and may go on later."""
        events: list[Event] = []
        self._release(events)
        is_whole = _HEADER.fullmatch(self._header) or _CUT_HEADER.fullmatch(self._header)
        if self._state == "header" and self._is_own_header and not is_whole:
            self._give_up_header(events)
        if self._calls is not None:
            self._pass_on(self._calls.flush(), events)
        return events

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """The end of the message and the header of one to the user."""
        if self._state != "body" or self._channel != "reasoning" or self._is_over:
            return None
        self._held = ""
        self._open("answer", holds_calls=False)
        return (TextSegment(text=f"{END_OF_MESSAGE}{START}assistant to=user{MESSAGE}", special=True),)

    def answer_call(self, name: str, text: str) -> tuple[TextSegment, ...]:
        """The end of the turn, if the model did not write one, and a message of the tool (contract section 3). If the
        turn is over, the prompt must end before the `<|start|>` of the other role."""
        match self._state:
            case "header":  # an empty message, so that what was begun has an end
                end = f"{MESSAGE}{END_OF_TURN}"
            case "body":
                end = END_OF_TURN
            case "between":
                end = ""
        self._state, self._header, self._is_own_header = "header", "", True
        self._calls, self._channel, self._is_over = None, "answer", False
        parts = (
            TextSegment(text=f"{end}{START}tool ", special=True),
            TextSegment(text=name, special=False),
            TextSegment(text=f'{MESSAGE}<tool_output name="', special=True),
            TextSegment(text=name, special=False),
            TextSegment(text='">\n', special=True),
            TextSegment(text=text, special=False),
            TextSegment(text=f"\n</tool_output>{END_OF_TURN}{START}assistant", special=True),
        )
        return tuple(part for part in parts if part.text)

    def copy(self) -> HarmonyParser:
        """One in the same state, which goes its own way from here."""
        return copy.deepcopy(self)

    # ------------------------------------------------------------ text whose control tokens are not marked

    def _mixed(self, text: str, events: list[Event]) -> None:
        text, self._held = self._held + text, ""
        position = 0
        for found in _SPELLING.finditer(text):
            self._text(text[position : found.start()], events)
            self._control(found[0], events)
            position = found.end()
        rest = text[position:]
        unfinished = _UNFINISHED.search(rest)
        cut = unfinished.start() if unfinished else len(rest)
        self._text(rest[:cut], events)
        self._held = rest[cut:]

    def _release(self, events: list[Event]) -> None:
        held, self._held = self._held, ""
        self._text(held, events)

    # ------------------------------------------------------------ the grammar

    def _control(self, token: str, events: list[Event]) -> None:
        if self._is_over or token not in (START, MESSAGE, END_OF_MESSAGE, END_OF_TURN):
            return  # any other control token says nothing here, and is not shown
        if self._state == "header" and not self._is_own_header and _OTHER_HEADER.fullmatch(self._header):
            self._state, self._header, self._is_over = "between" if self._has_end else "body", "", True
        elif token != MESSAGE:
            if token != START:
                self._has_end = True
            elif self._state == "body" or self._header:
                self._has_end = False
            self._close(events)
            if token == START:
                self._state, self._header, self._is_own_header = "header", "", False
        elif self._state != "body":
            header = _RECIPIENT.match(self._header)
            recipient = header["to"] if header is not None else None
            channel: Channel = "reasoning" if recipient == _REASONING else "answer"
            self._open(channel, holds_calls=recipient not in (_REASONING, _USER))

    def _text(self, text: str, events: list[Event]) -> None:
        if not text or self._is_over:
            return
        if self._state == "between":
            text = text.lstrip()
            if not text:
                return  # white space between messages is nobody's
            self._open("answer", holds_calls=True)
        if self._state == "header":
            self._header += text
            if not _may_become_header(self._header, any_role=not self._is_own_header):
                self._give_up_header(events)
            return
        self._read(text, events)

    def _give_up_header(self, events: list[Event]) -> None:
        """It was no header: a message without one, for the user."""
        text, self._header = self._header, ""
        if text:
            self._open("answer", holds_calls=True)
            self._read(text, events)

    def _open(self, channel: Channel, *, holds_calls: bool) -> None:
        self._state, self._channel, self._header = "body", channel, ""
        self._is_joining = channel in self._said
        self._calls = AtemParser(self._tools, self._schemas) if holds_calls and self._tools else None

    def _close(self, events: list[Event]) -> None:
        """The message is over."""
        if self._state == "header":
            self._give_up_header(events)
        if self._calls is not None:
            self._pass_on(self._calls.flush(), events)
            self._calls = None
        self._state = "between"

    # ------------------------------------------------------------ the text of a message

    def _read(self, text: str, events: list[Event]) -> None:
        if self._calls is None:
            self._say(text, events)
        else:
            self._pass_on(self._calls.feed(text), events)

    def _pass_on(self, found: Iterable[Event], events: list[Event]) -> None:
        for event in found:
            match event:
                case FoundCall():
                    events.append(event)
                case BrokenCall():
                    events.append(attrs.evolve(event, text=self._joint() + event.text))
                case (_, text):
                    self._say(text, events)

    def _say(self, text: str, events: list[Event]) -> None:
        if joint := self._joint():
            events.append((self._channel, joint))
        events.append((self._channel, text))

    def _joint(self) -> str:
        """What parts the text that follows from an earlier message."""
        joint = "\n\n" if self._is_joining else ""
        self._is_joining = False
        self._said.add(self._channel)
        return joint


def _may_become_header(text: str, *, any_role: bool) -> bool:
    """Whether text without its `<|message|>` may be a header or the beginning of one."""
    if len(text) > _MOST_HEADER:
        return False
    if _HEADER.fullmatch(text) or (any_role and _OTHER_HEADER.fullmatch(text)):
        return True
    if any_role and any(role.startswith(text.lstrip()) for role in _OTHER_ROLES):
        return True
    rest = text.removeprefix("assistant").lstrip() if text.startswith("assistant") else text.lstrip()
    return any(word.startswith(rest) for word in _WORDS)
