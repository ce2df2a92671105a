"""Real actors over the real worker process with the scripted engine, without the HTTP front."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from actors.kernel import Address, Mailbox
from actors.sessions.actor import SessionManager
from actors.sessions.messages import SessionMessage
from actors.state_board import StateBoard
from actors.supervisor.actor import WorkerSupervisor
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import SupervisorMessage
from actors.supervisor.watchdog import HangLimits
from actors.transcripts.actor import TranscriptStore
from actors.transcripts.messages import TranscriptMessage
from muse.settings import Limits, Settings
from tests.in_process_jobs import in_process_renderer

HANG_GUARD_S = 30


@attrs.frozen(kw_only=True)
class Core:
    """The running actors; `pids` are the guards of all workers started so far."""

    board: StateBoard
    supervisor: Address[SupervisorMessage]
    sessions: Address[SessionMessage]
    transcripts: Address[TranscriptMessage]
    settings: Settings

    async def wait_worker(self, *states: str) -> None:
        """Wait until the worker is in one of `states`."""
        while self.board.value.worker.state not in states:
            await self.board.wait_newer(self.board.version)

    async def wait_idle(self) -> None:
        """Wait until no turn runs or waits."""
        while (counts := self.board.value.requests).running or counts.queued:
            await self.board.wait_newer(self.board.version)


@asynccontextmanager
async def running_core(settings: Settings, hang_limits: HangLimits | None = None) -> AsyncGenerator[Core]:
    """Start the actors in the system's order and stop them in reverse."""
    board = StateBoard()
    supervisor = Mailbox[SupervisorMessage]("supervisor")
    transcripts = Mailbox[TranscriptMessage]("transcript store")
    sessions = Mailbox[SessionMessage]("session manager")
    keeper = WorkerSupervisor(
        inbox=supervisor.inbox, board=board, command=WorkerCommand(settings), hang_limits=hang_limits
    )
    store = TranscriptStore(inbox=transcripts.inbox, renderer=in_process_renderer())
    manager = SessionManager(
        inbox=sessions.inbox,
        board=board,
        supervisor=supervisor.address,
        transcripts=transcripts.address,
        limits=settings.limits,
    )
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            await nursery.start(keeper.run)
            async with trio.open_nursery() as inner:
                await inner.start(manager.run)
                yield Core(
                    board=board,
                    supervisor=supervisor.address,
                    sessions=sessions.address,
                    transcripts=transcripts.address,
                    settings=settings,
                )
                sessions.address.close()
            supervisor.address.close()
            transcripts.address.close()


@pytest.fixture
def core(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Core]]:
    """`async with core(script) as running:` starts everything over that script."""

    def start(
        script: dict[str, Any],
        *,
        limits: Limits | None = None,
        hang_limits: HangLimits | None = None,
        draft: Path | None = None,
    ) -> AbstractAsyncContextManager[Core]:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script))
        settings = Settings(
            engine="scripted", model=path, draft=draft, home=tmp_path / "home", limits=limits or Limits()
        )
        return running_core(settings, hang_limits)

    return start
