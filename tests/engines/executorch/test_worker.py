"""The engine behind the worker protocol: what is so with this engine only, and what it says of wrong requests."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from muse.protocol import Accepted, Close, Error, IdsSegment, ImageSegment, Ping, Reset, Result, Segment, TextSegment
from muse.worker.engines.executorch.cache import WINDOW
from tests.worker.client import WorkerProcess
from tests.worker.nano import END_OF_TURN, MODEL, answer_ids, as_ids, prompt_ids, question_ids, turns
from tests.worker.test_muse_nano import resident

CHUNK = 512
SPARE = 8


def test_ready_says_what_runs(nano: WorkerProcess) -> None:
    """Engine with versions, backend, artifact by its folder, one session, and what it can do."""
    ready = nano.ready()
    assert ready.engine == "executorch"
    assert ready.engine_version.startswith("executorch 1.5.1, torch 2.13.0")
    assert ready.backend == "XNNPACK (CPU)"
    files = [("model", "model.pte"), ("positions", "pos_embed.bin")]
    assert [(file.part, file.name) for file in ready.files] == files[: 2 if ready.supports.image else 1]
    assert ready.model_id == MODEL.stem
    assert (ready.context_length, ready.max_sessions, ready.max_inflight_requests) == (4096, 1, 1)
    assert ready.supports.draft == (b"dflash program" in nano.stderr)
    assert ready.draft_tokens == (3 if ready.supports.draft else None)
    assert ready.supports.image == ready.supports.draft  # so they are made
    assert ready.supports.ids_with_images
    assert END_OF_TURN in ready.eos_ids
    assert len(ready.eos_ids) == 2
    assert (ready.memory_bytes or 0) > 50_000_000


def test_the_draft_is_right_most_of_the_time(nano: WorkerProcess) -> None:
    """More than half of its guesses; a program without one reports none."""
    turn = turns("count")[0]
    draft = nano.ask(as_ids(prompt_ids(turn)), limit=400).done.draft
    if nano.ready().supports.draft:
        assert draft is not None
        assert draft.accepted > draft.proposed / 2
    else:
        assert draft is None


def test_going_back_is_a_rewind_while_nothing_is_lost(nano: WorkerProcess) -> None:
    """Another question in place of the last one: what comes before is not evaluated again."""
    first = turns("hello")[0]
    ids = (*prompt_ids(first), *answer_ids(first), END_OF_TURN)
    for number, name in enumerate(("sum", "joke", "table", "thanks")):
        done = nano.ask(as_ids(ids, question_ids(name)), session="back", limit=60).done
        assert done.generated_token_ids == answer_ids(turns(name)[0])
        if number:
            assert done.session_reset_reason == "rewound"
            assert done.reused_prompt_tokens >= len(ids)


def test_far_back_in_a_full_ring_everything_is_evaluated_again(nano: WorkerProcess) -> None:
    """Past the ring's length its oldest rows are overwritten: a rewind of less than a chunk is kept, a longer one is
    not, and the answers are right either way."""
    first = turns("hello")[0]
    turn_ids = (*question_ids("sum"), *answer_ids(turns("sum")[0]), END_OF_TURN)
    ids = (*prompt_ids(first), *answer_ids(first), END_OF_TURN)
    ids += turn_ids * ((WINDOW + CHUNK - len(ids)) // len(turn_ids) + 1)
    wanted = answer_ids(turns("joke")[0])
    near, far = ids[: -len(turn_ids)], ids[: -len(turn_ids) * (CHUNK // len(turn_ids) + 2)]
    question = question_ids("joke")
    assert nano.ask(as_ids(ids, question), session="far", limit=60).done.generated_token_ids == wanted
    kept = nano.ask(as_ids(near, question), session="far", limit=60).done
    assert kept.generated_token_ids == wanted
    assert kept.reused_prompt_tokens >= len(near)
    lost = nano.ask(as_ids(far, question), session="far", limit=60).done
    assert lost.generated_token_ids == wanted
    assert lost.reused_prompt_tokens == 0
    assert lost.session_reset_reason == "mismatch"


def test_another_session_takes_the_cache(nano: WorkerProcess) -> None:
    """Only one is resident; what both begin with stays, and the first comes back right but cold."""
    hello, joke = prompt_ids(turns("hello")[0]), prompt_ids(turns("joke")[0])
    nano.ask(as_ids(hello), session="one", limit=60)
    assert resident(nano, "one")
    other = nano.ask(as_ids(joke), session="two", limit=60).done
    assert other.session_reset_reason == "new"
    assert 0 < other.reused_prompt_tokens < len(joke)
    assert resident(nano, "one") == ()
    assert nano.ask(as_ids(hello), session="one", limit=60).done.generated_token_ids == answer_ids(turns("hello")[0])


@pytest.mark.parametrize("kind", [Reset, Close])
def test_after_a_reset_nothing_is_used(nano: WorkerProcess, kind: type[Reset | Close]) -> None:
    """Nor by a request without a session."""
    ids = prompt_ids(turns("hello")[0])
    nano.ask(as_ids(ids), session="reset", limit=60)
    nano.send(kind(request_id=f"forget-{kind}", session_id="reset"))
    nano.wait(Result, f"forget-{kind}")
    assert resident(nano, "reset") == ()
    again = nano.ask(as_ids(ids), session="reset", limit=60).done
    assert again.session_reset_reason == "new"
    if kind is Reset:
        assert again.reused_prompt_tokens == 0
    assert nano.ask(as_ids(ids), limit=60).done.reused_prompt_tokens == 0


def test_a_cancel_between_chunks_ends_a_prompt(nano: WorkerProcess) -> None:
    """A prompt of seven chunks: told to end after the first, it evaluates one more at most."""
    ids = prompt_ids(turns("needle-far-1")[0])
    long_ids = (ids * 6)[:3500]
    running = nano.start(as_ids(long_ids), session="stop", limit=60)
    nano.wait(Accepted, running)
    nano.cancel(running)
    answer = nano.finish(running)
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.prefilled_prompt_tokens < len(long_ids)
    assert answer.done.generated_token_ids == ()


def test_a_cancel_in_an_answer_keeps_what_was_said(nano: WorkerProcess) -> None:
    """And the session goes on from there."""
    turn = turns("story")[0]
    running = nano.start(as_ids(prompt_ids(turn)), session="half", limit=400)
    nano.next(lambda event: getattr(event, "request_id", None) == running and hasattr(event, "ids"))
    nano.cancel(running)
    said = nano.finish(running).done.generated_token_ids or ()
    assert said == answer_ids(turn)[: len(said)]
    rest = nano.ask(as_ids(prompt_ids(turn), said), session="half", limit=400).done
    assert (*said, *(rest.generated_token_ids or ())) == answer_ids(turn)
    assert rest.session_reset_reason in ("equal", "exact_prefix")  # its last token may not be evaluated yet
    assert rest.reused_prompt_tokens >= len(prompt_ids(turn)) + len(said) - 1


def test_a_budget_ends_an_answer_exactly(nano: WorkerProcess) -> None:
    """Also in the middle of a block; no tokens at all are possible."""
    turn = turns("count")[0]
    for limit in (0, 1, 2, 3, 5, 7):
        done = nano.ask(as_ids(prompt_ids(turn)), session="budget", limit=limit).done
        assert done.generated_token_ids == answer_ids(turn)[:limit]
        assert done.finish_reason == "length"


def test_a_prompt_that_leaves_no_room_is_refused(nano: WorkerProcess) -> None:
    """With both figures; one token less is taken, and answered by one."""
    ids = (prompt_ids(turns("hello")[0]) * 80)[:4096]
    refused = nano.ask(as_ids(ids), limit=1).error
    assert (refused.code, refused.prompt_tokens, refused.context_length) == ("context_overflow", 4096, 4096)
    assert nano.ask(as_ids(ids[:4095]), limit=8).done.completion_tokens <= 1


def test_a_seed_repeats_an_answer(nano: WorkerProcess) -> None:
    """At a temperature where answers differ."""
    ids = as_ids(prompt_ids(turns("hello")[0]))
    first, second, other = (
        nano.ask(ids, limit=40, temperature=3.0, seed=seed).done.generated_token_ids for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_so_narrow_a_choice_is_greedy(nano: WorkerProcess) -> None:
    """Each field reaches the sampler, whatever the temperature; so does the largest seed."""
    turn = turns("hello")[0]
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        done = nano.ask(as_ids(prompt_ids(turn)), limit=60, temperature=5.0, seed=2**63, **narrow).done
        assert done.generated_token_ids == answer_ids(turn)


@pytest.mark.parametrize(
    ("segments", "code"),
    [
        ((), "bad_request"),
        ((TextSegment(text="", special=False),), "bad_request"),
        ((IdsSegment(ids=(5, 10**6)),), "bad_request"),
        ((IdsSegment(ids=(-1,)),), "bad_request"),
        ((ImageSegment(image="", sha256=""),), "bad_image"),
        ((TextSegment(text="word " * 5000, special=False),), "context_overflow"),
    ],
    ids=["nothing", "empty text", "unknown id", "negative id", "no picture", "too long"],
)
def test_prompts_that_cannot_be_served(nano: WorkerProcess, segments: tuple[Segment, ...], code: str) -> None:
    """An error instead of accepted; the worker goes on, and what was warm stays warm."""
    turn = turns("fruit")[0]
    nano.ask(as_ids(prompt_ids(turn)), session="wrong", limit=60)
    held = resident(nano, "wrong")
    answer = nano.ask(segments, session="wrong", limit=4)
    assert answer.accepted is None
    assert answer.error.code == ("unsupported" if code == "bad_image" and not nano.ready().supports.image else code)
    if code == "context_overflow":
        assert (answer.error.prompt_tokens, answer.error.context_length) == (nano.count(segments), 4096)
    assert resident(nano, "wrong") == held


def test_a_ping_is_answered_while_it_works(nano: WorkerProcess) -> None:
    """Between two calls of the program."""
    running = nano.start(as_ids(prompt_ids(turns("count")[0])), limit=400)
    nano.wait(Accepted, running)
    nano.send(Ping(request_id="ping"))
    nano.wait(Result, "ping")
    assert nano.finish(running).done.finish_reason == "stop"


def test_only_one_request_at_a_time(nano: WorkerProcess) -> None:
    """A second one is refused by name, and the first is none the worse."""
    running = nano.start(as_ids(prompt_ids(turns("count")[0])), limit=400)
    nano.wait(Accepted, running)
    refused = nano.start(as_ids(prompt_ids(turns("hello")[0])), limit=4)
    assert nano.wait(Error, refused).code == "capacity_exhausted"
    assert nano.finish(running).done.finish_reason == "stop"


def test_cancels_that_race_the_end_desynchronise_nothing(nano: WorkerProcess) -> None:
    """At any moment of a short answer; the next request is always the right one's."""
    turn = turns("hello")[0]
    ends: Counter[str] = Counter()
    for number in range(40):
        running = nano.start(as_ids(prompt_ids(turn)), session="race", limit=60)
        time.sleep(number * 0.005)
        nano.cancel(running)
        ends[nano.finish(running).done.finish_reason] += 1
    assert nano.ask(as_ids(prompt_ids(turn)), session="race", limit=60).done.generated_token_ids == answer_ids(turn)
    assert ends["cancelled"]
