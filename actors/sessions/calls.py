"""Calls of tools in one answer: good ones go to the client, a broken one may be told to the model instead."""

from __future__ import annotations

from typing import Final

from actors.reply import Reply
from muse.api.responses import new_call_id
from muse.api.tools import ToolCall
from muse.chat.channel_types import BrokenCall, FoundCall

MAX_REPAIRS: Final = 2


class Calls:
    """repair: a broken call is held back, for the model to try again; else it is text of the answer. Not once a good
    call went out: the client has to answer that one, and the model's turn is over. What is said behind a call that is
    held waits with it, so that both are shown in the order in which they were written."""

    def __init__(self, reply: Reply, *, repair: bool, earlier: tuple[ToolCall, ...] = ()) -> None:
        self.warning: str | None = None
        """What was wrong with the last broken call."""
        self.repairs = 0
        self._reply = reply
        self._repair = repair
        self._earlier = earlier
        self._held: BrokenCall | None = None
        self._said_since: list[str] = []

    @property
    def all(self) -> tuple[ToolCall, ...]:
        """Every call so far, with those before a `continue`."""
        return self._earlier + self._reply.calls

    def found(self, call: FoundCall) -> None:
        """Pass a call on."""
        self._reply.append_call(ToolCall(id=new_call_id(), name=call.name, arguments=call.arguments))

    def broken(self, call: BrokenCall) -> str:
        """Take a broken call; returns what of it is text of the answer now: all, or nothing yet."""
        self.warning = call.reason
        if self._held is not None:
            self._said_since.append(call.text)
            return ""
        if self._repair and self.repairs < MAX_REPAIRS and not (self._earlier or self._reply.call_count):
            self._held = call
            return ""
        return call.text

    @property
    def is_holding(self) -> bool:
        """A broken call is held: what is said now has to wait."""
        return self._held is not None

    def hold(self, text: str) -> None:
        """Keep what was said behind the call that is held."""
        self._said_since.append(text)

    def release(self) -> tuple[str, str]:
        """There is nothing to repair any more: the call that was held back is text after all. Returns it, and what was
        said behind it."""
        held, self._held = self._held, None
        return (held.text if held is not None else "", self._take_said())

    def take_for_repair(self) -> tuple[BrokenCall, str] | None:
        """The call that the model is to be told about, and what was said behind it; None if there is none. Neither is
        held any more."""
        held, self._held = self._held, None
        if held is None:
            return None
        self.repairs += 1
        return held, self._take_said()

    def _take_said(self) -> str:
        said = "".join(self._said_since)
        self._said_since.clear()
        return said
