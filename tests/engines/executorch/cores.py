"""The actors over a worker with a stand-in: as fast as it is, or slowed down so that something can happen to it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from actors.supervisor.launch import WorkerCommand
from actors.supervisor.watchdog import HangLimits
from muse.settings import Settings
from tests.faults.core import HANG_GUARD_S, FaultCore, running_core

_SLOWED: Final = """
import runpy, time
from muse.worker.engines.executorch import library
evaluate = library.Method.__call__
def slowly(self, inputs):
    time.sleep({pause_s})
    return evaluate(self, inputs)
library.Method.__call__ = slowly
runpy.run_module("muse.worker", run_name="__main__", alter_sys=True)
"""


@attrs.frozen(kw_only=True)
class Manner:
    """How the worker behaves. pause_s: before each call of the program. batch: prompt tokens evaluated at a time."""

    pause_s: float = 0.0
    batch: int | None = None


SLOW: Final = Manner(pause_s=0.004, batch=64)
"""An answer of fifty tokens takes half a second, a prompt of 700 as long."""


class StandIn(WorkerCommand):
    """Starts workers of that manner."""

    def __init__(self, settings: Settings, manner: Manner) -> None:
        super().__init__(settings)
        self._manner = manner

    def arguments(self) -> list[str]:
        """See WorkerCommand."""
        python, _option, _module, *others = super().arguments()
        if self._manner.batch is not None:
            others += ["--batch", str(self._manner.batch)]
        return [python, "-c", _SLOWED.format(pause_s=self._manner.pause_s), *others]


@asynccontextmanager
async def stand_in_core(
    artifact: Path,
    home: Path,
    manner: Manner = SLOW,
    *,
    hang_limits: HangLimits | None = None,
    guard_s: float = 2 * HANG_GUARD_S,
) -> AsyncGenerator[FaultCore]:
    """The actors over an artifact, still loading. At the end no process is left."""
    settings = Settings(engine="executorch", model=artifact, home=home, threads=1)
    assert settings.worker_python == sys.executable
    async with running_core(StandIn(settings, manner), settings, hang_limits, guard_s=guard_s) as core:
        yield core
