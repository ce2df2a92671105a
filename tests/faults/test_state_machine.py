"""Random sequences of requests, cancels, faults, restarts and time, against a simple model (hypothesis).

The actors are the real ones, on a clock that stands still but for the rule `time_passes`; the worker is
model_worker.py. A thread of its own runs them; each rule is one visit there, which ends when every task waits.

The model: every request ends exactly once; its text is a beginning of its own answer, the whole of it when it
ended by itself; what was read never changes; an error is one of those that the faults allow; in the end nothing
runs, waits or lives.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.reply import Failed, Finished, Outcome, Reply
from actors.sessions.messages import CancelTurn
from actors.supervisor.messages import RestartWorker
from muse.errors import MuseError
from muse.protocol import Tokens
from muse.settings import Limits, Settings
from tests.faults.core import FaultCore, running_core
from tests.faults.model_worker import READY, ModelWorker, ModelWorkers, done, words_of
from tests.state_machines import explore

T = TypeVar("T")
QUEUE = 4
GUARD_S = 1e9
EXPECTED_FAULTS = {"worker_lost", "worker_restarted", "poison_prompt", "model_unavailable"}
BAD_LINES = (b"Loading: 42%", b"", b'{"event":"tokens","text":"\xff"}', b'{"event":"done"}', b"[1]", b'{"event":"to')


class Stage:
    """The actors in a thread of their own, and a way to visit them."""

    def __init__(self) -> None:
        self.workers = ModelWorkers()
        self.clock = trio.testing.MockClock()
        self.core: FaultCore
        self._stop = trio.Event()
        self._ready: queue.Queue[trio.lowlevel.TrioToken | None] = queue.Queue()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="stage")
        self._thread.start()
        token = self._ready.get()
        assert token is not None, self._fault
        self._token = token

    def _run(self) -> None:
        try:
            trio.run(self._main, clock=self.clock)
        except BaseException as fault:
            self._fault = fault
        finally:
            self._ready.put(None)

    async def _main(self) -> None:
        limits = Limits(queue=QUEUE)
        where = Settings(engine="scripted", home=Path("/nonexistent"), limits=limits)
        async with running_core(self.workers, where, guard_s=GUARD_S) as self.core:
            self._ready.put(trio.lowlevel.current_trio_token())
            await self._stop.wait()

    def visit(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do something there, and let every task go on until it waits."""

        async def visit() -> T:
            result = await act()
            await self.settle()
            return result

        return trio.from_thread.run(visit, trio_token=self._token)

    async def settle(self) -> None:
        """Wait until every task waits."""
        await trio.testing.wait_all_tasks_blocked()

    def close(self) -> None:
        """Stop the system as it is stopped, and see that nothing of it is left."""
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        # The stop has a grace period for workers that hang; time has to pass for it.
        while self._thread.is_alive():
            try:
                trio.from_thread.run_sync(self.clock.jump, 1.0, trio_token=self._token)
            except trio.RunFinishedError:
                break
            self._thread.join(0.001)
        self._thread.join()
        if self._fault is not None:
            raise self._fault


class Asked:
    """The model's idea of one request."""

    def __init__(self, text: str, reply: Reply, max_tokens: int | None) -> None:
        self.words = words_of(text)
        self.reply = reply
        self.max_tokens = max_tokens
        self.cancelled = False
        self.read = ""
        self.outcome: Outcome | None = None


