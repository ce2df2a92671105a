"""The composition root: makes the actors, joins them, starts them in order and stops them in reverse.

Order of start: sockets are bound by the caller, then TranscriptStore, WorkerSupervisor (which starts
loading the model in the background), SessionManager, HttpFront. Order of stop: the front stops taking
connections and ends its streams, the session manager gives every reply its outcome, the supervisor
ends the worker. All within 2 s.
"""

from __future__ import annotations

import logging
import secrets
import time
from functools import partial

import attrs
import trio

from actors.front.app import make_app
from actors.front.binding import Binding
from actors.front.context import FrontContext
from actors.front.form_checker import FormChecker
from actors.front.gate import Gate
from actors.front.limits import FrontLimits
from actors.front.memory_trimmer import MemoryTrimmer
from actors.front.security import SecurityPolicy
from actors.front.serve import serve
from actors.front.static import load_static
from actors.kernel import Address, Mailbox
from actors.sessions.actor import SessionManager
from actors.sessions.messages import SessionMessage
from actors.state_board import StateBoard
from actors.supervisor.actor import WorkerSupervisor
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import SupervisorMessage
from actors.transcripts.actor import TranscriptStore
from actors.transcripts.messages import TranscriptMessage
from muse.settings import PROJECT_ROOT, Settings

log = logging.getLogger("muse.system")


@attrs.frozen(kw_only=True)
class System:
    """What others may hold of a running system: addresses, the board, and how to stop it."""

    settings: Settings
    board: StateBoard
    sessions: Address[SessionMessage]
    supervisor: Address[SupervisorMessage]
    transcripts: Address[TranscriptMessage]
    stop: trio.Event
    instance_id: str


async def run_system(
    settings: Settings,
    binding: Binding,
    *,
    command: WorkerCommand | None = None,
    task_status: trio.TaskStatus[System] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run everything on bound sockets until `system.stop` is set.

    Reports the System once the front takes connections; the model may still be loading.
    """
    command = command if command is not None else WorkerCommand(settings)
    board = StateBoard()
    supervisor = Mailbox[SupervisorMessage]("supervisor")
    transcripts = Mailbox[TranscriptMessage]("transcript store")
    sessions = Mailbox[SessionMessage]("session manager")
    system = System(
        settings=settings,
        board=board,
        sessions=sessions.address,
        supervisor=supervisor.address,
        transcripts=transcripts.address,
        stop=trio.Event(),
        instance_id=secrets.token_hex(8),
    )
    forms = FormChecker()
    limits = FrontLimits(body_bytes=settings.limits.body_bytes)
    context = FrontContext(
        settings=settings,
        board=board,
        sessions=sessions.address,
        supervisor=supervisor.address,
        transcripts=transcripts.address,
        instance_id=system.instance_id,
        started_at=time.time(),
        forms=forms,
    )
    memory = MemoryTrimmer()
    gate = Gate(
        make_app(context),
        policy=SecurityPolicy.for_binding(binding),
        static=load_static(PROJECT_ROOT / "web_dist"),
        limits=limits,
        memory=memory,
    )
    await command.end_left_over()
    async with trio.open_nursery() as nursery:
        store = TranscriptStore(inbox=transcripts.inbox)
        keeper = WorkerSupervisor(inbox=supervisor.inbox, board=board, command=command)
        manager = SessionManager(
            inbox=sessions.inbox,
            board=board,
            supervisor=supervisor.address,
            transcripts=transcripts.address,
            limits=settings.limits,
        )
        await nursery.start(store.run)
        await nursery.start(keeper.run)
        await nursery.start(manager.run)
        async with trio.open_nursery() as helpers:
            helpers.start_soon(memory.run)
            await helpers.start(forms.run)
            async with trio.open_nursery() as front:
                front_stop = trio.Event()
                await front.start(partial(serve, gate, sockets=binding.sockets, stop=front_stop, limits=limits))
                task_status.started(system)
                await system.stop.wait()
                log.info("stopping")
                board.change(stopping=True)  # streams of state end themselves
                sessions.address.close()  # every reply gets its outcome, so streams of answers end themselves
                front_stop.set()
            helpers.cancel_scope.cancel()
        supervisor.address.close()
        transcripts.address.close()
