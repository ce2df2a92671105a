"""Cancel by id in every phase, racing with the end, and by the end of the server: one outcome, once."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from actors.reply import Failed, Finished, Reply
from tests.faults.catalog import TEXT, WORDS
from tests.faults.core import FaultCore, finished, wait_length, wait_phase

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]
Phase = Literal["queued", "loading", "prefill", "silent-prefill", "decode", "resuming"]
PHASES: tuple[Phase, ...] = ("queued", "loading", "prefill", "silent-prefill", "decode", "resuming")
SILENCE_MS = 600
FOR_EVER_MS = 600_000


def script(folder: Path, phase: Phase) -> dict[str, Any]:
    """long: an endless answer. deaf: a prefill in which nothing is said or heard for a while. A load that
    takes for ever is armed by deleting its file, for phase `loading` from the start."""
    counter = folder / "load"
    if phase != "loading":
        counter.write_text("x")
    long = {"tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 2}
    silence = {"at": "prefill", "processed": 64, "do": "delay", "ms": SILENCE_MS}
    return {
        "answers": [{"when": "long", **long}, {"when": "deaf", **long, "faults": [silence]}, {"tokens": WORDS}],
        "prefill_us_per_token": 2000,
        "faults": [{"at": "load", "do": "delay", "ms": FOR_EVER_MS, "counter": str(counter), "times": 1}],
    }


async def reach(running: FaultCore, phase: Phase, folder: Path) -> tuple[Reply, list[Reply]]:
    """Bring a request into a phase; also returns the other requests that this needed."""
    others: list[Reply] = []
    if phase == "loading":
        await running.wait_worker("loading")
        reply = await running.start("long")
        await wait_phase(reply, "loading", "restarting")
        return reply, others
    await running.wait_worker("ready")
    if phase == "queued":
        others = [await running.start("long") for _ in range(2)]
        for other in others:
            await wait_length(other)
    reply = await running.start(("deaf" if phase == "silent-prefill" else "long") + "x" * 200)
    match phase:
        case "queued":
            await wait_phase(reply, "queued")
        case "prefill" | "silent-prefill":
            await wait_phase(reply, "prefill")
        case _:
            await wait_length(reply)
    if phase == "resuming":
        (folder / "load").unlink()
        running.signal_worker(signal.SIGKILL)
        await running.wait_epoch(2, "loading")
    return reply, others


@pytest.mark.parametrize("phase", PHASES)
async def test_cancel_in_every_phase(core: CoreFactory, tmp_path: Path, phase: Phase) -> None:
    """Cancelled with what was said; a second cancel finds nothing; the neighbours are not touched."""
    async with core(script(tmp_path, phase)) as running:
        reply, others = await reach(running, phase, tmp_path)
        assert await running.cancel(reply)
        outcome = await finished(reply)
        assert (outcome.finish_reason, outcome.metrics.cancelled) == ("cancelled", True)
        assert bool(reply.end) == (phase in ("decode", "resuming"))
        assert reply.text("answer") == ("word " * 60000)[: reply.end]
        assert not await running.cancel(reply)
        assert reply.outcome is outcome
        assert all(other.outcome is None for other in others)
        for other in others:
            assert await running.cancel(other)
        if running.board.value.worker.state == "loading":
            while not (tmp_path / "load").exists():  # else the next worker would be the one that loads for ever
                await trio.sleep(0.01)
            running.signal_worker(signal.SIGKILL)  # or it would load for ever
        await running.check_answers("hi", TEXT)


@pytest.mark.parametrize("phase", PHASES)
async def test_shutdown_ends_every_reply(core: CoreFactory, tmp_path: Path, phase: Phase) -> None:
    """The system stops in each phase: every reply has its outcome, no process is left (core checks it)."""
    async with core(script(tmp_path, phase)) as running:
        reply, others = await reach(running, phase, tmp_path)
    for ended in (reply, *others):
        assert isinstance(ended.outcome, Failed)
        assert ended.outcome.fault.code == "stopping"


RACES = 100


@pytest.mark.parametrize("races", [RACES, pytest.param(10 * RACES, marks=pytest.mark.slow)])
async def test_cancel_racing_with_the_end(core: CoreFactory, races: int) -> None:
    """A cancel at any moment of a short answer, mostly near its end: exactly one outcome, told truthfully;
    again is nothing; the next turn of the same session is whole, whatever was late."""
    random_places = random.Random(20260)
    length, word = 12, "word "
    answers = [{"when": "short", "tokens": {"repeat": [word], "count": length}, "token_ms": 0.3}, {"tokens": WORDS}]
    whole = word * length
    outcomes = {"stop": 0, "cancelled": 0}
    async with core({"answers": answers}) as running:
        await running.wait_worker("ready")
        for number in range(races):
            reply = await running.start("short", session_id=f"s{number % 3}")
            place = min(random_places.randrange(2 * length), length)
            await wait_length(reply, place * len(word))
            for _ in range(random_places.randrange(12)):
                await trio.lowlevel.checkpoint()
            cancelled = await running.cancel(reply)
            following = await running.start("next", session_id=f"s{number % 3}")
            again = await running.cancel(reply)
            outcome = await reply.wait_outcome()
            assert isinstance(outcome, Finished)
            outcomes[outcome.finish_reason] += 1
            if outcome.finish_reason == "stop":
                assert reply.text("answer") == whole
            else:
                assert cancelled
                assert whole.startswith(reply.text("answer"))
            assert cancelled or outcome.finish_reason == "stop"
            assert cancelled or not again
            assert not await running.cancel(reply)
            assert (await finished(following)).finish_reason == "stop"
            assert following.text("answer") == TEXT
            assert reply.outcome is outcome
        assert min(outcomes.values()) > 0, outcomes
        assert running.board.value.worker.epoch == 1
        await running.check_answers("hi", TEXT)
