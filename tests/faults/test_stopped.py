"""Workers that are stopped (SIGSTOP) or that fall silent: found by missing progress, ended, replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
import trio

from actors.supervisor.watchdog import HangLimits
from tests.faults.catalog import TEXT, WORDS
from tests.faults.core import FaultCore, finished, wait_length, wait_phase

pytestmark = pytest.mark.thorough

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]
Phase = Literal["load", "idle", "prefill", "decode"]
# Far below the real limits, and far above what a scripted worker on a busy machine needs between two lines.
QUICK = HangLimits(
    load_s=4.0,
    ping_after_s=0.5,
    silent_idle_s=2.0,
    silent_prefill_s=2.0,
    silent_decode_s=2.0,
    stuck_prefill_s=4.0,
    stuck_decode_s=4.0,
    cancel_s=0.5,
    term_s=0.5,
)
# The real engine works between two lines, on a machine that others use too.
PATIENT = attrs.evolve(
    QUICK,
    load_s=6.0,
    silent_idle_s=3.0,
    silent_prefill_s=4.0,
    silent_decode_s=3.0,
    stuck_prefill_s=5.0,
    stuck_decode_s=4.0,
    cancel_s=1.5,
)
TOKENS = 24
PAUSED = {"repeat": ["word "], "count": TOKENS}
SCRIPT: dict[str, Any] = {
    "answers": [{"when": "long", "tokens": PAUSED, "token_ms": 20}, {"tokens": WORDS}],
    "prefill_us_per_token": 1000,
}
LONG_TEXT = "word " * TOKENS


async def reach(running: FaultCore, phase: Phase, prompt: str, max_tokens: int = TOKENS) -> Any:
    """Bring the worker into a phase; the reply that is under way, or None."""
    if phase == "load":
        await running.wait_worker("loading")
        return None
    await running.wait_worker("ready")
    if phase == "idle":
        return None
    reply = await running.start(prompt, max_tokens=max_tokens, temperature=0)
    await (wait_phase(reply, "prefill") if phase == "prefill" else wait_length(reply))
    assert reply.outcome is None
    return reply


@pytest.mark.parametrize("phase", ["load", "idle", "prefill", "decode"])
async def test_a_stopped_worker_is_found(core: CoreFactory, phase: Phase) -> None:
    """SIGSTOP in each phase: a new worker, and what was under way is whole."""
    async with core({**SCRIPT, "load_ms": 600}, hang_limits=QUICK) as running:
        reply = await reach(running, phase, "long" + "x" * 300)
        running.signal_worker(signal.SIGSTOP)
        await running.wait_epoch(2, "ready", "busy")
        if reply is not None:
            assert (await finished(reply)).metrics.resumed == 1
            assert reply.text("answer") == LONG_TEXT
        await running.check_answers("hi", TEXT)


@pytest.mark.model
@pytest.mark.parametrize(
    ("phase", "whom"),
    [
        pytest.param("load", -1, id="load-engine", marks=pytest.mark.slow),
        pytest.param("prefill", -1, id="prefill-engine", marks=pytest.mark.slow),
        pytest.param("decode", 0, id="decode"),
        pytest.param("load", 0, id="load", marks=pytest.mark.slow),
        pytest.param("idle", 0, id="idle", marks=pytest.mark.slow),
        pytest.param("prefill", 0, id="prefill", marks=pytest.mark.slow),
        pytest.param("decode", -1, id="decode-engine", marks=pytest.mark.slow),
    ],
)
async def test_a_stopped_real_worker_is_found(model_core: CoreFactory, phase: Phase, whom: int) -> None:
    """The same with the real worker: the whole process, or only its engine (the last of its children)."""
    async with model_core(hang_limits=PATIENT) as running:
        reply = await reach(running, phase, "Tell a long story. " + "It was a dark night at sea. " * 24)
        while len(running.worker_pids()) < 2:  # in a load the engine comes a moment after its worker
            await trio.sleep(0.001)
        os.kill(running.worker_pids()[whom], signal.SIGSTOP)
        await running.wait_epoch(2, "ready", "busy")
        if reply is not None:
            assert (await finished(reply)).metrics.resumed == 1
            assert (await finished(reply)).metrics.completion_tokens == TOKENS
        again = await running.start("Say hello.", max_tokens=5, temperature=0)
        assert (await finished(again)).metrics.resumed == 0
        await running.wait_idle()


async def test_half_a_line_and_silence(core: CoreFactory, tmp_path: Path) -> None:
    """The beginning of a line is no progress: the worker is ended, its half line never counts."""
    faults = [
        {"at": "token", "token": 3, "do": do, "counter": str(tmp_path / do), "times": 1} for do in ("half_line", "hang")
    ]
    async with core({"answers": [{"when": "half", "tokens": WORDS, "faults": faults}, *SCRIPT["answers"]]},
                    hang_limits=QUICK) as running:  # fmt: skip
        reply = await running.start("half")
        assert (await finished(reply)).metrics.resumed == 1
        assert reply.text("answer") == TEXT
        await running.check_answers("hi", TEXT)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
async def test_a_cancel_ends_a_stopped_worker(core: CoreFactory, phase: Phase) -> None:
    """Cancel meets a worker that is stopped: the ladder ends it, the reply is cancelled, not failed."""
    async with core(SCRIPT, hang_limits=attrs.evolve(QUICK, silent_decode_s=60, silent_prefill_s=60)) as running:
        reply = await reach(running, phase, "long" + "x" * 300)
        running.signal_worker(signal.SIGSTOP)
        assert await running.cancel(reply)
        assert (await finished(reply)).finish_reason == "cancelled"
        await running.wait_epoch(2, "ready")
        await running.check_answers("hi", TEXT)


@pytest.mark.model
async def test_a_cancel_ends_a_stopped_real_worker(model_core: CoreFactory) -> None:
    """The engine alone is stopped, so that the worker hears the cancel but cannot obey."""
    async with model_core(hang_limits=attrs.evolve(PATIENT, silent_decode_s=60, load_s=30)) as running:
        reply = await reach(running, "decode", "Tell a long story.", max_tokens=1000)
        os.kill(running.worker_pids()[-1], signal.SIGSTOP)
        assert await running.cancel(reply)
        assert (await finished(reply)).finish_reason == "cancelled"
        await running.wait_epoch(2, "ready")
        again = await running.start("Say hello.", max_tokens=5, temperature=0)
        await finished(again)
        await running.wait_idle()


async def test_a_worker_that_does_not_read_is_replaced(core: CoreFactory, tmp_path: Path) -> None:
    """Its stdin is full in the middle of a request: the half written line is never followed by another."""
    fault = {"at": "ready", "do": "stop_reading", "counter": str(tmp_path / "reading"), "times": 1}
    script = {"answers": SCRIPT["answers"], "faults": [fault], "context_length": 4_000_000}
    async with core(script, hang_limits=HangLimits(unread_s=4.0)) as running:
        await running.wait_worker("ready")
        # One line is still read before the worker notices that it must not; then the pipe fills.
        first = await running.start("one" * 60_000)
        second = await running.start("two" * 60_000)
        for reply in (first, second):
            outcome = await finished(reply)
            assert reply.text("answer") == TEXT
            assert outcome.metrics.resumed <= 1
        assert running.board.value.worker.epoch == 2
        await running.check_answers("hi", TEXT)
