"""Which conversations the program holds, what is resident of each, and what it will reuse of it.

The program says only at the end of an answer what it reused, and our protocol says it before the first token. Its rule
is known (contracts/worker-protocol.md section 7), and what is resident too, from the ids at the end of each answer; so
it is foretold. What is in doubt is reset before it is used. Resident tokens of a picture are negative numbers that
stand for its content: to the program all pictures of one size are the same, so where ours differ it is reset too.

The program never lets go of a conversation by itself (section 9): the one used longest ago is closed for another.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import attrs

from muse.protocol import ResetReason
from muse.worker.engines.base import EngineFault
from muse.worker.engines.native.exchange import Exchange
from muse.worker.engines.native.prompt import Prompt
from muse.worker.engines.native.wire import Op, Terminal

SCRATCH: Final = ""
"""The program's own name for what belongs to no conversation; nothing of it is ever reused."""
_CAPACITY_CODES: Final = frozenset({"capacity_exhausted", "unsupported_session"})


@attrs.define(slots=True, eq=False)
class Held:
    """A conversation in the program. ids: what is resident, None: in doubt. was_reset: it is to be, before its next
    use, because somebody wanted it forgotten."""

    ids: list[int] | None = attrs.field(factory=list[int])
    was_reset: bool = False


@attrs.frozen(kw_only=True)
class Plan:
    """How a prompt will be read. name: of the conversation in the program. reused: tokens that are resident."""

    name: str
    held: Held | None
    reason: ResetReason
    reused: int


def foretell(resident: Sequence[int], prompt: Prompt) -> tuple[ResetReason, int]:
    """What the program will reuse of a conversation, and why not more. A picture has the whole prompt read."""
    ids = prompt.ids
    if not resident:
        return "new", 0
    if len(ids) < len(resident) or ids[: len(resident)] != list(resident):
        return "mismatch", 0
    if len(ids) == len(resident):
        return "equal", 0
    if any(place.start >= len(resident) for place in prompt.places):
        return "new", 0
    return "exact_prefix", len(resident)


class Sessions:
    """named: how many conversations the program holds. Small commands come from other threads than prompts."""

    def __init__(self, named: int) -> None:
        self._named = named
        self._lock = threading.Lock()
        self._table: OrderedDict[str, Held] = OrderedDict()
        self._closing: list[str] = []

    # ------------------------------------------------------------ small commands

    def reset(self, session_id: str) -> None:
        """Forget what is resident of a conversation, once the program is free."""
        with self._lock:
            if session_id in self._table:
                self._table[session_id] = Held(was_reset=True)

    def close(self, session_id: str) -> None:
        """Forget a conversation; `tidy` frees its place."""
        with self._lock:
            if self._table.pop(session_id, None) is not None:
                self._closing.append(_name(session_id))

    def resident(self, session_id: str) -> list[int] | None:
        """What is resident; None: in doubt."""
        with self._lock:
            held = self._table.get(session_id)
        return [] if held is None else held.ids

    # ------------------------------------------------------------ with the program

    def tidy(self, turn: Exchange) -> None:
        """Close what was closed meanwhile. Raises EngineFault."""
        with self._lock:
            closing, self._closing = self._closing, []
        for name in closing:
            _demand(turn, "close", name)

    def prepare(self, turn: Exchange, session_id: str | None, prompt: Prompt) -> Plan:
        """Make a conversation ready for a prompt. Raises EngineFault, before anything is changed if it is for the
        prompt's sake."""
        with self._lock:
            held = self._table.get(session_id) if session_id is not None else None
        reason, reused = foretell((held.ids if held else None) or (), prompt)
        if not reused and len(prompt.places) > 1:
            raise EngineFault(
                "unsupported",
                f"the native worker reads one picture in a prompt, and this conversation has {len(prompt.places)}: "
                "leave all but one out, or start a new chat",
                image=1,
            )
        self.tidy(turn)
        if held is None and session_id is not None:
            held = self._admit(turn, session_id)
        if held is None or session_id is None:
            return Plan(name=SCRATCH, held=None, reason="new", reused=0)
        name = _name(session_id)
        if held.ids is None:
            reason = "dirty"
        if held.ids is None or held.was_reset or (not reused and any(token < 0 for token in held.ids)):
            _demand(turn, "reset", name)
            held.was_reset = False
            held.ids = []
        with self._lock:
            if self._table.get(session_id) is held:
                self._table.move_to_end(session_id)
        return Plan(name=name, held=held, reason=reason, reused=reused)

    def _admit(self, turn: Exchange, session_id: str) -> Held | None:
        """Give a conversation a place; None: the program has none for anybody."""
        while self._named:
            with self._lock:
                leaving = [self._table.popitem(last=False)[0] for _ in range(len(self._table) - self._named + 1)]
            for other in leaving:
                _demand(turn, "close", _name(other))
            refusal = turn.op("open", _name(session_id))
            if refusal is None:
                held = Held()
                with self._lock:
                    self._table[session_id] = held
                return held
            if refusal.code not in _CAPACITY_CODES:
                raise EngineFault("engine_error", f"the native worker cannot open a conversation: {refusal.message}")
            # It holds fewer than it said. Where that is none at all, every prompt is read from its beginning.
            with self._lock:
                self._named = len(self._table)
            sys.stderr.write(f"the native worker holds {self._named} conversations, no more: {refusal.code}\n")
        return None


def settle(plan: Plan, prompt: Prompt, end: Terminal | None) -> None:
    """Note what an answer left behind. end None: it failed, so nothing is known. Where the program counted another
    prompt than ours nothing is known either."""
    if plan.held is None:
        return
    known = end is not None and end.ids is not None and end.prompt_tokens == len(prompt.ids)
    plan.held.ids = prompt.ids + list(end.ids) if known and end and end.ids is not None else None


def _name(session_id: str) -> str:
    """A conversation's name in the program: never empty, and none of ours."""
    return f"chat-{session_id}"


def _demand(turn: Exchange, op: Op, name: str) -> None:
    refusal = turn.op(op, name)
    if refusal is not None:
        raise EngineFault("engine_error", f"the native worker cannot {op} a conversation: {refusal.message}")
