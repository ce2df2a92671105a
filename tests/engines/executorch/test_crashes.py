"""The worker killed or stopped in every phase: the answer goes on, and is the memorised one byte for byte.

The worker is slowed down, so that what happens to it happens in that phase. Killing the native process alone, as the
tests of the llama.cpp engine do, has no sense here: the worker is the only one.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.reply import Reply
from tests.api.test_pictures import asking, stored
from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.cores import Manner, stand_in_core
from tests.faults.core import FaultCore, finished, wait_length, wait_phase
from tests.faults.test_recital import TRIES, Whom, known_text, recite
from tests.faults.test_stopped import PATIENT
from tests.worker.nano import DATE, PLAIN_DIALOGUES, turns

OPTIONS = {"current_date": DATE}
STARTING = attrs.evolve(PATIENT, load_s=60.0)
"""Importing torch takes as long as the machine is busy."""
LOOKS_LONG = Manner(pause_s=0.03)
PLACES: tuple[tuple[str, tuple[int, ...], Whom], ...] = (
    ("plan", (22,), "worker"),  # in the second of two messages of reasoning
    ("japanese", (6,), "group"),  # every character is three tokens
    ("emoji", (4,), "worker"),  # four and more
    ("story", (40, 200), "group"),  # twice
)
RANDOM_KILLS = 4


async def recite_in_spite(core: FaultCore, name: str, places: tuple[int, ...], whom: Whom) -> None:
    """One answer, killed at these places for certain."""
    for _ in range(TRIES):
        if len(await recite(core, name, places, whom)) == len(places):
            return
    raise AssertionError(f"{name}: every kill came too late")


async def start(core: FaultCore, name: str) -> Reply:
    """Ask the question of a dialogue."""
    return await core.start("", messages=turns(name)[0]["messages"], temperature=0, chat_template_kwargs=OPTIONS)


async def check(reply: Reply, name: str) -> int:
    """It ends with the memorised answer. How often it was resumed."""
    outcome = await finished(reply)
    known = turns(name)[0]["answer"]
    assert reply.text("answer") == known["message"]["content"]
    assert outcome.metrics.completion_tokens == len(known["ids"])
    return outcome.metrics.resumed


async def answer_well(core: FaultCore) -> None:
    """As good as new."""
    assert await check(await start(core, "fruit"), "fruit") == 0
    await core.wait_idle()


async def test_a_killed_recital_is_word_for_word(artifact: Artifact, tmp_path: Path) -> None:
    """In reasoning and answer, among characters of several tokens, twice in one answer."""
    async with stand_in_core(artifact("solo"), tmp_path) as core:
        await core.wait_worker("ready")
        for name, places, whom in PLACES:
            await recite_in_spite(core, name, places, whom)


async def test_a_recital_is_word_for_word_wherever_it_was_killed(artifact: Artifact, tmp_path: Path) -> None:
    """At random places, with a draft."""
    chance = random.Random(20270)
    async with stand_in_core(artifact("dflash"), tmp_path) as core:
        await core.wait_worker("ready")
        for name in chance.sample([name for name in PLAIN_DIALOGUES if len(known_text(name)) > 25], RANDOM_KILLS):
            place = chance.randrange(len(known_text(name)) * 3 // 4)
            await recite_in_spite(core, name, (place,), chance.choice(("group", "worker")))


async def reach_idle(core: FaultCore) -> Reply | None:
    await core.wait_worker("ready")
    return None


async def reach_prefill(core: FaultCore) -> Reply:
    reply = await start(core, "needle-far-1")
    await wait_phase(reply, "prefill")
    return reply


async def reach_decode(core: FaultCore) -> Reply:
    reply = await start(core, "count")
    await wait_length(reply)
    return reply


REACH: dict[str, Callable[[FaultCore], Any]] = {
    "idle": reach_idle,
    "prefill": reach_prefill,
    "decode": reach_decode,
}
ASKED = {"prefill": "needle-far-1", "decode": "count"}


async def test_a_death_in_any_phase_is_survived(artifact: Artifact, tmp_path: Path) -> None:
    """By a crash of its own, of the guard alone, or of all; while it loads, rests, reads, writes."""
    async with stand_in_core(artifact("solo"), tmp_path) as core:
        waiting = await start(core, "plan")
        await core.wait_worker("loading")
        core.signal_worker(signal.SIGSEGV)
        await check(waiting, "plan")
        epoch = core.board.value.worker.epoch
        assert epoch == 2
        for phase, target, number in (
            ("idle", "worker", signal.SIGSEGV),
            ("prefill", "worker", signal.SIGKILL),
            ("decode", "guard", signal.SIGKILL),
        ):
            reply = await REACH[phase](core)
            os.kill(core.group() if target == "guard" else core.worker_pids()[0], number)
            epoch += 1
            await core.wait_epoch(epoch, "ready", "busy")
            if reply is not None:
                resumed = await check(reply, ASKED[phase])
                # Without its guard a worker still gets a second to say what it was saying.
                assert resumed == 1 or target == "guard"
            await answer_well(core)


async def test_a_death_while_it_looks_is_survived(artifact: Artifact, tmp_path: Path) -> None:
    """The picture is sent again."""
    async with stand_in_core(artifact("dflash"), tmp_path, LOOKS_LONG) as core:
        await core.wait_worker("ready")
        reply = await core.start(
            "", messages=[asking(stored("image-blue"))], temperature=0, chat_template_kwargs=OPTIONS
        )
        await wait_phase(reply, "vision")
        os.killpg(core.group(), signal.SIGKILL)
        assert await check(reply, "image-blue") == 1


async def test_a_cancel_and_a_death_at_once_end_the_answer(artifact: Artifact, tmp_path: Path) -> None:
    """As cancelled, whichever came first; what it was saying does not come back."""
    async with stand_in_core(artifact("dflash"), tmp_path) as core:
        await core.wait_worker("ready")
        reply = await reach_decode(core)
        assert await core.cancel(reply)
        core.signal_worker(signal.SIGKILL)
        assert (await finished(reply)).finish_reason == "cancelled"
        await core.wait_worker("ready")
        await answer_well(core)


@pytest.mark.parametrize(
    "phase", ["decode", pytest.param("prefill", marks=pytest.mark.slow), pytest.param("idle", marks=pytest.mark.slow)]
)
async def test_a_stopped_worker_is_found(artifact: Artifact, tmp_path: Path, phase: str) -> None:
    """SIGSTOP: a new worker, and what was under way is whole."""
    async with stand_in_core(artifact("solo"), tmp_path, hang_limits=STARTING) as core:
        await core.wait_worker("ready")
        reply = await REACH[phase](core)
        core.signal_worker(signal.SIGSTOP)
        await core.wait_epoch(2, "ready", "busy")
        if reply is not None:
            assert await check(reply, ASKED[phase]) == 1
        await answer_well(core)


async def test_a_cancel_ends_a_stopped_worker(artifact: Artifact, tmp_path: Path) -> None:
    """It cannot obey: the ladder ends it, and the reply is cancelled, not failed."""
    limits = attrs.evolve(STARTING, silent_decode_s=60)
    async with stand_in_core(artifact("solo"), tmp_path, hang_limits=limits) as core:
        await core.wait_worker("ready")
        reply = await reach_decode(core)
        core.signal_worker(signal.SIGSTOP)
        assert await core.cancel(reply)
        assert (await finished(reply)).finish_reason == "cancelled"
        await core.wait_epoch(2, "ready")
        await answer_well(core)