class Faults(RuleBasedStateMachine):
    """The rules. Numbers drawn choose among what there is, so that every sequence is possible."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.asked: list[Asked] = []
        self._do(lambda: None)  # the first worker is started

    # ------------------------------------------------------------ helpers

    def _do(self, act: Callable[[], Any]) -> None:
        async def visit() -> None:
            act()

        self.stage.visit(visit)

    @property
    def worker(self) -> ModelWorker | None:
        """The living worker."""
        lives = self.stage.workers.lives
        return lives[-1] if lives and not lives[-1].ended else None

    def _request(self, pick: int) -> str | None:
        worker = self.worker
        ids = sorted(worker.requests, key=lambda key: worker.requests[key].number) if worker is not None else []
        return ids[pick % len(ids)] if ids else None

    # ------------------------------------------------------------ rules: clients

    @rule(length=st.integers(1, 6), budget=st.none() | st.integers(1, 6), session=st.sampled_from([None, "a", "b"]))
    def ask(self, length: int, budget: int | None, session: str | None) -> None:
        """A request; refused only when the queue is full."""
        text = f"{len(self.asked) + 1} {length}"
        extra: dict[str, Any] = {"session_id": session} if session else {}
        extra |= {"max_tokens": budget} if budget else {}

        async def visit() -> Reply | MuseError:
            try:
                return await self.stage.core.start(text, **extra)
            except MuseError as fault:
                return fault

        before = self.stage.core.board.value.requests.queued
        reply = self.stage.visit(visit)
        if isinstance(reply, MuseError):
            assert reply.code == "queue_full"
            assert before >= QUEUE
        else:
            self.asked.append(Asked(text, reply, budget))

    @precondition(lambda self: self.asked)
    @rule(pick=st.integers(0, 50))
    def cancel(self, pick: int) -> None:
        """By id, whatever became of it: a finished one is not touched."""
        asked = self.asked[pick % len(self.asked)]
        over = asked.reply.outcome is not None

        async def visit() -> bool:
            return await self.stage.core.sessions.ask(CancelTurn(reply_id=asked.reply.id))

        assert self.stage.visit(visit) == (not over)
        asked.cancelled = asked.cancelled or not over

    @precondition(lambda self: self.asked)
    @rule(pick=st.integers(0, 50))
    def leave(self, pick: int) -> None:
        """The client goes away."""
        asked = self.asked[pick % len(self.asked)]
        asked.cancelled = asked.cancelled or asked.reply.outcome is None
        self._do(asked.reply.abandon)

    # ------------------------------------------------------------ rules: a worker that works

    @rule()
    def load(self) -> None:
        """It gets ready, after the back-off if there is one."""
        for _ in range(10):
            if self.worker is None and self.stage.core.board.value.worker.state != "failed":
                self.time_passes(1)
        if self.worker is not None:
            self._do(self.worker.load)

    @precondition(lambda self: self._request(0) is not None)
    @rule(pick=st.integers(0, 1), steps=st.integers(1, 4))
    def say(self, pick: int, steps: int) -> None:
        """Some tokens of one answer, perhaps to its end."""
        request_id, worker = self._request(pick), self.worker

        def act() -> None:
            for _ in range(steps):
                if request_id in worker.requests:
                    worker.say(request_id)

        self._do(act)

    # ------------------------------------------------------------ rules: a worker that does not

    @precondition(lambda self: self._request(0) is not None)
    @rule(pick=st.integers(0, 1), steps=st.integers(1, 4))
    def die_in_an_answer(self, pick: int, steps: int) -> None:
        """Some tokens, then SIGKILL, and the next one is ready at once."""
        request_id, worker = self._request(pick), self.worker

        def act() -> None:
            for _ in range(steps):
                if request_id in worker.requests:
                    worker.say(request_id)
            worker.die()

        self._do(act)
        if self.worker is not None:
            self._do(self.worker.load)

    @precondition(lambda self: self.worker is not None)
    @rule(kind=st.sampled_from(["die", "ready twice", "hang", "deaf", *BAD_LINES]))
    def hurt(self, kind: str | bytes) -> None:
        """In whatever phase it is: SIGKILL; a line that is none, or a second ready, for which it is killed; it
        says nothing any more; it does not obey cancels."""
        worker = self.worker
        match kind:
            case "die":
                self._do(worker.die)
            case "ready twice":
                self._do(lambda: (worker.emit(READY), worker.emit(READY)))
            case "hang":
                worker.hung = True
            case "deaf":
                worker.deaf = True
            case bytes():
                self._do(lambda: worker.say_line(kind))
        assert worker.ended == (kind not in ("hang", "deaf"))

    @precondition(lambda self: self.worker is not None)
    @rule(pick=st.integers(0, 50), kind=st.sampled_from(["tokens", "done", "unknown-event"]))
    def stray(self, pick: int, kind: str) -> None:
        """Events for requests that are over or never were: nobody gets them, and it lives on."""
        worker = self.worker
        over = [*worker.finished_ids, "nobody"]
        request_id = over[pick % len(over)]

        def act() -> None:
            match kind:
                case "tokens":
                    worker.emit(Tokens(request_id=request_id, ids=(7,), text="stray"))
                case "done":
                    worker.emit(done(request_id, "stop", 3))
                case _:
                    worker.say_line(b'{"event":"weather"}')

        self._do(act)
        assert not worker.ended

    @rule(seconds=st.sampled_from([1, 3, 10, 130]))
    def time_passes(self, seconds: int) -> None:
        """Back-offs end, watchdogs look."""

        async def visit() -> None:
            for _ in range(min(seconds, 14)):
                self.stage.clock.jump(max(1.0, seconds / 14))
                await self.stage.settle()

        self.stage.visit(visit)

    @rule()
    def restart(self) -> None:
        """Somebody asks for another try."""

        async def visit() -> None:
            await self.stage.core.supervisor.ask(RestartWorker())

        self.stage.visit(visit)

    # ------------------------------------------------------------ the model

    @invariant()
    def every_answer_is_its_own(self) -> None:
        """Text only grows, along the request's own answer; an outcome never changes."""
        if not hasattr(self, "stage"):
            return
        assert self.stage.workers.complaints == []
        for asked in self.asked:
            text, outcome = asked.reply.text("answer"), asked.reply.outcome
            assert text.startswith(asked.read)
            asked.read = text
            assert "".join(asked.words[: asked.max_tokens]).startswith(text)
            if asked.outcome is not None:
                assert outcome is asked.outcome
            elif outcome is not None:
                asked.outcome = outcome
                self._check_end(asked, text, outcome)

    def _check_end(self, asked: Asked, text: str, outcome: Outcome) -> None:
        if isinstance(outcome, Failed):
            assert outcome.fault.code in EXPECTED_FAULTS
            return
        match outcome.finish_reason:
            case "stop":
                assert text == "".join(asked.words)
            case "length":
                assert text == "".join(asked.words[: asked.max_tokens])
            case "cancelled":
                assert asked.cancelled

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        try:
            self._bring_to_rest()
        finally:
            self.stage.close()
        assert all(life.ended for life in self.stage.workers.lives)

    def _bring_to_rest(self) -> None:
        """From wherever it is, a worker that works answers everybody, and then everything rests."""
        core = self.stage.core
        for _ in range(400):
            state = core.board.value
            if state.worker.state == "failed":
                self.restart()
            elif (worker := self.worker) is None or worker.hung or worker.deaf:
                if worker is not None:
                    self._do(worker.die)
                self.time_passes(10)
            elif not worker.ready:
                self._do(worker.load)
            elif worker.requests:
                self._do(lambda worker=worker: [worker.say(request_id) for request_id in list(worker.requests)])
            else:
                break
        self.every_answer_is_its_own()
        waiting = [(asked.reply.id, asked.reply.sign) for asked in self.asked if asked.reply.outcome is None]
        assert not waiting, (waiting, core.board.value.worker, core.board.value.requests)
        assert (core.board.value.worker.state, core.board.value.requests.running) == ("ready", 0)
        for asked in self.asked:
            if isinstance(asked.outcome, Finished) and asked.outcome.finish_reason == "cancelled":
                assert asked.cancelled


def test_random_sequences_keep_the_model() -> None:
    """The quick profile: always the same sequences."""
    explore(Faults, 120, 50, again_the_same=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_long_random_sequences_keep_the_model(part: int) -> None:
    """The deep one: others each time, in parts that end before a hang is suspected."""
    explore(Faults, 250, 100, again_the_same=False)
