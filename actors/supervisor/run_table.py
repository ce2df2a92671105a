"""WorkerRun: what belongs to one life of a worker process: its requests, its questions, its record.

A new process gets a new WorkerRun, so nothing of an old life can reach a request of the new one.

One death may be told in several ways, in any order: an error of a request, an error of the whole, the exit. To a
request it is always the same, a loss (`lose_all`). So an error that may be the first sign of a death is held back until
the worker has answered a ping that was sent behind it.
"""

from __future__ import annotations

import logging
from typing import Final

import attrs
import trio

from actors.kernel import ReplyPort
from actors.supervisor.faults import fault_of
from actors.supervisor.link import Death, WorkerLink
from actors.supervisor.messages import RequestEvent, Sink
from actors.supervisor.policy import End
from actors.supervisor.watchdog import Watchdog
from muse import protocol
from muse.errors import MuseError, Unavailable, WorkerFault
from muse.exhaustion import explain
from muse.protocol_codec import encode_command
from muse.worker import exits, guard

log = logging.getLogger("muse.supervisor")

_REFUSED: Final = (guard.START_REFUSED, exits.REFUSED)
_OF_THE_MOMENT: Final = frozenset({"engine_killed", "capacity_exhausted"})
"""Why a load failed that another try may well bring."""


def not_started(said: str) -> str:
    """The reason of a start that the system refused. said: in its words."""
    return f"The model process could not be started: {explain(said)}. The server goes on trying."


@attrs.define(slots=True, eq=False, kw_only=True)
class WorkerRun:
    """One life. sinks: generation id to the turn that hears its events. questions: id to port. draft_loss: in words,
    that its draft costs more than it gives. retired: it was told to go, and counts as gone already."""

    link: WorkerLink
    started: float
    watchdog: Watchdog
    sinks: dict[str, Sink] = attrs.field(factory=dict[str, Sink])
    questions: dict[str, ReplyPort[protocol.Result]] = attrs.field(factory=dict[str, ReplyPort[protocol.Result]])
    had_ready: bool = False
    had_token: bool = False
    fatal: protocol.Error | None = None
    held_back: dict[str, protocol.Error] = attrs.field(factory=dict[str, protocol.Error])
    """Errors that may be the first sign of a death, by the id of the ping behind each."""
    draft_loss: str | None = None
    retired: bool = False
    over: trio.Event = attrs.field(factory=trio.Event)

    @property
    def is_idle(self) -> bool:
        """Nobody waits for anything of it."""
        return not (self.sinks or self.questions)

    def hold_back(self, error: protocol.Error, ping_id: str) -> None:
        """Keep an error until the worker has answered a ping with this id, which is sent now. If it dies before, its
        requests hear of the loss alone."""
        self.held_back[ping_id] = error
        self.link.send(encode_command(protocol.Ping(request_id=ping_id)))

    def end(self, death: Death) -> End:
        """How this life ended. To be asked before `lose_all`."""
        load_fault = None if self.had_ready else self.fatal
        is_refused = death.returncode in _REFUSED or (
            load_fault is not None and load_fault.code == "capacity_exhausted"
        )
        said = load_fault.message if load_fault is not None else "\n".join(death.stderr_tail)
        return End(
            reason=not_started(said) if is_refused else death.words,
            had_token=self.had_token,
            hopeless=load_fault is not None and load_fault.code not in _OF_THE_MOMENT,
            in_request=self.had_ready and bool(self.sinks),
            refused=is_refused,
        )

    def note_progress(self, event: RequestEvent, now: float) -> None:
        """Let the watchdog know of an event."""
        assert event.request_id is not None
        if isinstance(event, (protocol.Done, protocol.Error)):
            self.watchdog.ended(event.request_id)
        else:
            token = isinstance(event, protocol.Tokens)
            picture = isinstance(event, protocol.Progress) and event.phase == "vision"
            self.watchdog.progressed(event.request_id, now, token=token, picture=picture)

    def deliver(self, event: RequestEvent) -> None:
        """Give an event to its request. Events of unknown or finished requests are logged and dropped:
        they belong to nobody."""
        request_id = event.request_id
        assert request_id is not None
        if isinstance(event, protocol.Error) and request_id in self.questions:
            self.questions.pop(request_id).fail(fault_of(event))
            return
        sink = self.sinks.get(request_id)
        if sink is None:
            log.warning("event-without-request event=%s id=%r", type(event).__name__, request_id[:80])
            return
        if isinstance(event, protocol.Tokens):
            self.had_token = True
        if isinstance(event, (protocol.Done, protocol.Error)):
            del self.sinks[request_id]
        try:
            sink.on_event(event)
        except Exception:
            # Barrier: a turn's own fault must not end the pipe reader, which serves all turns.
            log.exception("sink-failed id=%r", request_id)
            if self.sinks.pop(request_id, None) is not None:
                # Nobody hears it any more, so it must not keep the engine busy.
                cancel = protocol.Cancel(request_id=f"lost-{request_id}", target_request_id=request_id)
                self.link.send(encode_command(cancel))
            sink.on_lost(WorkerFault("internal_error", "The answer could not be processed."))

    def answer(self, result: protocol.Result) -> None:
        """Give a result to whoever asked."""
        port = self.questions.pop(result.request_id, None)
        if port is None:
            log.warning("result-without-question id=%r", result.request_id[:80])
        else:
            port.answer(result)

    def lose_all(self, fault: MuseError) -> None:
        """The process is dead: tell everybody who waits for it. A question is no fault of anybody's: 503."""
        sinks, self.sinks = self.sinks, {}
        questions, self.questions = self.questions, {}
        for port in questions.values():
            port.fail(Unavailable("model_unavailable", fault.detail, data=fault.data))
        for sink in sinks.values():
            sink.on_lost(fault)
