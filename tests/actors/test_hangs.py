"""A worker that hangs, in whatever phase: found, ended, replaced; the answer goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.sessions.messages import CancelTurn
from actors.supervisor.watchdog import HangLimits
from tests.actors.conftest import Core
from tests.actors.test_resume import TEXT, WORDS
from tests.actors.test_sessions import chat, finished, start, wait_text

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
QUICK = HangLimits(
    load_s=2.0,
    ping_after_s=0.3,
    silent_idle_s=1.0,
    silent_prefill_s=1.0,
    silent_decode_s=1.0,
    stuck_prefill_s=2.0,
    stuck_decode_s=2.0,
    cancel_s=0.3,
    term_s=0.3,
)


def once(tmp_path: Path, **fault: Any) -> dict[str, Any]:
    return {"counter": str(tmp_path / "count"), "times": 1, **fault}


@pytest.mark.parametrize("request_only", [True, False], ids=["request", "process"])
@pytest.mark.parametrize("place", [{"at": "prefill"}, {"at": "token", "token": 3}], ids=["prefill", "decode"])
async def test_a_hang_while_busy_is_ended_and_the_answer_goes_on(
    core: CoreFactory, tmp_path: Path, place: dict[str, Any], request_only: bool
) -> None:
    """Silent as a whole, or talking but stuck: both end in a new worker and the whole text."""
    fault = once(tmp_path, do="hang", request=request_only, **place)
    async with core({"answers": [{"tokens": WORDS, "faults": [fault]}]}, hang_limits=QUICK) as running:
        reply = await start(running, chat("hi"))
        outcome = await finished(reply)
        assert reply.text("answer") == TEXT
        assert outcome.metrics.resumed == 1


async def test_a_stopped_process_is_found_while_idle(core: CoreFactory) -> None:
    """SIGSTOP: the ping stays unanswered, and SIGKILL works where SIGTERM would wait."""
    async with core({"answers": [{"tokens": WORDS}]}, hang_limits=QUICK) as running:
        await running.wait_worker("ready")
        record = json.loads((running.settings.home / "run" / "worker.json").read_text())
        os.killpg(record["pid"], signal.SIGSTOP)
        await running.wait_worker("restarting")
        assert "stopped answering" in str(running.board.value.worker.reason)
        await running.wait_worker("ready")
        reply = await start(running, chat("hi"))
        await finished(reply)
        assert reply.text("answer") == TEXT


async def test_a_hang_in_load_is_ended_and_tried_again(core: CoreFactory, tmp_path: Path) -> None:
    """No sign of life while loading: another try, and a request that waited is answered."""
    fault = once(tmp_path, at="load", do="hang")
    async with core({"answers": [{"tokens": WORDS}], "faults": [fault]}, hang_limits=QUICK) as running:
        reply = await start(running, chat("hi"))
        await finished(reply)
        assert reply.text("answer") == TEXT
        assert running.board.value.worker.epoch == 2


async def test_a_cancel_that_is_ignored_climbs_the_ladder(core: CoreFactory) -> None:
    """The reply ends as cancelled, the worker is replaced, and a neighbour's answer goes on in the new one."""
    script = {
        "answers": [
            {
                "when": "deaf",
                "tokens": {"repeat": ["word "], "count": 50000},
                "token_ms": 2,
                "faults": [{"at": "token", "token": 0, "do": "ignore_cancel"}],
            },
            {"tokens": {"repeat": ["x"], "count": 900}, "token_ms": 4},
        ]
    }
    async with core(script, hang_limits=QUICK) as running:
        deaf = await start(running, chat("deaf"))
        neighbour = await start(running, chat("hi"))
        await wait_text(deaf)
        await wait_text(neighbour)
        assert await running.sessions.ask(CancelTurn(reply_id=deaf.id))
        assert (await finished(deaf)).finish_reason == "cancelled"
        assert (await finished(neighbour)).metrics.resumed == 1
        assert neighbour.text("answer") == "x" * 900
