"""How long a load may be silent: as long as its engine may need for one call, from the first moment on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from actors.supervisor.launch import WorkerCommand
from actors.supervisor.watchdog import HangLimits
from muse.settings import Settings
from tests.faults.core import running_core
from tests.faults.model_worker import ModelWorkers


@pytest.mark.parametrize(("engine", "lives"), [("executorch", 1), ("llamacpp", 2)])
async def test_a_silent_load_has_its_engines_time(
    engine: str, lives: int, autojump_clock: trio.testing.MockClock
) -> None:
    """One whose calls hold the interpreter can say nothing meanwhile; another is given up and started again."""
    workers = ModelWorkers()
    workers.engine = engine
    async with running_core(cast(WorkerCommand, workers), Settings(home=Path("/nonexistent")), guard_s=1e9):
        await trio.sleep(HangLimits().load_s + 10)
        assert len(workers.lives) == lives
    assert autojump_clock.current_time() > HangLimits().load_s
    assert workers.complaints == []
