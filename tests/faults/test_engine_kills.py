"""The engine's process killed at any moment of a request, the first milliseconds included: no answer fails.

One death has several witnesses: a request that loses its connection, the watcher of the process, the exit of the
worker. Whichever speaks first, the request is lost and goes on in the next worker.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import trio

from actors.reply import Reply
from actors.supervisor.messages import CountTokens, SessionCommand
from muse.errors import Unavailable
from muse.protocol import TextSegment
from tests.faults.core import FaultCore, finished
from tests.faults.test_recital import DATE, known_text, memorised, reciting, turns, victim

pytestmark = pytest.mark.thorough

NAMES = ("plan", "german", "story", "count")
SEED = 20261201


async def ask(core: FaultCore, name: str) -> Reply:
    question = turns(name)[0]["messages"][0]["content"]
    return await core.start(question, temperature=0, chat_template_kwargs={"current_date": DATE})


async def kill_after(core: FaultCore, name: str, delay_s: float) -> bool:
    """Ask, kill the engine so much later, read it all. Whether a worker more was asked."""
    core.generations.clear()
    epoch = core.board.value.worker.epoch
    engine = await victim(core, epoch, "engine")
    reply = await ask(core, name)
    await trio.sleep(delay_s)
    os.kill(engine, signal.SIGKILL)
    outcome = await finished(reply)
    assert reply.text("reasoning") + reply.text("answer") == known_text(name)
    assert outcome.finish_reason == "stop"
    await core.wait_epoch(epoch + 1, "ready")
    return len(core.generations) > 1


def moments(count: int) -> list[tuple[str, float]]:
    """Half of them in the first milliseconds."""
    chance = random.Random(SEED)
    return [
        (chance.choice(NAMES), chance.uniform(0.0, 0.01) if number % 2 else chance.uniform(0.0, 0.1))
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
async def test_a_kill_at_any_moment_fails_no_answer(tmp_path: Path, count: int) -> None:
    """Every answer is the memorised one, whole and once."""
    async with reciting(tmp_path, kills=count) as core:
        asked_again = [await kill_after(core, name, delay_s) for name, delay_s in moments(count)]
    assert any(asked_again), "every kill came too late"


async def test_an_engine_that_dies_while_it_tokenises(tmp_path: Path) -> None:
    """It is stopped first, so that the request certainly waits for it: the answer starts again, questions are 503."""
    async with reciting(tmp_path, kills=2) as core:
        engine = await victim(core, 1, "engine")
        os.kill(engine, signal.SIGSTOP)
        reply = await ask(core, "german")
        while not core.generations:
            await trio.sleep(0.01)
        faults: list[Unavailable] = []

        async def count(*, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            with pytest.raises(Unavailable) as caught:
                await core.supervisor.ask(CountTokens(segments=(TextSegment(text="its own", special=False),)))
            faults.append(caught.value)

        async with trio.open_nursery() as nursery:
            await nursery.start(count)
            # Answered by the worker behind the count: so both have begun.
            await core.supervisor.ask(SessionCommand(action="show", session_id="s"))
            os.kill(engine, signal.SIGKILL)
        outcome = await finished(reply)
        assert reply.text("answer") == memorised("german")["message"]["content"]
        assert outcome.metrics.resumed == 1
        assert [(fault.status, fault.code, fault.retry_after_s) for fault in faults] == [(503, "model_unavailable", 5)]
        await core.wait_epoch(2, "ready")
