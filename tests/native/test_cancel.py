"""A cancel in every phase and at every level: the answer ends at once, the next one is right, the program stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from muse.protocol import Accepted, Close, Done, Error, IdsSegment, Result, Show, Tokens
from muse.worker.engines.native.exchange import CANCEL_GRACE_S
from tests.native.doubles import LEVELS
from tests.native.test_engine import TAIL, asking, small
from tests.worker.client import WorkerProcess, children_of, wait_for, worker_pid

pytestmark = pytest.mark.thorough

Start = Callable[..., WorkerProcess]
LONG = asking("a long story")
SAID = " to=user<|message|>"


def program_of(worker: WorkerProcess) -> int:
    """The double's process."""
    return children_of(worker_pid(worker.process.pid))[0]


@pytest.mark.parametrize("level", LEVELS)
def test_a_cancel_in_decode(start_native: Start, level: str) -> None:
    """Unpatched the program goes on by itself, and the next answer waits for that, two seconds here."""
    worker = start_native(level=level, token_ms=2)
    limit = 1000 if level == "unpatched" else 10_000
    running = worker.start(LONG, session="s", limit=limit)
    worker.wait(Tokens, running)
    worker.cancel(running)
    cancelled = worker.finish(running)
    done = cancelled.done
    assert done.finish_reason == "cancelled"
    assert 0 < done.completion_tokens < limit
    known = tuple(token for event in cancelled.tokens for token in event.ids or ())
    assert done.generated_token_ids == (known if level == "cancel_op" else None)
    after = worker.ask(asking("next"), session="s")
    assert after.text == SAID + "next"
    assert after.done.session_reset_reason == ("dirty" if level == "control_pipe" else "mismatch")


@pytest.mark.parametrize("level", LEVELS)
def test_a_cancel_in_prefill(start_native: Start, level: str) -> None:
    """Our patch ends between two parts of the prompt; where that cannot be, the answer ends all the same."""
    worker = start_native(level=level, chunk=3, chunk_ms=20)
    running = worker.start(asking("words " * 50), session="s", limit=5)
    worker.wait(Accepted, running)
    worker.cancel(running)
    cancelled = worker.finish(running)
    assert (cancelled.done.finish_reason, cancelled.text) == ("cancelled", "")
    after = worker.ask(asking("next"), session="s")
    assert after.text == SAID + "next"
    # "new": the cancel came before the request was written.
    expected = "mismatch" if level == "unpatched" else "dirty"
    assert after.done.session_reset_reason in (expected, "new")


def test_our_patch_keeps_the_session_warm(start_native: Start) -> None:
    """What was generated until the cancel is resident, and known: the next prompt goes on behind it."""
    worker = start_native(level="cancel_op", token_ms=2)
    running = worker.start(LONG, session="s")
    worker.wait(Tokens, running)
    worker.cancel(running)
    worker.finish(running)
    resident = small(worker, Show, "s").resident_ids
    assert resident
    done = worker.ask((IdsSegment(ids=resident), TAIL), session="s").done
    assert (done.session_reset_reason, done.reused_prompt_tokens) == ("exact_prefix", len(resident))


@pytest.mark.parametrize("level", LEVELS)
def test_a_cancel_while_another_one_waits(start_native: Start, level: str) -> None:
    """For the rest of what cannot be stopped: the one that waits has its own cancel, and needs nobody for it."""
    worker = start_native(level=level, token_ms=2)
    first = worker.start(LONG, limit=100)
    worker.wait(Tokens, first)
    worker.cancel(first)
    worker.wait(Done, first)
    second = worker.start(asking("second"))
    worker.cancel(second)
    assert worker.finish(second).done.finish_reason in ("cancelled", "stop")
    assert worker.ask(asking("third")).text == SAID + "third"


@pytest.mark.parametrize("level", ["cancel_op", "control_pipe", "unpatched"])
def test_what_does_not_end_has_the_worker_replaced(start_native: Start, level: str) -> None:
    """Deaf, or not to be told: no longer than a load would take; then the worker leaves, its program too."""
    worker = start_native(level=level, deaf=True, token_ms=20)
    running = worker.start(LONG)
    worker.wait(Tokens, running)
    program = program_of(worker)
    worker.cancel(running)
    assert worker.finish(running).done.finish_reason == "cancelled"
    error = worker.wait(Error)
    assert (error.request_id, error.code, error.fatal) == (None, "cancel_overdue", False)
    assert worker.wait_exit() == 4
    wait_for(lambda: program not in children_of(1))


def test_a_stale_cancel_that_is_answered_reaches_nobody(start_native: Start) -> None:
    """A patch that does not swallow a late cancel writes an error line: the fence takes it, whenever it comes."""
    worker = start_native(level="cancel_op", answers_stale_cancel=True)
    late = 0
    for number in range(200):
        running = worker.start(asking(f"n{number}"))
        worker.cancel(running)
        answer = worker.finish(running)
        late += answer.done.finish_reason == "stop"
        assert (SAID + f"n{number}").startswith(answer.text)
        assert worker.ask(asking("q")).text == SAID + "q"
    assert late < 200


@pytest.mark.parametrize("stray", ['{"token": "x"}', '{"error": "e"}', '{"done": true}', "garbage", ""])
def test_a_line_that_nobody_asked_for_ends_the_engine(start_native: Start, stray: str) -> None:
    """Whose the next line is, nobody could tell: no answer is given from then on."""
    worker = start_native(stray=stray or "[]")
    assert worker.ask(asking("a")).text == SAID + "a"
    running = worker.start(asking("b"))
    error = worker.wait(Error)
    assert error.fatal
    assert "broke its protocol" in error.message
    assert worker.wait_exit() == 4
    assert not any(isinstance(event, Tokens) and event.request_id == running for event in worker.events)


@pytest.mark.parametrize("whom", ["program", "worker"])
def test_a_death_is_told_and_leaves_nobody(start_native: Start, whom: str) -> None:
    """The worker ends as its program ended."""
    worker = start_native(dies_at=5 if whom == "program" else None, token_ms=2)
    running = worker.start(LONG)
    worker.wait(Tokens, running)
    if whom == "worker":
        os.kill(worker_pid(worker.process.pid), signal.SIGKILL)
        assert worker.wait_exit() == -signal.SIGKILL
        return
    error = worker.wait(Error)
    assert (error.fatal, error.code) == (True, "engine_error")
    assert "died by SIGSEGV" in error.message
    assert worker.wait_exit() == -signal.SIGSEGV


def test_the_end_of_input_ends_all(start_native: Start) -> None:
    """Also while it generates."""
    worker = start_native(token_ms=2)
    worker.wait(Tokens, worker.start(LONG))
    worker.end_of_input()
    assert worker.wait_exit() == 0


def test_a_close_does_not_wait_for_another_answer(start_native: Start) -> None:
    """It is done in the program when that is free, and at once for everybody else."""
    worker = start_native("--max_sessions=3", token_ms=2)
    worker.ask(asking("x"), session="old")
    running = worker.start(LONG, session="s", limit=100)
    worker.wait(Tokens, running)
    assert isinstance(small(worker, Close, "old"), Result)
    assert worker.finish(running).done.finish_reason == "length"
    assert worker.ask(asking("y"), session="old").done.session_reset_reason == "new"


def test_the_grace_is_shorter_than_the_watchdogs() -> None:
    """Else whoever watches would kill what is only being waited for."""
    from actors.supervisor.watchdog import HangLimits

    assert HangLimits().cancel_s - 0.25 > CANCEL_GRACE_S
