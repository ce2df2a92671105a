"""What the fault tests share: the long-lived server of the catalog, and the actors without the front."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.supervisor.launch import WorkerCommand
from actors.supervisor.watchdog import HangLimits
from muse.settings import Limits, Settings
from tests.faults.core import HANG_GUARD_S, FaultCore, running_core
from tests.faults.server import FaultServer


@pytest.fixture(scope="module")
def fault_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultServer]:
    """One server for all cases of a file; it ends well, whatever it went through."""
    server = FaultServer(tmp_path_factory.mktemp("faults"))
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.log()


@pytest.fixture
def core(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[FaultCore]]:
    """`async with core(script) as running:` starts the actors over that script, and checks the end."""

    def start(
        script: dict[str, Any], *, limits: Limits | None = None, hang_limits: HangLimits | None = None
    ) -> AbstractAsyncContextManager[FaultCore]:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(script))
        settings = Settings(engine="scripted", model=path, home=tmp_path / "home", limits=limits or Limits())
        return running_core(WorkerCommand(settings), settings, hang_limits)

    return start


@pytest.fixture
def model_core(builtin_model: Path, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[FaultCore]]:
    """The same with the real worker and the built-in model."""

    def start(
        *, hang_limits: HangLimits | None = None, guard_s: float = HANG_GUARD_S
    ) -> AbstractAsyncContextManager[FaultCore]:
        settings = Settings(model=builtin_model, home=tmp_path / "home", threads=1)
        return running_core(WorkerCommand(settings), settings, hang_limits, guard_s=guard_s)

    return start
