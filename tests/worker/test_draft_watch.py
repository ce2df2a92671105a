"""DraftWatch without an engine: which answers are timed against a step without drafting."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from muse.protocol import Done, FinishReason, Generate, Sampling
from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.draft_trial import Loss
from muse.worker.engines.llamacpp.draft_watch import THREAD, DraftWatch
from tests.worker.client import HANG_S

TOKENS = 200


def request(*, json_schema: str | None = None) -> Generate:
    return Generate(
        request_id="r",
        session_id=None,
        prompt_segments=(),
        max_new_tokens=None,
        sampling=Sampling(),
        json_schema=json_schema,
    )


def answer(*, ms_per_token: float = 20.0, tokens: int = TOKENS, reason: FinishReason = "stop") -> Done:
    return Done(
        request_id="r",
        finish_reason=reason,
        prompt_tokens=1,
        completion_tokens=tokens,
        reused_prompt_tokens=0,
        prefilled_prompt_tokens=1,
        session_reset_reason="new",
        prefill_ms=1.0,
        prefill_tokens_per_second=1.0,
        decode_ms=ms_per_token * (tokens - (reason != "stop")),
        decode_tokens_per_second=1.0,
        total_ms=1.0,
        generated_token_ids=None,
    )


class Watched:
    """A watch whose steps take 10 ms by their own account. steps, losses: what it did, to be waited for."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.steps: queue.Queue[Generate] = queue.Queue()
        self.losses: queue.Queue[Loss] = queue.Queue()
        self.fault: EngineFault | None = None
        self._during = during
        self.watch = DraftWatch(self._step, self.losses.put)

    def _step(self, asked: Generate) -> float:
        self._during()
        self.steps.put(asked)
        if self.fault:
            raise self.fault
        return 10.0

    def answers(self, *dones: Done) -> None:
        """Requests one after the other, each over with its step and its judgement before the next begins."""
        for done in dones:
            assert self.watch.follow(request(), lambda done=done: done) is done
            for thread in threading.enumerate():
                if thread.name == THREAD:
                    thread.join(HANG_S)


def test_a_loss_is_told_once() -> None:
    """After the fourth answer; what follows is not timed any more."""
    watched = Watched()
    watched.answers(*[answer()] * 4)
    assert watched.losses.get_nowait() == Loss(with_draft=50.0, without=100.0, answers=4, tokens=800)
    watched.answers(*[answer()] * 3)
    assert watched.steps.qsize() == 4
    assert watched.losses.empty()


@pytest.mark.parametrize(
    ("schema", "done"),
    [
        (None, answer(reason="cancelled")),
        (None, answer(tokens=10)),
        ("{}", answer()),
    ],
    ids=["cancelled", "short", "with a grammar"],
)
def test_what_is_no_measure_is_not_timed(schema: str | None, done: Done) -> None:
    """The next proper answer is the first whose step is run."""
    watched = Watched()
    for _ in range(5):
        watched.watch.follow(request(json_schema=schema), lambda: done)
    last = request()
    watched.watch.follow(last, answer)
    assert watched.steps.get(timeout=HANG_S) is last
    assert watched.steps.empty()


def test_answers_that_shared_the_engine_are_not_timed() -> None:
    """Two at once are slower than one, with a draft or without."""
    watched = Watched()

    def beside_another() -> Done:
        watched.watch.follow(request(), answer)
        return answer()

    for _ in range(5):
        watched.watch.follow(request(), beside_another)
    last = request()
    watched.watch.follow(last, answer)
    assert watched.steps.get(timeout=HANG_S) is last
    assert watched.steps.empty()


def test_a_step_beside_a_request_does_not_count() -> None:
    """A request came while it ran: of eight answers with such steps nothing is concluded, of four others it is."""
    disturb = True

    def during() -> None:
        if disturb:
            watched.watch.follow(request(), lambda: answer(tokens=1))

    watched = Watched(during)
    watched.answers(*[answer()] * 8)
    disturb = False
    watched.answers(*[answer()] * 3)
    assert watched.losses.empty()
    watched.answers(answer())
    assert watched.losses.get_nowait().answers == 4


def test_an_engine_that_fails_is_not_the_drafts_fault() -> None:
    """The step's fault goes nowhere: whoever asks for an answer hears of it."""
    watched = Watched()
    watched.fault = EngineFault("engine_error", "gone", fatal=True)
    watched.answers(*[answer()] * 5)
    watched.fault = None
    watched.answers(*[answer()] * 4)
    assert watched.losses.get_nowait().answers == 4
