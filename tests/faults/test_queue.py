"""Deaths that meet more than one request: a full queue, and the gap between two turns."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from actors.supervisor import policy
from actors.supervisor.messages import RestartWorker
from muse.errors import MuseError
from muse.settings import Limits
from tests.faults.catalog import TEXT, WORDS
from tests.faults.core import FaultCore, finished, wait_length, wait_phase

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]
SCRIPT = {
    "answers": [{"when": "long", "tokens": {"repeat": ["word "], "count": 60}, "token_ms": 30}, {"tokens": WORDS}]
}
QUEUE = 4


async def test_a_death_with_a_full_queue_loses_nobody(core: CoreFactory) -> None:
    """Two run, four wait, one more is refused; the worker dies. The running ones go on, the waiting ones keep
    their places, all get their whole answers."""
    async with core(SCRIPT, limits=Limits(queue=QUEUE)) as running:
        await running.wait_worker("ready")
        first = [await running.start("long") for _ in range(2)]
        for reply in first:
            await wait_length(reply)
        queued = [await running.start(f"hi {number}") for number in range(QUEUE)]
        with pytest.raises(MuseError) as caught:
            await running.start("one too many")
        assert (caught.value.status, caught.value.code) == (429, "queue_full")
        running.signal_worker(signal.SIGKILL)
        await running.wait_epoch(2, "starting", "loading")
        assert running.board.value.requests.queued == QUEUE
        for reply in first:
            assert (await finished(reply)).metrics.resumed == 1
            assert reply.text("answer") == "word " * 60
        for reply in queued:
            assert (await finished(reply)).metrics.resumed == 0
            assert reply.text("answer") == TEXT
        asked = [command.request_id for command in running.generations if "." not in command.request_id]
        # Two run at a time: neighbours may change places, nobody overtakes more than one.
        ranks = [asked.index(reply.id) for reply in first + queued]
        assert len(asked) == len(ranks)
        assert all(abs(rank - place) <= 1 for place, rank in enumerate(ranks)), ranks
        assert running.board.value.worker.epoch == 2
        await running.check_answers("hi", TEXT)


async def test_a_death_between_two_turns_is_not_seen(core: CoreFactory) -> None:
    """The second turn of a session meets another worker, which has to read all of it."""
    async with core(SCRIPT) as running:
        first = await running.start("hi", session_id="s")
        await finished(first)
        await running.wait_idle()
        running.signal_worker(signal.SIGKILL)
        await running.wait_epoch(2, "ready")
        second = await running.start("hi", session_id="s")
        outcome = await finished(second)
        assert second.text("answer") == TEXT
        assert (outcome.metrics.resumed, outcome.metrics.reused_prompt_tokens) == (0, 0)
        await running.check_answers("hi", TEXT)


async def test_a_restart_on_request_is_not_the_requests_fault(core: CoreFactory, tmp_path: Path) -> None:
    """Restarted in prefill, then dead at the same place: that is one death, no poison, and the answer is whole."""
    places = {"delay": "restarts", "exit": "deaths"}
    faults = [{"at": "prefill", "processed": 64, "do": do, "ms": 600_000, "counter": str(tmp_path / name), "times": 1}
              for do, name in places.items()]  # fmt: skip
    async with core({"answers": [{"when": "long", "tokens": WORDS, "faults": faults}]}) as running:
        await running.wait_worker("ready")
        reply = await running.start("long" + "x" * 200)
        await wait_phase(reply, "prefill")
        while not (tmp_path / "restarts").exists():  # else the next worker would be the one that waits
            await trio.sleep(0.01)
        await running.supervisor.ask(RestartWorker())
        outcome = await finished(reply)
        assert reply.text("answer") == TEXT
        assert outcome.metrics.resumed == 2
        assert running.board.value.worker.epoch == 3


async def test_a_restart_on_request_uses_up_no_try(
    core: CoreFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarted before its first token, then three deaths in a row: the fourth process is still tried."""
    monkeypatch.setattr(policy, "BACK_OFF_S", (0.0, 0.0, 0.0))
    counter = tmp_path / "deaths"
    counter.write_text("xxx")
    fault = {"at": "load", "do": "exit", "counter": str(counter), "times": 3}
    async with core({"answers": [{"tokens": WORDS}], "faults": [fault]}) as running:
        await running.wait_worker("ready")
        counter.unlink()
        await running.supervisor.ask(RestartWorker())
        await running.wait_epoch(5, "ready", "failed")
        await running.check_answers("hi", TEXT)
