"""One death, told in any order by any witness, is one loss to a request; an error of a living worker is an error."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from actors.reply import Failed, Reply
from actors.supervisor.actor import MAX_QUESTIONS
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import CountTokens, SessionCommand
from muse.errors import MuseError, Unavailable
from muse.protocol import Error, ErrorCode
from muse.settings import Settings
from tests.faults.core import FaultCore, finished, running_core
from tests.faults.model_worker import ModelWorker, ModelWorkers, words_of

QUESTION = "7 5"
WORDS = words_of(QUESTION)


def error(request_id: str | None, code: ErrorCode = "engine_error", *, fatal: bool = False) -> Error:
    return Error(request_id=request_id, code=code, message="it broke", fatal=fatal)


def told_by_request(worker: ModelWorker, request_id: str) -> None:
    worker.emit(error(request_id, fatal=True))


def told_by_watcher(worker: ModelWorker, request_id: str) -> None:
    worker.emit(error(None, "engine_killed", fatal=True))


def told_by_exit(worker: ModelWorker, request_id: str) -> None:
    worker.die()


def error_then_exit(worker: ModelWorker, request_id: str) -> None:
    worker.hung = True  # it does not answer any more
    worker.emit(error(request_id))
    worker.die()


def no_memory_then_exit(worker: ModelWorker, request_id: str) -> None:
    worker.hung = True
    worker.emit(error(request_id, "out_of_memory"))
    worker.die()


def error_then_watcher(worker: ModelWorker, request_id: str) -> None:
    worker.hung = True
    worker.emit(error(request_id))
    worker.emit(error(None, fatal=True))


def both_fatal(worker: ModelWorker, request_id: str) -> None:
    worker.emit(error(request_id, fatal=True))
    worker.emit(error(None, fatal=True))
    worker.die()


WITNESSES = (
    told_by_request,
    told_by_watcher,
    told_by_exit,
    error_then_exit,
    no_memory_then_exit,
    error_then_watcher,
    both_fatal,
)


@asynccontextmanager
async def modelled() -> AsyncGenerator[tuple[FaultCore, ModelWorkers]]:
    workers = ModelWorkers()
    settings = Settings(home=Path("/nonexistent"))
    async with running_core(cast(WorkerCommand, workers), settings, guard_s=3000.0) as core:
        yield core, workers
    assert workers.complaints == []


async def loaded(core: FaultCore, workers: ModelWorkers, life: int) -> ModelWorker:
    while len(workers.lives) < life or core.board.value.worker.state not in ("starting", "ready"):
        await core.board.wait_newer(core.board.version)
    await trio.testing.wait_all_tasks_blocked()
    worker = workers.lives[-1]
    worker.load()
    await core.wait_worker("ready", "busy")
    return worker


async def asked(worker: ModelWorker) -> str:
    while not worker.requests:
        await trio.sleep(0.01)
    return next(iter(worker.requests))


async def say_all(worker: ModelWorker, reply: Reply) -> None:
    request_id = await asked(worker)
    while request_id in worker.requests:
        worker.say(request_id)
    await finished(reply)


@pytest.mark.parametrize("said", [0, 2], ids=["before a token", "in the answer"])
@pytest.mark.parametrize("tell", WITNESSES)
async def test_a_death_is_a_loss_whoever_tells_it(
    autojump_clock: trio.testing.MockClock, tell: Callable[[ModelWorker, str], None], said: int
) -> None:
    """The answer is whole, one worker more was needed, and a question under way is answered 503."""
    async with modelled() as (core, workers):
        worker = await loaded(core, workers, 1)
        reply = await core.start(QUESTION)
        request_id = await asked(worker)
        for _ in range(said):
            worker.say(request_id)
        faults: list[MuseError] = []

        async def ask() -> None:
            with pytest.raises(MuseError) as caught:
                await core.supervisor.ask(CountTokens(segments=()))
            faults.append(caught.value)

        async with trio.open_nursery() as nursery:
            worker.hung = True  # so that the question stays
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            worker.hung = False
            tell(worker, request_id)
        assert [(fault.status, fault.code) for fault in faults] == [(503, "model_unavailable")]
        await say_all(await loaded(core, workers, 2), reply)
        assert reply.text("answer") == "".join(WORDS)
        assert (await finished(reply)).metrics.resumed == 1
        assert core.board.value.worker.epoch == 2


async def test_an_error_of_a_living_worker_is_an_error(autojump_clock: trio.testing.MockClock) -> None:
    """It answers the ping behind it; the worker stays, and others go on."""
    async with modelled() as (core, workers):
        worker = await loaded(core, workers, 1)
        reply, other = await core.start(QUESTION), await core.start("8 3")
        while len(worker.requests) < 2:
            await trio.sleep(0.01)
        first, second = worker.requests
        worker.say(first)
        del worker.requests[first]
        worker.emit(error(first))
        outcome = await reply.wait_outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.fault.status, outcome.fault.code) == (500, "engine_error")
        while second in worker.requests:
            worker.say(second)
        await finished(other)
        assert core.board.value.worker.epoch == 1


async def test_requests_that_kill_never_take_the_model_from_others(autojump_clock: trio.testing.MockClock) -> None:
    """Ten of them, each of which kills every worker that it gets: each ends with an error of its own, and the next
    one is answered."""
    async with modelled() as (core, workers):
        life = 0
        for number in range(10):
            reply = await core.start(f"{number} 5")
            while reply.outcome is None:
                if len(workers.lives) > life:
                    life = len(workers.lives)
                    await loaded(core, workers, life)
                if workers.lives[-1].requests:
                    workers.lives[-1].die()
                await trio.sleep(0.05)
            assert isinstance(reply.outcome, Failed)
            assert reply.outcome.fault.code in ("worker_lost", "poison_prompt")
        good = await core.start(QUESTION)
        while len(workers.lives) == life:
            await trio.sleep(0.05)
        await say_all(await loaded(core, workers, life + 1), good)
        assert good.text("answer") == "".join(WORDS)


async def test_questions_to_a_busy_worker_are_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """They do not fill the pipe of an engine that reads nothing for minutes: 503, and the worker lives."""
    async with modelled() as (core, workers):
        worker = await loaded(core, workers, 1)
        worker.hung = True
        refused: list[str] = []

        async def ask() -> None:
            try:
                await core.supervisor.ask(SessionCommand(action="show", session_id="s"))
            except Unavailable as fault:
                refused.append(fault.code)

        async with trio.open_nursery() as nursery:
            for _ in range(MAX_QUESTIONS + 5):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert refused == ["model_busy"] * 5
            nursery.cancel_scope.cancel()
        assert core.board.value.worker.epoch == 1
