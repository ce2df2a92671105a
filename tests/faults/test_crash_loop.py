"""The crash loop: three tries, then `failed` with the reason, until somebody asks for another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.supervisor import policy
from actors.supervisor.messages import RestartWorker
from muse.settings import Settings
from tests.faults.catalog import TEXT, WORDS
from tests.faults.core import FaultCore, failed, running_core
from tests.faults.model_worker import ModelWorker, ModelWorkers

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]


@pytest.mark.parametrize("at", ["start", pytest.param("load", marks=pytest.mark.slow), "ready"])
async def test_the_fourth_death_is_the_last_and_another_try_works(
    core: CoreFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Four processes, no fifth; a request hears the reason at once; a try by hand starts all over."""
    monkeypatch.setattr(policy, "BACK_OFF_S", (0.0, 0.0, 0.0))
    counter = tmp_path / "deaths"
    fault = {"at": at, "do": "exit", "status": 7, "counter": str(counter), "times": 1000}
    async with core({"answers": [{"tokens": WORDS}], "faults": [fault]}) as running:
        await running.wait_worker("failed")
        worker = running.board.value.worker
        assert worker.epoch == 4
        assert counter.read_text() == "xxxx"
        assert worker.reason is not None
        assert "exit status 7" in worker.reason
        assert "4 times" in worker.reason
        refused = await failed(await running.start("hi"))
        assert (refused.fault.status, refused.fault.data["details"]) == (503, worker.reason)
        counter.write_text("x" * 998)  # two more deaths
        await running.supervisor.ask(RestartWorker())
        await running.wait_worker("ready")
        await running.wait_epoch(7, "ready")
        await running.check_answers("hi", TEXT)


class Doomed(ModelWorkers):
    """Workers that die as soon as they are started; times: of the starts, on the test's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def start(self) -> ModelWorker:
        worker = await super().start()
        self.times.append(trio.current_time())
        worker.die()
        return worker


async def test_the_pauses_between_tries(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    """0.5, 2 and 8 s, then none: nothing is started by itself however long it waits."""
    workers = Doomed()
    async with running_core(workers, Settings(engine="scripted", home=tmp_path), guard_s=10_000) as running:
        await running.wait_worker("failed")
        await trio.sleep(5_000)
        assert running.board.value.worker.state == "failed"
    pauses = [after - before for before, after in zip(workers.times, workers.times[1:], strict=False)]
    assert pauses == pytest.approx([0.5, 2.0, 8.0])
