"""WorkerSupervisor: owns the worker process, its in-flight requests and its restarts.

Inbox: StartGeneration, CancelGeneration, CountTokens, SessionCommand, RestartWorker.
Tells: the sinks of generations, the ports of questions, the StateBoard (worker, model).
Worker states and the ways between them: `states.TRANSITIONS`.

Two tasks share the state, both on the one thread and without an await inside a change: the inbox loop
and the keeper, which runs one worker after the other. What one worker process left behind (its
in-flight table) lives in a WorkerRun of its own, so a late line can never reach a later worker's
requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, assert_never

import trio

from actors.kernel import ReplyPort
from actors.state_board import ANSWERING, StateBoard
from actors.supervisor.command_lines import line_of
from actors.supervisor.faults import model_unavailable
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import (
    CancelGeneration,
    CountTokens,
    RequestEvent,
    RestartWorker,
    SessionCommand,
    Sink,
    StartGeneration,
    SupervisorMessage,
)
from actors.supervisor.policy import End, GiveUp, RestartPolicy
from actors.supervisor.run_table import WorkerRun, not_started
from actors.supervisor.states import Event, after
from actors.supervisor.watchdog import HangLimits, Kill, SendPing, Terminate, Watchdog, limits_for
from muse import protocol
from muse.errors import MuseError, Unavailable, WorkerFault
from muse.exhaustion import is_exhaustion, reason_of
from muse.protocol_codec import ProtocolError, decode_event, encode_command

log = logging.getLogger("muse.supervisor")

WATCH_EVERY_S = 0.5
PING = "ping-"
"""Prefix of the ids of our own pings: their answers are lines like any other, and nothing more."""
MAX_QUESTIONS = 64
"""Counts and session commands under way. A worker that is busy for minutes answers none meanwhile."""
STOP_GRACE_S = 0.5
"""After stdin is closed, how long a worker may take to leave before its group is killed."""

_SESSION_COMMANDS: Final = {"show": protocol.Show, "reset": protocol.Reset, "close": protocol.Close}


class WorkerSupervisor:
    """The actor. `run` ends when its inbox is closed, with no process left."""

    def __init__(
        self,
        *,
        inbox: trio.MemoryReceiveChannel[SupervisorMessage],
        board: StateBoard,
        command: WorkerCommand,
        clock: Callable[[], float] = trio.current_time,
        hang_limits: HangLimits | None = None,
    ) -> None:
        self._inbox = inbox
        self._board = board
        self._command = command
        self._clock = clock
        self._hang_limits = hang_limits
        self._policy = RestartPolicy()
        self._run: WorkerRun | None = None
        self._restart_asked = trio.Event()
        self._stopping = False
        self._next_id = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the inbox is closed, then end the worker."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_worker)
            task_status.started()
            async for message in self._inbox:
                self._handle(message)
                del message  # or the last prompt would be kept until the next message
            self._stopping = True
            self._move("drain", stage=None, fraction=None)
            if self._run is not None:
                self._run.link.close_stdin()
                with trio.move_on_after(STOP_GRACE_S):
                    await self._run.over.wait()
            nursery.cancel_scope.cancel()
        self._move("end", reason=None)

    def _move(self, event: Event, **changes: Any) -> None:
        """Go to the state that follows `event`, and show it with the other changes at once."""
        self._board.change_worker(state=after(self._board.value.worker.state, event), **changes)

    # ------------------------------------------------------------ inbox

    def _handle(self, message: SupervisorMessage) -> None:
        match message:
            case StartGeneration():
                self._start_generation(message.command, message.sink)
            case CancelGeneration():
                self._cancel_generation(message.request_id)
            case CountTokens():
                segments = message.segments
                self._question(message.port, lambda rid: protocol.Count(request_id=rid, prompt_segments=segments))
            case SessionCommand():
                kind, session_id = _SESSION_COMMANDS[message.action], message.session_id
                self._question(message.port, lambda rid: kind(request_id=rid, session_id=session_id))
            case RestartWorker():
                self._restart_worker()
                message.port.answer(None)
            case _:
                assert_never(message)

    def _new_id(self, prefix: str) -> str:
        self._next_id += 1
        return f"{prefix}{self._next_id}"

    def _answering(self) -> WorkerRun | None:
        return self._run if self._board.value.worker.state in ANSWERING else None

    def _no_worker(self) -> MuseError:
        worker = self._board.value.worker
        if worker.state in ("failed", "stopped"):
            return model_unavailable(worker.reason)
        details = {"details": worker.reason} if worker.reason else None
        return Unavailable("model_unavailable", f"The model is {worker.state}.", data=details)

    def _start_generation(self, command: protocol.Generate, sink: Sink) -> None:
        run = self._answering()
        if run is None:
            sink.on_lost(self._no_worker())
            return
        run.sinks[command.request_id] = sink
        run.watchdog.started(command.request_id, self._clock())
        run.link.send(line_of(command))
        self._show_busy(run)

    def _cancel_generation(self, request_id: str) -> None:
        run = self._answering()
        if run is not None and request_id in run.sinks:
            cancel = protocol.Cancel(request_id=self._new_id("cancel-"), target_request_id=request_id)
            run.link.send(encode_command(cancel))
            run.watchdog.cancelled(request_id, self._clock())

    def _question(self, port: ReplyPort[protocol.Result], make: Callable[[str], protocol.WorkerCommand]) -> None:
        run = self._answering()
        if run is None:
            port.fail(self._no_worker())
            return
        if len(run.questions) >= MAX_QUESTIONS:
            port.fail(Unavailable("model_busy", "The model is too busy to be asked this now."))
            return
        request_id = self._new_id("ask-")
        run.questions[request_id] = port
        run.link.send(line_of(make(request_id)))

    def _restart_worker(self) -> None:
        self._policy.forget()
        self._command.draft.try_again()
        self._retire("The model process was restarted on request.")
        self._restart_asked.set()

    def _retire(self, reason: str) -> None:
        """End the running worker, if there is one; who needs a worker waits for the next from now on."""
        run = self._run
        if run is not None and not run.retired:
            run.retired = True
            self._move("die", reason=reason, exhausted=False, stage=None, fraction=None)
            run.link.kill(reason)

    def _replace(self, run: WorkerRun, reason: str) -> None:
        """Replace a worker that wants it. What waits for it waits for the next one."""
        if not run.retired and not self._stopping:
            log.warning("worker-replaced reason=%r", reason)
            self._retire(reason)
            self._restart_asked.set()

    def _leave_draft_out(self, run: WorkerRun) -> None:
        """Replace a worker whose draft costs more than it gives, once nothing runs on it and nobody waits."""
        is_idle = run.is_idle and not self._board.value.requests.waiting
        if run.draft_loss is not None and is_idle and not run.retired and not self._stopping:
            self._command.draft.leave_out(run.draft_loss)
            self._replace(run, run.draft_loss)

    # ------------------------------------------------------------ keeper

    async def _keep_worker(self) -> None:
        while True:
            self._restart_asked = trio.Event()
            end = await self._one_worker()
            if self._stopping:
                return
            if self._restart_asked.is_set():
                continue  # a death that was asked for says nothing about the worker's health
            decision = self._policy.decide(end, self._clock())
            log.warning("worker-died end=%r decision=%r", end, decision)
            if isinstance(decision, GiveUp):
                self._move("give_up", reason=decision.reason)
                await self._restart_asked.wait()
                continue
            with trio.move_on_after(decision.after_s):
                await self._restart_asked.wait()

    async def _one_worker(self) -> End:
        """Run one worker to its death."""
        epoch = self._board.value.worker.epoch + 1
        self._move("launch", epoch=epoch)
        self._board.change(draft=self._command.draft.status())
        draft = self._command.draft.used
        try:
            link = await self._command.start()
        except (OSError, RuntimeError, MemoryError) as fault:
            refused = is_exhaustion(fault)
            if not refused and not isinstance(fault, OSError):
                raise
            said = reason_of(fault)
            reason = not_started(said) if refused else f"The model process could not be started: {said}."
            self._move("die", reason=reason, exhausted=refused)
            return End(reason=reason, refused=refused)
        if self._restart_asked.is_set():
            if draft == self._command.draft.used:
                self._restart_asked = trio.Event()  # this fresh worker is what was asked for
            else:
                link.kill("The model process was started without the draft that it was to have again.")
        now = self._clock()
        watchdog = Watchdog(now, self._hang_limits or limits_for(self._command.engine), self._policy.load_s)
        run = WorkerRun(link=link, started=now, watchdog=watchdog)
        self._run = run
        if self._stopping:
            link.close_stdin()
        log.info("worker-started epoch=%d pid=%d", epoch, link.pid)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, run)
                death = await link.run(lambda line: self._on_line(run, line))
                nursery.cancel_scope.cancel()
        finally:
            self._run = None
            run.over.set()
            self._command.ended()
        end = run.end(death)
        # The state changes before the sinks hear of it, so that whatever they do next (queue again,
        # ask for a count) meets a supervisor that knows it has no worker.
        if not run.retired:
            self._move("die", reason=end.reason, exhausted=end.refused, stage=None, fraction=None)
        for line in death.stderr_tail[-20:]:
            # At an ordinary stop the engine's last words are no news.
            log.log(logging.DEBUG if self._stopping else logging.INFO, "worker-stderr %s", line)
        run.lose_all(self._loss(end.reason))
        return end

    def _loss(self, reason: str) -> MuseError:
        if self._stopping:
            return Unavailable("stopping", "The server is shutting down.")
        # No request is to blame for a death that was asked for.
        code = "worker_restarted" if self._restart_asked.is_set() else "worker_lost"
        words = "The model process ended before the answer was finished."
        return WorkerFault(code, words, status=502, data={"details": reason})

    async def _watch(self, run: WorkerRun) -> None:
        while True:
            await trio.sleep(WATCH_EVERY_S)
            match run.watchdog.verdict(self._clock(), unread_since=run.link.unread_since):
                case None:
                    pass
                case SendPing():
                    run.link.send(encode_command(protocol.Ping(request_id=self._new_id(PING))))
                case Terminate(reason):
                    log.warning("worker-terminated reason=%r", reason)
                    run.link.terminate(reason)
                case Kill(reason):
                    log.warning("worker-hung reason=%r", reason)
                    run.link.kill(reason)

    # ------------------------------------------------------------ lines from the worker

    def _on_line(self, run: WorkerRun, line: bytes) -> None:
        try:
            event = decode_event(line)
        except ProtocolError as fault:
            if fault.known:
                run.link.kill(f"The model process broke the protocol ({fault}).")
            else:
                log.warning("unknown-line %s", fault)
            return
        run.watchdog.line(self._clock())
        match event:
            case protocol.Loading():
                self._on_loading(run, event)
            case protocol.Ready():
                self._on_ready(run, event)
            case protocol.Result():
                if not event.request_id.startswith(PING):
                    run.answer(event)
                    self._leave_draft_out(run)
                elif (error := run.held_back.pop(event.request_id, None)) is not None:
                    self._on_request_event(run, error)
            case protocol.Error(fatal=True):
                # Never a request's own: all that it had are lost, and go on or start again.
                log.error("worker-error code=%s fatal=True message=%r", event.code, event.message)
                run.fatal = event
                run.link.kill(event.message)  # it says that it leaves; this makes sure of it
            case protocol.Error(request_id=None, code="draft_slower") if self._command.draft.used is not None:
                run.draft_loss = event.message
                self._leave_draft_out(run)
            case protocol.Error(request_id=None, code="cancel_overdue"):
                self._replace(run, event.message)
            case protocol.Error(request_id=None):
                log.error("worker-error code=%s message=%r", event.code, event.message)
            case protocol.Error() if event.code in protocol.MAY_BE_A_CRASH:
                run.hold_back(event, self._new_id(PING))
            case protocol.Accepted() | protocol.Progress() | protocol.Tokens() | protocol.Done() | protocol.Error():
                self._on_request_event(run, event)
            case _:
                assert_never(event)

    def _on_request_event(self, run: WorkerRun, event: RequestEvent) -> None:
        run.note_progress(event, self._clock())
        run.deliver(event)
        if isinstance(event, (protocol.Done, protocol.Error)):
            self._show_busy(run)
        self._leave_draft_out(run)

    def _on_loading(self, run: WorkerRun, event: protocol.Loading) -> None:
        if run.had_ready:
            run.link.kill("The model process reported loading after it was ready.")
        elif not self._stopping:
            # A reason that the system gave for an earlier start holds no more.
            said = {"exhausted": False, "reason": None} if self._board.value.worker.exhausted else {}
            self._move("load", stage=event.stage, fraction=event.fraction, **said)

    def _on_ready(self, run: WorkerRun, ready: protocol.Ready) -> None:
        if run.had_ready or ready.protocol != protocol.PROTOCOL_VERSION:
            run.link.kill(
                "The model process said ready twice."
                if run.had_ready
                else f"The model process speaks protocol {ready.protocol}, not {protocol.PROTOCOL_VERSION}."
            )
            return
        run.had_ready = True
        run.watchdog.ready(self._hang_limits or limits_for(ready.engine))
        self._policy.loaded(self._clock() - run.started)
        self._board.change(model=ready)
        if not self._stopping:
            self._move("loaded", reason=None, exhausted=False, stage=None, fraction=None)
        wanted = self._command.wanted_context
        if wanted is not None and ready.context_length < wanted:
            log.warning("context-limited wanted=%d got=%d: the model takes no more", wanted, ready.context_length)
        log.info("worker-ready model=%s load_s=%.2f", ready.model_id, self._policy.load_s)

    def _show_busy(self, run: WorkerRun) -> None:
        if self._board.value.worker.state in ANSWERING:
            self._move("work" if run.sinks else "rest")
