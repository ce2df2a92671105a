"""Which request runs in which slot of the native server.

Rule: a named session keeps the slot it used last while that slot is idle. Otherwise it takes an idle slot that
holds no session while fewer than `named` slots hold one, else the idle one of a session that was used longest ago.
A scratch request takes an idle slot without a session if there is one (the table has more slots than `named`), so it
leaves sessions where they are. A session that loses its slot is put into the server's cache in RAM and comes back
from it, so it is often still warm.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from muse.worker.engines.base import EngineFault

# Sessions whose ids are remembered; the server's prompt cache holds fewer.
_REMEMBERED: Final = 64


@attrs.define(slots=True)
class Resident:
    """What a session's last request left behind. ids: known from the start of the prompt on, None when that
    request failed half way. cold: the session was reset, nothing of it may be used again."""

    ids: Sequence[int] | None = ()
    cold: bool = False


@attrs.define(slots=True, eq=False)
class Slot:
    """ids: what its last request left in it, whosever that was; empty when that is not known. used: time of
    its last use, in requests."""

    number: int
    session_id: str | None = None
    ids: Sequence[int] = ()
    is_busy: bool = False
    used: int = 0


class SlotTable:
    """Hands out the slots 0 .. count-1, of which at most `named` hold a session. Thread-safe."""

    def __init__(self, count: int, *, named: int) -> None:
        self._named = named
        self._slots = [Slot(number) for number in range(count)]
        self._sessions: OrderedDict[str, Resident] = OrderedDict()
        self._lock = threading.Lock()
        self._now = 0

    @contextmanager
    def taken(self, session_id: str | None) -> Generator[Slot]:
        """Take a slot for the length of a request; Raises EngineFault when all are busy."""
        with self._lock:
            idle = [slot for slot in self._slots if not slot.is_busy]
            if not idle:
                raise EngineFault("capacity_exhausted", "all slots of the engine are busy")
            slot = self._choose(idle, session_id)
            self._now += 1
            slot.session_id, slot.is_busy, slot.used = session_id, True, self._now
        try:
            yield slot
        finally:
            with self._lock:
                slot.is_busy = False

    def _choose(self, idle: list[Slot], session_id: str | None) -> Slot:
        own = [slot for slot in idle if session_id is not None and slot.session_id == session_id]
        free = [slot for slot in idle if slot.session_id is None]
        held = [slot for slot in idle if slot.session_id is not None]
        is_full = sum(slot.session_id is not None for slot in self._slots) >= self._named
        choice = own or (held or free if session_id is not None and is_full else free or held)
        return min(choice, key=lambda slot: slot.used)

    def resident(self, session_id: str | None) -> Resident:
        """What is believed to be resident of a session; nothing for a scratch request."""
        with self._lock:
            return Resident() if session_id is None else self._sessions.get(session_id, Resident())

    def remember(self, session_id: str | None, slot: Slot, ids: Sequence[int] | None, *, cold: bool = False) -> None:
        """Note what a request of the session left behind in its slot; None: not known. cold: the session was reset,
        and the request ended before that took effect."""
        slot.ids = ids or ()
        if session_id is not None:
            self._store(session_id, Resident(ids=ids, cold=cold))

    def open(self, session_id: str) -> None:
        with self._lock:
            self._sessions.setdefault(session_id, Resident())

    def reset(self, session_id: str) -> None:
        self._store(session_id, Resident(cold=True))

    def close(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)
            for slot in self._slots:
                if slot.session_id == session_id:
                    slot.session_id = None

    def _store(self, session_id: str, resident: Resident) -> None:
        with self._lock:
            self._sessions[session_id] = resident
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > _REMEMBERED:
                self._sessions.popitem(last=False)
