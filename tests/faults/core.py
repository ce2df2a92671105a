"""The real actors without the HTTP front, over any kind of worker, with a look at what goes to the worker.

At the end of the context the system has to be as good as new: no turn, no task (the nursery ends), no
process of any worker's group.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from actors.kernel import Address, Mailbox
from actors.reply import Failed, Finished, Reply
from actors.sessions.actor import SessionManager
from actors.sessions.messages import CancelTurn, SessionMessage, StartTurn
from actors.state_board import StateBoard
from actors.supervisor.actor import WorkerSupervisor
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import StartGeneration, SupervisorMessage
from actors.supervisor.watchdog import HangLimits
from actors.transcripts.actor import TranscriptStore
from actors.transcripts.messages import TranscriptMessage
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.protocol import Generate
from muse.settings import Settings
from muse.structured.forms import asked_schemas
from muse.structured.jobs import held_form
from tests.faults.processes import GONE_WITHIN_S, Watched
from tests.in_process_jobs import in_process_renderer
from tests.server_process import children_of

HANG_GUARD_S = 60


class TappedAddress(Address[SupervisorMessage]):
    """The supervisor's address, which also keeps every generation that was asked for."""

    generations: list[Generate]

    async def tell(self, message: SupervisorMessage) -> None:
        if isinstance(message, StartGeneration):
            self.generations.append(message.command)
        await super().tell(message)


@attrs.frozen(kw_only=True)
class FaultCore:
    """The running actors. generations: what turns sent to workers, in order."""

    board: StateBoard
    supervisor: TappedAddress
    sessions: Address[SessionMessage]
    settings: Settings

    @property
    def generations(self) -> list[Generate]:
        return self.supervisor.generations

    async def wait_worker(self, *states: str) -> None:
        """Wait until the worker is in one of `states`."""
        while self.board.value.worker.state not in states:
            await self.board.wait_newer(self.board.version)

    async def wait_epoch(self, epoch: int, *states: str) -> None:
        """Wait until the worker of this number (or a later one) is in one of `states`."""
        while self.board.value.worker.epoch < epoch or self.board.value.worker.state not in states:
            await self.board.wait_newer(self.board.version)

    async def wait_idle(self) -> None:
        """Wait until no turn runs or waits and the worker rests."""
        while True:
            state = self.board.value
            if not state.requests.running + state.requests.queued and state.worker.state == "ready":
                return
            await self.board.wait_newer(self.board.version)

    async def start(self, text: str, **fields: object) -> Reply:
        """Send a chat request; the reply may still have to wait."""
        request = chat(text, **fields)
        if asked := asked_schemas(request):
            request = attrs.evolve(request, form=held_form(asked))  # as the front does it
        return await self.sessions.ask(StartTurn(request=request))

    async def cancel(self, reply: Reply) -> bool:
        """Cancel by id; false if there was nothing to cancel."""
        return await self.sessions.ask(CancelTurn(reply_id=reply.id))

    async def check_answers(self, text: str, expected: str) -> None:
        """The next normal request is right, and everything rests afterwards."""
        reply = await self.start(text)
        outcome = await finished(reply)
        assert (reply.text("answer"), outcome.finish_reason) == (expected, "stop")
        await self.wait_idle()

    def group(self) -> int:
        """Process group of the running worker: the pid of its guard."""
        return int(json.loads((self.settings.home / "run" / "worker.json").read_text())["pid"])

    def worker_pids(self) -> list[int]:
        """The worker process, then its children, without the guard."""
        return children_of(self.group())

    def signal_worker(self, number: signal.Signals) -> None:
        """Send a signal to the worker process alone, past its guard."""
        os.kill(self.worker_pids()[0], number)


def chat(text: str, **fields: object) -> ChatRequest:
    """A request as the front hands it over."""
    return parse_chat_request({"messages": [{"role": "user", "content": text}], **fields}, SamplingDefaults())


async def finished(reply: Reply) -> Finished:
    """Wait for the end, which has to be a good one."""
    outcome = await reply.wait_outcome()
    assert isinstance(outcome, Finished), outcome
    return outcome


async def failed(reply: Reply) -> Failed:
    """Wait for the end, which has to be an error."""
    outcome = await reply.wait_outcome()
    assert isinstance(outcome, Failed), outcome
    return outcome


async def wait_length(reply: Reply, length: int = 1) -> None:
    """Wait until so many characters are there, or the outcome."""
    while reply.end < length and reply.outcome is None:
        await reply.wait_news(reply.end, reply.sign_version)


async def wait_phase(reply: Reply, *phases: str) -> None:
    """Wait until the reply's sign of life names one of these phases."""
    while reply.sign is None or reply.sign.phase not in phases:
        assert reply.outcome is None, reply.outcome
        await reply.wait_news(reply.end, reply.sign_version)


@asynccontextmanager
async def running_core(
    command: WorkerCommand, settings: Settings, hang_limits: HangLimits | None = None, *, guard_s: float = HANG_GUARD_S
) -> AsyncGenerator[FaultCore]:
    """Start the actors in the system's order and stop them in reverse. Afterwards no turn is left, and no
    process that was a child of this one on the way out."""
    board = StateBoard()
    supervisor = Mailbox[SupervisorMessage]("supervisor")
    transcripts = Mailbox[TranscriptMessage]("transcript store")
    sessions = Mailbox[SessionMessage]("session manager")
    tapped = TappedAddress("supervisor", supervisor.address._send)
    tapped.generations = []
    keeper = WorkerSupervisor(inbox=supervisor.inbox, board=board, command=command, hang_limits=hang_limits)
    store = TranscriptStore(inbox=transcripts.inbox, renderer=in_process_renderer())
    manager = SessionManager(
        inbox=sessions.inbox, board=board, supervisor=tapped, transcripts=transcripts.address, limits=settings.limits
    )
    others = children_of(os.getpid())  # a browser that other tests share starts processes whenever it likes
    with trio.fail_after(guard_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            await nursery.start(keeper.run)
            async with trio.open_nursery() as inner:
                await inner.start(manager.run)
                running = FaultCore(
                    board=board,
                    supervisor=tapped,
                    sessions=sessions.address,
                    settings=settings,
                )
                yield running
                watched = Watched(children_of(os.getpid(), without=others))
                sessions.address.close()
            supervisor.address.close()
            transcripts.address.close()
    counts = board.value.requests
    assert (counts.running, counts.queued, board.value.worker.state) == (0, 0, "stopped")
    record = Path(settings.home / "run" / "worker.json")
    assert not record.exists()
    assert watched.left_after(GONE_WITHIN_S) == []
