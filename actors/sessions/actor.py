"""SessionManager: the queue of turns, one task for each, and who is meant by a cancel.

Inbox: StartTurn, CancelTurn, FindReply, ShowPrompt, AnswerNow, DescribeSession, DescribeSessions, SetHistory,
EndSession.
Tells: the turns, the StateBoard (counts of running and queued).

Turns wait and run by the rules of turn_queue.py, applied whenever a prompt is ready, a turn ends or the board changes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, assert_never

import attrs
import trio

from actors.kernel import Address, Signal
from actors.reply import Failed, Reply
from actors.sessions.earlier import continuable, reply_not_found
from actors.sessions.messages import (
    AnswerNow,
    CancelTurn,
    DescribeSession,
    DescribeSessions,
    EndSession,
    FindReply,
    SessionMessage,
    SessionState,
    SetHistory,
    ShowPrompt,
    StartTurn,
    WaitingRequest,
)
from actors.sessions.shelf import Shelf
from actors.sessions.turn import Turn
from actors.sessions.turn_queue import TurnQueue
from actors.state_board import StateBoard
from actors.supervisor.messages import SessionCommand, SupervisorMessage
from actors.transcripts.messages import (
    ForgetSession,
    ListSessions,
    PrepareModel,
    ReplaceHistory,
    SessionView,
    ShowSession,
    TranscriptMessage,
    session_busy,
)
from muse.api.responses import new_reply_id
from muse.errors import ClientFault, InternalFault, MuseError, Unavailable
from muse.protocol import Ready
from muse.settings import Limits
from muse.sizes import BODIES_BYTES, MIB

log = logging.getLogger("muse.sessions")

RESIDENT_WAIT_S: Final = 0.5
CANCELLED_WITHIN_S: Final = 1.0
"""A deletion waits so long for turns to end, then it goes on without them. A worker that obeys needs 0.4 s at most."""
MODEL_BUSY_PAUSE_S: Final = 0.5
CLEARED_AT_ONCE: Final = 4
"""Deleted sessions that the worker is told of at the same time; others wait their turn."""
CLEARED_LATER: Final = 256
"""Deletions that are answered although they still wait their turn. Further clients wait with theirs."""
NO_WORKER: Final = ("model_unavailable", "worker_lost", "worker_restarted")


class SessionManager:
    """The actor. `run` ends when its inbox is closed, after every reply has its outcome."""

    def __init__(
        self,
        *,
        inbox: trio.MemoryReceiveChannel[SessionMessage],
        board: StateBoard,
        supervisor: Address[SupervisorMessage],
        transcripts: Address[TranscriptMessage],
        limits: Limits,
    ) -> None:
        self._inbox = inbox
        self._board = board
        self._supervisor = supervisor
        self._transcripts = transcripts
        self._limits = limits
        self._queue = TurnQueue(board)
        self._shelf = Shelf()
        self._turn_over = Signal()
        self._being_deleted: list[str] = []
        self._clearing = trio.Semaphore(CLEARED_AT_ONCE)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the inbox is closed, then cancel what runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_board)
            nursery.start_soon(self._tidy_shelf)
            task_status.started()
            async for message in self._inbox:
                match message:
                    case StartTurn():
                        self._start(message, nursery)
                    case CancelTurn():
                        message.port.answer(self._cancel(message))
                    case FindReply():
                        self._find(message)
                    case ShowPrompt():
                        self._show_prompt(message)
                    case AnswerNow():
                        self._answer_now(message)
                    case DescribeSession():
                        nursery.start_soon(self._describe, message)
                    case DescribeSessions():
                        nursery.start_soon(self._describe_all, message)
                    case SetHistory():
                        nursery.start_soon(self._set_history, message)
                    case EndSession():
                        self._being_deleted.append(message.session_id)
                        self._queue.close_for(message.session_id)
                        nursery.start_soon(self._end_session, message, self._shelf.of_session(message.session_id))
                    case _:
                        assert_never(message)
                del message  # or the last request's text would be kept until the next one
            nursery.cancel_scope.cancel()

    # ------------------------------------------------------------ requests

    def _start(self, message: StartTurn, nursery: trio.Nursery) -> None:
        if message.port.closed:
            return  # the client left before its turn was even made
        waiting = self._queue.split()[1]
        if len(waiting) >= self._limits.queue and not self._queue.has_place_for(message.request.session_id):
            message.port.fail(
                Unavailable(
                    "queue_full",
                    f"{len(waiting)} requests are waiting for the model already. Try again in a moment.",
                    status=429,
                    retry_after_s=self._limits.retry_after_s,
                )
            )
            return
        request, earlier = message.request, None
        if request.continue_from is not None:
            try:
                earlier = continuable(self._find_continued(request.continue_from))
            except MuseError as fault:
                message.port.fail(fault)
                return
            request = attrs.evolve(
                request,
                messages=earlier.request.messages,
                session_id=earlier.request.session_id,
                json_schema=earlier.request.json_schema,
                form=earlier.request.form,
                tool_use=earlier.request.tool_use,
            )
        reply = Reply(new_reply_id(), request.session_id)
        turn = Turn(
            request=request,
            reply=reply,
            board=self._board,
            supervisor=self._supervisor,
            transcripts=self._transcripts,
            unattended_s=self._limits.unattended_s,
            on_prepared=self._queue.admit,
            earlier=earlier,
        )
        held = self._queue.chars
        if held and held + turn.request_chars > BODIES_BYTES:
            # Beside the front's bound: a detached turn goes on without its connection.
            message.port.fail(
                Unavailable(
                    "requests_too_large_together",
                    f"The requests that run and wait hold {held // MIB} of {BODIES_BYTES // MIB} Mi characters. Send "
                    "this one again when one of them has ended.",
                    retry_after_s=self._limits.retry_after_s,
                )
            )
            return
        self._shelf.put(turn)
        nursery.start_soon(self._run_turn, turn)
        self._queue.put(turn)
        message.port.answer(reply)

    def _find_continued(self, reply_id: str) -> Turn | None:
        turn = self._shelf.find(reply_id, trio.current_time())
        # Of a session that is being deleted nothing goes on.
        return None if turn is not None and turn.reply.session_id in self._being_deleted else turn

    def _find(self, message: FindReply) -> None:
        turn = self._shelf.find(message.reply_id, trio.current_time())
        if turn is None:
            message.port.fail(reply_not_found())
        else:
            message.port.answer(turn.reply)

    def _show_prompt(self, message: ShowPrompt) -> None:
        turn = self._shelf.find(message.reply_id, trio.current_time())
        prompt = turn.seen_prompt() if turn is not None else None
        if turn is None:
            message.port.fail(reply_not_found())
        elif prompt is None:
            message.port.fail(
                ClientFault(
                    "prompt_not_made",
                    "No prompt was made for this reply so far: it waits for the model, or was ended before.",
                    status=404,
                )
            )
        else:
            message.port.answer(prompt)

    def _answer_now(self, message: AnswerNow) -> None:
        turn = self._shelf.find(message.reply_id, trio.current_time())
        if turn is None:
            message.port.fail(reply_not_found())
        else:
            message.port.answer(turn.answer_now())

    async def _run_turn(self, turn: Turn) -> None:
        try:
            await turn.run()
        except* Exception:
            # Barrier: a turn serves a stranger; its fault must not end the manager.
            log.exception("turn-failed reply=%s", turn.reply.id)
            fault = InternalFault("internal_error", "The answer failed inside the server.")
            if turn.answer is not None:
                turn.history.record_failure(turn.answer, fault)
            if turn.reply.outcome is None:
                turn.reply.finish(Failed(fault=fault))
        finally:
            if turn.reply.outcome is None:
                turn.reply.finish(Failed(fault=Unavailable("stopping", "The server is shutting down.")))
            self._shelf.finish(turn, trio.current_time())
            self._queue.end(turn)
            self._turn_over.notify()

    def _cancel(self, message: CancelTurn) -> bool:
        not_running = self._queue.waiting if message.reply_id is not None else self._queue.split()[0]
        candidates = self._queue.running + not_running
        for turn in candidates:
            wanted = message.reply_id or message.session_id
            seen = turn.reply.id if message.reply_id is not None else turn.reply.session_id
            if seen == wanted and turn.reply.outcome is None and not turn.history.is_cut_off:
                turn.cancel()
                return True
        return False

    # ------------------------------------------------------------ sessions (child tasks)

    async def _describe(self, message: DescribeSession) -> None:
        session_id = message.session_id
        # Looked at first: one that is taken meanwhile is then in both, never in none.
        waiting = [
            WaitingRequest(reply_id=turn.reply.id, messages=turn.request.messages, begun=turn.history.begun)
            for turn in self._queue.unfinished(session_id)
            if not turn.history.is_committed
        ]
        try:
            view = await self._transcripts.ask(ShowSession(session_id=session_id))
        except MuseError as fault:
            if not waiting:
                message.port.fail(fault)
                return
            view = SessionView.of_nothing(session_id)
        resident: int | None = None
        # No worker now, or one that hangs: it cannot be told, and the history does not wait for it.
        with suppress(MuseError), trio.move_on_after(RESIDENT_WAIT_S):
            shown = await self._supervisor.ask(SessionCommand(action="show", session_id=session_id))
            resident = None if shown.resident_ids is None else len(shown.resident_ids)
        still = tuple(request for request in waiting if request.reply_id != view.running)
        message.port.answer(SessionState(view=view, resident_tokens=resident, waiting=still))

    async def _describe_all(self, message: DescribeSessions) -> None:
        try:
            message.port.answer(await self._transcripts.ask(ListSessions()))
        except MuseError as fault:
            message.port.fail(fault)

    async def _set_history(self, message: SetHistory) -> None:
        session_id = message.session_id
        try:
            if self._queue.unfinished(session_id) or session_id in self._being_deleted:
                raise session_busy()
            await self._transcripts.ask(ReplaceHistory(session_id=session_id, messages=message.messages))
        except MuseError as fault:
            message.port.fail(fault)
        else:
            message.port.answer(None)

    async def _end_session(self, message: EndSession, turns: Sequence[Turn]) -> None:
        """turns: all that the session had when this was asked for. What comes later under its name is a new session,
        which gets the model once the worker has forgotten the old one."""
        session_id = message.session_id
        try:
            await self._delete_here(session_id, turns)
        except MuseError as fault:
            message.port.fail(fault)
            is_answered = True
        else:
            # So many clients are answered before the worker has forgotten, the others when it has.
            is_answered = self._clearing.statistics().tasks_waiting < CLEARED_LATER
            if is_answered:
                message.port.answer(None)
        finally:
            self._being_deleted.remove(session_id)
        try:
            await self._wait_ended(turns)
            del turns  # what they hold is gone now, whenever the worker answers
            async with self._clearing:
                await self._clear_in_worker(message)
        finally:
            self._queue.reopen(session_id)
        if not is_answered:
            message.port.answer(None)

    async def _delete_here(self, session_id: str, turns: Sequence[Turn]) -> None:
        for turn in turns:
            turn.cancel()
        with trio.move_on_after(CANCELLED_WITHIN_S):
            await self._wait_ended(turns)
        for turn in turns:
            turn.history.cut_off()
        self._shelf.forget(turns)
        await self._transcripts.ask(ForgetSession(session_id=session_id))

    async def _wait_ended(self, turns: Sequence[Turn]) -> None:
        while any(map(self._queue.has, turns)):
            await self._turn_over.wait()

    async def _clear_in_worker(self, message: EndSession) -> None:
        """Have the worker forget a session. Nobody waits for it: the worker may be stopped, or busy for minutes."""
        while True:
            try:
                await self._supervisor.ask(SessionCommand(action=message.action, session_id=message.session_id))
            except MuseError as fault:
                if fault.code in ("model_busy", "capacity_exhausted"):
                    await trio.sleep(MODEL_BUSY_PAUSE_S)
                    continue
                if fault.code not in NO_WORKER:  # the memory of a worker that is gone went with it
                    log.warning("session-not-cleared-in-worker code=%s", fault.code)
            return

    # ------------------------------------------------------------ what passes by itself (child tasks)

    async def _tidy_shelf(self) -> None:
        """Forget replies when their time is over, also while nobody asks for anything."""
        while True:
            due = self._shelf.next_due
            if due is None:
                await self._turn_over.wait()
            else:
                await trio.sleep_until(due)
                self._shelf.tidy(trio.current_time())

    async def _watch_board(self) -> None:
        prepared: Ready | None = None
        while True:
            version, model = self._board.version, self._board.value.model
            if model is not None and model is not prepared:
                prepared = model
                await self._transcripts.tell(PrepareModel(model=model))
            self._queue.admit()
            await self._board.wait_newer(version)
