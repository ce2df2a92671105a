"""TurnQueue: which turns wait, which run, and who is next. Plain state, no await; the session manager owns it.

Rule of admission: first in, first out among those whose prompt is ready, so that a rendering that takes long holds
nobody up; at most the worker's `max_inflight_requests` at a time; one turn of a session at a time (a second request on
it waits without holding others up), in order, and none of one that is being ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
        self._outdate_next(turn.reply.session_id)
        self.admit()

    def has(self, turn: Turn) -> bool:
        """Whether its task may still be at work."""
        return turn in self.running or turn in self.waiting

    def unfinished(self, session_id: str) -> list[Turn]:
        """Turns of a session that still have to end. One that has its outcome is over for everybody who asks, though
        its task may need a moment more; so is one whose session was deleted."""
        turns = [turn for turn in self.running + self.waiting if turn.reply.session_id == session_id]
        return [turn for turn in turns if turn.reply.outcome is None and not turn.history.is_cut_off]

    def close_for(self, session_id: str) -> None:
        """Admit no turn of this session until `reopen` was called as often."""
        self._ending[session_id] += 1

    def reopen(self, session_id: str) -> None:
        """The session was ended: one of the same name may begin."""
        self._ending[session_id] -= 1
        if not self._ending[session_id]:
            del self._ending[session_id]
        self._outdate_next(session_id)
        self.admit()

    def has_place_for(self, session_id: str | None) -> bool:
        """Whether a turn of this session would run as soon as its prompt is ready."""
        return self._has_room(session_id, self.running + self.split()[0])

    def split(self) -> tuple[list[Turn], list[Turn]]:
        """Of those that wait: those that have a place as soon as their prompts are ready, and those that wait for
        others to end."""
        next_ones: list[Turn] = []
        others: list[Turn] = []
        for turn in self.waiting:
            has_place = self._has_room(turn.reply.session_id, self.running + next_ones)
            (next_ones if has_place else others).append(turn)
        return next_ones, others

    def admit(self) -> None:
        """Let run what may: whenever a prompt is ready, a turn ends or the board changes."""
        # With a worker that will not come back by itself, waiting makes no sense: every turn goes on, to
        # find the reason on the board and fail with it.
        hopeless = self._board.value.worker.state in ("failed", "stopped")
        earlier: set[str | None] = set()
        for turn in list(self.waiting):
            session_id = turn.reply.session_id
            is_next = turn.admission.is_prepared and (session_id is None or session_id not in earlier)
            if hopeless or (is_next and self._has_room(session_id, self.running)):
                self.waiting.remove(turn)
                self.running.append(turn)
                turn.admission.admit()
            else:
                earlier.add(session_id)
        next_ones, others = self.split()
        if self._capacity():
            for position, turn in enumerate(others, start=1):
                turn.place(position)
        ids = tuple(turn.reply.id for turn in others)
        self._board.change(requests=RequestCounts(running=len(self.running) + len(next_ones), waiting=ids))

    def _has_room(self, session_id: str | None, holders: Sequence[Turn]) -> bool:
        """Whether a turn of this session could use the model beside the holders of places."""
        if len(holders) >= self._capacity():
            return False
        if session_id is None:
            return True
        return session_id not in self._ending and all(turn.reply.session_id != session_id for turn in holders)

    def _outdate_next(self, session_id: str | None) -> None:
        """The history of a session is another now: the prompt of its next turn has to be made anew."""
        if session_id is not None:
            turn = next((turn for turn in self.waiting if turn.reply.session_id == session_id), None)
            if turn is not None:
                turn.admission.outdate()

    def _capacity(self) -> int:
        state = self._board.value
        if state.model is None or state.worker.state not in ANSWERING:
            return 0
        return state.model.max_inflight_requests
