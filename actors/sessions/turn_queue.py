"""TurnQueue: which turns wait, which run, and who is next. Plain state, no await; the session manager owns it.

Rule of admission: first in, first out; at most the worker's `max_inflight_requests` at a time; one turn of a session at
a time (a second request on it waits without holding others up), and none of one that is being ended.
"""

from __future__ import annotations

from collections import Counter

from actors.sessions.turn import Turn
from actors.state_board import ANSWERING, RequestCounts, StateBoard


class TurnQueue:
    """Tells the turns their places, and the board the counts."""

    def __init__(self, board: StateBoard) -> None:
        self.waiting: list[Turn] = []
        self.running: list[Turn] = []
        self._board = board
        self._ending: Counter[str] = Counter()

    @property
    def chars(self) -> int:
        """What the requests of all turns hold, in characters."""
        return sum(turn.request_chars for turn in self.running + self.waiting)

    def put(self, turn: Turn) -> None:
        """A turn is the last to wait, unless it can run at once."""
        self.waiting.append(turn)
        self.admit()

    def end(self, turn: Turn) -> None:
        """A turn is over, wherever it was."""
        for turns in (self.running, self.waiting):
            if turn in turns:
                turns.remove(turn)
        self.admit()

    def has(self, turn: Turn) -> bool:
        """Whether its task may still be at work."""
        return turn in self.running or turn in self.waiting

    def unfinished(self, session_id: str) -> list[Turn]:
        """Turns of a session that still have to end. One that has its outcome is over for everybody who asks, though
        its task may need a moment more."""
        turns = self.running + self.waiting
        return [turn for turn in turns if turn.reply.session_id == session_id and turn.reply.outcome is None]

    def close_for(self, session_id: str) -> None:
        """Admit no turn of this session until `reopen` was called as often."""
        self._ending[session_id] += 1

    def reopen(self, session_id: str) -> None:
        """The session was ended: one of the same name may begin."""
        self._ending[session_id] -= 1
        if not self._ending[session_id]:
            del self._ending[session_id]
        self.admit()

    def is_closed_for(self, session_id: str | None) -> bool:
        """Whether the session is being ended."""
        return session_id is not None and self._ending[session_id] > 0

    def has_room_for(self, session_id: str | None) -> bool:
        """Whether a turn of this session would run at once."""
        is_busy = session_id is not None and any(turn.reply.session_id == session_id for turn in self.running)
        return len(self.running) < self._capacity() and not is_busy and not self.is_closed_for(session_id)

    def admit(self) -> None:
        """Let run what may. After each change of the board, too."""
        # With a worker that will not come back by itself, waiting makes no sense: every turn goes on, to
        # find the reason on the board and fail with it.
        hopeless = self._board.value.worker.state in ("failed", "stopped")
        for turn in list(self.waiting):
            if hopeless or self.has_room_for(turn.reply.session_id):
                self.waiting.remove(turn)
                self.running.append(turn)
                turn.admit()
        if self._capacity():
            for position, turn in enumerate(self.waiting, start=1):
                turn.place(position)
        waiting = tuple(turn.reply.id for turn in self.waiting)
        self._board.change(requests=RequestCounts(running=len(self.running), waiting=waiting))

    def _capacity(self) -> int:
        state = self._board.value
        if state.model is None or state.worker.state not in ANSWERING:
            return 0
        return state.model.max_inflight_requests
