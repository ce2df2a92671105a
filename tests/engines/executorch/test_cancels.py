"""Cancels and other words to a running answer, in every phase and at any moment: one outcome, told truthfully."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import trio

from actors.reply import Finished, Reply
from actors.sessions.messages import AnswerNow
from tests.api.test_pictures import asking, stored
from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.cores import Manner, stand_in_core
from tests.engines.executorch.test_crashes import LOOKS_LONG, OPTIONS, answer_well, check, start
from tests.faults.core import FaultCore, finished, wait_length, wait_phase
from tests.worker.nano import turns

RACES = 60


async def check_cancelled(core: FaultCore, reply: Reply) -> None:
    """It ends so, with a beginning of what it would have said; a second cancel finds nothing."""
    assert await core.cancel(reply)
    outcome = await finished(reply)
    assert (outcome.finish_reason, outcome.metrics.cancelled) == ("cancelled", True)
    assert turns("count")[0]["answer"]["message"]["content"].startswith(reply.text("answer"))
    assert not await core.cancel(reply)
    assert reply.outcome is outcome


async def test_cancel_in_every_phase(artifact: Artifact, tmp_path: Path) -> None:
    """While it loads, waits, reads, writes, and goes on after a death; nobody else is touched."""
    async with stand_in_core(artifact("solo"), tmp_path) as core:
        loading = await start(core, "count")
        await wait_phase(loading, "loading")
        await check_cancelled(core, loading)
        await core.wait_worker("ready")

        running = await start(core, "count")
        await wait_length(running)
        queued = await start(core, "count")
        await wait_phase(queued, "queued")
        await check_cancelled(core, queued)
        assert running.outcome is None
        await check_cancelled(core, running)
        assert running.text("answer")
        await answer_well(core)

        reading = await start(core, "needle-far-1")
        await wait_phase(reading, "prefill")
        await check_cancelled(core, reading)
        assert not reading.end
        await answer_well(core)
        assert core.board.value.worker.epoch == 1

        resuming = await start(core, "count")
        await wait_length(resuming)
        core.signal_worker(signal.SIGKILL)
        await core.wait_epoch(2, "loading")
        await check_cancelled(core, resuming)
        await core.wait_worker("ready")
        await answer_well(core)


async def test_cancel_while_it_looks(artifact: Artifact, tmp_path: Path) -> None:
    """Between two pictures; the same worker sees the next one."""
    async with stand_in_core(artifact("dflash"), tmp_path, LOOKS_LONG) as core:
        await core.wait_worker("ready")
        pictures = [asking(stored("image-blue")) for _ in range(20)]
        reply = await core.start("", messages=pictures, temperature=0, chat_template_kwargs=OPTIONS)
        await wait_phase(reply, "vision")
        await check_cancelled(core, reply)
        again = await core.start("", messages=pictures[:1], temperature=0, chat_template_kwargs=OPTIONS)
        assert await check(again, "image-blue") == 0
        assert core.board.value.worker.epoch == 1


async def test_cancel_racing_with_the_end(artifact: Artifact, tmp_path: Path) -> None:
    """At any moment of an answer, mostly near its end: exactly one outcome; the next turn of the session is whole."""
    chance = random.Random(20260)
    turn = turns("code")[0]
    whole = turn["answer"]["message"]["content"]
    outcomes = {"stop": 0, "cancelled": 0}
    async with stand_in_core(artifact("dflash"), tmp_path, Manner()) as core:
        await core.wait_worker("ready")
        for number in range(RACES):
            fields = {"session_id": f"s{number % 3}", "temperature": 0, "chat_template_kwargs": OPTIONS}
            reply = await core.start("", messages=turn["messages"], **fields)
            await wait_length(reply, chance.randrange(2 * len(whole)) if number % 4 else 10**6)
            for _ in range(chance.randrange(12)):
                await trio.lowlevel.checkpoint()
            cancelled = await core.cancel(reply)
            following = await core.start("", messages=turns("fruit")[0]["messages"], **fields)
            again = await core.cancel(reply)
            outcome = await reply.wait_outcome()
            assert isinstance(outcome, Finished)
            outcomes[outcome.finish_reason] += 1
            assert whole.startswith(reply.text("answer"))
            assert reply.text("answer") == whole or outcome.finish_reason == "cancelled"
            assert cancelled or outcome.finish_reason == "stop"
            assert cancelled or not again
            assert await check(following, "fruit") == 0
            assert reply.outcome is outcome
        assert min(outcomes.values()) > 0, outcomes
        assert core.board.value.worker.epoch == 1
        await answer_well(core)


async def test_a_thought_is_closed_by_hand_and_by_its_budget(artifact: Artifact, tmp_path: Path) -> None:
    """The answer follows in the same reply, and what was thought stays as it was."""
    (whole,) = turns("story")[0]["answer"]["reasoning"]
    async with stand_in_core(artifact("solo"), tmp_path, Manner(pause_s=0.01)) as core:
        await core.wait_worker("ready")
        for by_hand in (True, False):
            budget = {} if by_hand else {"muse": {"max_thinking_tokens": 8}}
            messages = turns("story")[0]["messages"]
            reply = await core.start(
                "", messages=messages, temperature=0, chat_template_kwargs=OPTIONS, max_tokens=100, **budget
            )
            if by_hand:
                await wait_length(reply)
                assert await core.sessions.ask(AnswerNow(reply_id=reply.id))
            outcome = await finished(reply)
            thought = reply.text("reasoning").split("\n\n")[0]  # put off what it knows, it may begin another one
            assert whole.startswith(thought)
            assert 0 < len(thought) < len(whole)
            assert reply.text("answer")
            assert (outcome.metrics.thinking_tokens or 0) >= (1 if by_hand else 8)
            await core.wait_idle()
