"""The llama.cpp engine: what of a session is warm, what a reset, a cancel or a lost memory leave, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from muse.protocol import (
    Accepted,
    Close,
    IdsSegment,
    Ping,
    Progress,
    Reset,
    Result,
    Tokens,
)
from muse.worker.engines.llamacpp.client import Client
from tests.worker.client import WorkerProcess, chat
from tests.worker.llama import LONG_TEXT

pytestmark = [pytest.mark.model, pytest.mark.thorough]


def test_a_session_is_warm_and_a_scratch_request_cold(llama: WorkerProcess) -> None:
    """The second turn evaluates only what is new; the same prompt without a session evaluates everything."""
    first = llama.ask(chat(LONG_TEXT[:900]), session="warm", limit=8).done
    second_prompt = (*chat(LONG_TEXT[:900]), IdsSegment(ids=first.generated_token_ids or ()), *chat("And?"))
    second = llama.ask(second_prompt, session="warm", limit=4)
    scratch = llama.ask(second_prompt, limit=4).done
    assert second.accepted
    assert second.accepted.session_reset_reason == "exact_prefix"
    assert second.accepted.reused_prompt_tokens >= first.prompt_tokens + first.completion_tokens - 1
    assert second.done.prefilled_prompt_tokens == second.done.prompt_tokens - second.done.reused_prompt_tokens
    assert (scratch.reused_prompt_tokens, scratch.session_reset_reason) == (0, "new")


def test_an_edit_keeps_the_common_beginning(llama: WorkerProcess) -> None:
    """A changed last message costs only itself."""
    llama.ask(chat(LONG_TEXT[:900] + "one"), session="edit", limit=4)
    edited = llama.ask(chat(LONG_TEXT[:900] + "two"), session="edit", limit=4).done
    assert edited.session_reset_reason == "rewound"
    assert edited.reused_prompt_tokens > 100


def test_reset_makes_the_next_request_cold(llama: WorkerProcess) -> None:
    """Nothing of the session is used again, once."""
    llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4)
    llama.send(Reset(request_id="reset", session_id="forget"))
    llama.wait(Result, "reset")
    fresh = llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4).done
    again = llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4).done
    assert (fresh.reused_prompt_tokens, fresh.session_reset_reason) == (0, "new")
    assert again.reused_prompt_tokens > 0
    llama.send(Close(request_id="close", session_id="forget"))
    llama.wait(Result, "close")


def cancelled_before_accepted(worker: WorkerProcess, session: str) -> None:
    """A request that ends before the engine looks at it, because that is busy with the step of another one."""
    for _ in range(20):
        other = worker.start(chat("Something else. " + LONG_TEXT[:1500]), session="other", limit=1)
        worker.wait(Accepted, other)
        running = worker.start(chat(LONG_TEXT[:900]), session=session, limit=4)
        worker.cancel(running)
        early = worker.finish(running).accepted is None
        worker.cancel(other)
        worker.finish(other)
        if early:
            return
    raise AssertionError("every cancel came too late")


def test_a_reset_outlives_a_request_that_never_began(llama: WorkerProcess) -> None:
    """What was to be forgotten is not used by the request after that one either."""
    llama.ask(chat(LONG_TEXT[:900]), session="early", limit=4)
    llama.send(Reset(request_id="early", session_id="early"))
    llama.wait(Result, "early")
    cancelled_before_accepted(llama, "early")
    fresh = llama.ask(chat(LONG_TEXT[:900]), session="early", limit=4).done
    assert (fresh.reused_prompt_tokens, fresh.session_reset_reason) == (0, "new")


def test_a_request_that_never_began_leaves_its_session_warm(llama: WorkerProcess) -> None:
    """All of the prompt is still there, more than a step of it."""
    llama.ask(chat(LONG_TEXT[:900]), session="kept", limit=4)
    cancelled_before_accepted(llama, "kept")
    again = llama.ask(chat(LONG_TEXT[:900]), session="kept", limit=4).done
    assert again.session_reset_reason == "equal"
    assert again.prefilled_prompt_tokens <= 1


def test_a_long_prompt_goes_in_step_by_step(llama: WorkerProcess) -> None:
    """Two at a time: each token is evaluated once, in rising steps."""
    running = [llama.start(chat(f"{n}. " + LONG_TEXT[:2000]), limit=6) for n in range(2)]
    for answer in llama.collect(running).values():
        steps = [event.processed for event in answer.progress]
        assert steps == sorted(set(steps))
        assert len(steps) > 1
        assert steps[-1] == answer.done.prompt_tokens == answer.done.prefilled_prompt_tokens
        assert {event.total for event in answer.progress} == {answer.done.prompt_tokens}


def test_a_session_whose_memory_was_lost_is_read_again(builtin_model: Path) -> None:
    """Without a cache for displaced sessions: what was believed resident is not, and the answer says so."""
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--slots", "1", "--cache-mib", "0"]
    with WorkerProcess(*arguments, "--batch", "64", "--context", "2048") as worker:
        worker.ready()
        question = (*chat(LONG_TEXT[:1500]), *chat("Is the fox quick?"))
        first = worker.ask(question, session="lost", limit=8).done
        worker.ask(chat("And now to something else."), session="other", limit=4)
        known = IdsSegment(ids=first.generated_token_ids or ())
        follow_up = (*question, known, *chat("Why? " + LONG_TEXT[:300]))
        again = worker.ask(follow_up, session="lost", limit=8)
        cold = worker.ask(follow_up, limit=8)
    assert again.done.reused_prompt_tokens < 10
    assert again.done.session_reset_reason == "rewound"
    assert again.done.prefilled_prompt_tokens == again.done.prompt_tokens - again.done.reused_prompt_tokens
    assert [event.processed for event in again.progress] == sorted({event.processed for event in again.progress})
    assert cold.done.prompt_tokens == again.done.prompt_tokens


def test_a_displaced_session_is_warm_again(llama: WorkerProcess) -> None:
    """Two others take both slots; the first comes back from the prompt cache in RAM."""
    sessions = [f"crowd{n}" for n in range(3)]
    for session in sessions:
        llama.ask(chat(f"{session} " + LONG_TEXT[:600]), session=session, limit=4)
    back = llama.ask(chat("crowd0 " + LONG_TEXT[:600]), session="crowd0", limit=4).done
    assert back.reused_prompt_tokens > 100


def test_cancel_in_decode(llama: WorkerProcess, inner: Client) -> None:
    """done comes with what was generated, the engine is idle by then, and the session stays warm."""
    running = llama.start(chat("Write a very long story."), session="cut", limit=1000)
    llama.wait(Tokens, running)
    llama.cancel(running)
    answer = llama.finish(running)
    assert not any(slot["is_processing"] for slot in inner.call("GET", "/slots"))
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.generated_token_ids
    assert answer.done.completion_tokens == len(answer.done.generated_token_ids) < 1000
    resumed = (*chat("Write a very long story."), IdsSegment(ids=answer.done.generated_token_ids))
    assert llama.ask(resumed, session="cut", limit=4).done.session_reset_reason == "equal"


def test_cancel_in_prefill(llama: WorkerProcess, inner: Client) -> None:
    """The rest of the prompt is not evaluated, no token comes, the next request is served."""
    running = llama.start(chat(LONG_TEXT), session="cutp", limit=10)
    llama.wait(Progress, running)
    llama.cancel(running)
    answer = llama.finish(running)
    assert not any(slot["is_processing"] for slot in inner.call("GET", "/slots"))
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.completion_tokens == 0
    assert 0 < answer.done.prefilled_prompt_tokens < answer.done.prompt_tokens
    assert llama.ask(chat(LONG_TEXT[:600]), session="cutp", limit=2).done.reused_prompt_tokens > 0


def test_cancel_that_comes_first(llama: WorkerProcess) -> None:
    """A cancel right behind its request, and one behind its end: exactly one done each."""
    for limit in (1, 200):
        running = llama.start(chat("Hello"), limit=limit)
        llama.cancel(running)
        llama.cancel(running)
        assert llama.finish(running).end is not None
    llama.send(Ping(request_id="sync"))
    llama.wait(Result, "sync")
