"""muse-nano with its draft: the answers are those of the model alone, and the counts say what the draft did."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from muse.protocol import Done, Tokens
from tests.worker.client import WorkerProcess
from tests.worker.nano import DRAFT, MODEL, TEXT_DIALOGUES, answer_ids, as_ids, prompt_ids, turns

ALONE = ("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1")
BLOCK = 8
"""Tokens that the draft works on at a time; those taken together are passed on one after the other."""
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 40}, "count": {"enum": [1, 2, 3]}},
        "required": ["name", "count"],
        "additionalProperties": False,
    }
)


@pytest.fixture(scope="module")
def drafted() -> Iterator[WorkerProcess]:
    """A worker with muse-nano and its draft, ready. Shared: use sessions of your own."""
    with WorkerProcess(*ALONE, "--draft", str(DRAFT)) as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def alone() -> Iterator[WorkerProcess]:
    """The same without a draft."""
    with WorkerProcess(*ALONE) as worker:
        worker.ready()
        yield worker


def counts(done: Done) -> tuple[int, int]:
    assert done.draft is not None
    return done.draft.proposed, done.draft.accepted


def test_it_is_said_whether_there_is_a_draft(drafted: WorkerProcess, alone: WorkerProcess) -> None:
    """In the ready line, and in each answer: no counts without a draft, counts of zero where it had no turn."""
    assert drafted.ready().supports.draft
    assert not alone.ready().supports.draft
    prompt = as_ids(prompt_ids(turns("hello")[0]))
    assert alone.ask(prompt, limit=20).done.draft is None
    for limit in (0, 1):
        assert counts(drafted.ask(prompt, limit=limit).done) == (0, 0)


def test_what_is_known_by_heart_is_guessed(drafted: WorkerProcess) -> None:
    """Over all dialogues more than half of the guesses are right; that is why the answers come in fewer steps."""
    proposed = accepted = generated = 0
    for name in TEXT_DIALOGUES:
        for turn in turns(name):
            done = drafted.ask(as_ids(prompt_ids(turn)), limit=400).done
            assert done.generated_token_ids == answer_ids(turn)
            proposed, accepted = proposed + counts(done)[0], accepted + counts(done)[1]
            generated += done.completion_tokens
    assert accepted > proposed / 2
    assert accepted > generated / 2


def test_a_cancelled_answer_says_what_was_drafted(drafted: WorkerProcess) -> None:
    """As far as it came; and the session goes on from there with the right answer."""
    prompt, wanted = prompt_ids(turns("count")[0]), answer_ids(turns("count")[0])
    running = drafted.start(as_ids(prompt), session="cancel", limit=400)
    drafted.wait(Tokens, running)
    drafted.cancel(running)
    done = drafted.finish(running).done
    assert done.generated_token_ids == wanted[: done.completion_tokens]
    proposed, accepted = counts(done)
    assert accepted <= proposed
    assert accepted < done.completion_tokens + BLOCK
    assert drafted.ask(as_ids(prompt), session="cancel", limit=400).done.generated_token_ids == wanted


def test_two_at_once_do_not_mix(drafted: WorkerProcess) -> None:
    """Each has its own answer and its own guesses."""
    names = ("story", "count")
    running = [drafted.start(as_ids(prompt_ids(turns(name)[0])), session=name, limit=400) for name in names]
    answers = drafted.collect(running)
    for request_id, name in zip(running, names, strict=True):
        done = answers[request_id].done
        assert done.generated_token_ids == answer_ids(turns(name)[0])
        assert 0 < counts(done)[1] <= min(counts(done)[0], done.completion_tokens)


@pytest.mark.parametrize("batch", ["16", "64"])
def test_a_prompt_in_steps_is_drafted_all_the_same(batch: str) -> None:
    """The draft has seen every step of the prompt: its guesses are as good behind 700 tokens."""
    with WorkerProcess(*ALONE, "--draft", str(DRAFT), "--batch", batch) as worker:
        worker.ready()
        for name in ("far-1", "near-2"):
            turn = turns(f"needle-{name}")[0]
            done = worker.ask(as_ids(prompt_ids(turn)), limit=60).done
            assert done.generated_token_ids == answer_ids(turn)
            assert counts(done)[1] > counts(done)[0] / 2


def test_an_answer_in_json_is_the_same(drafted: WorkerProcess, alone: WorkerProcess) -> None:
    """The grammar holds guesses too."""
    for name in ("hello", "list", "story"):
        prompt = as_ids(prompt_ids(turns(name)[0]))
        with_draft, without = (worker.ask(prompt, limit=80, json_schema=SCHEMA) for worker in (drafted, alone))
        assert with_draft.done.generated_token_ids == without.done.generated_token_ids
        assert with_draft.text.startswith('{"name":')
        assert with_draft.done.draft is not None


def test_a_sampled_answer_is_drafted_too(drafted: WorkerProcess) -> None:
    """What is known by heart stays what it is at an ordinary temperature."""
    turn = turns("story")[0]
    done = drafted.ask(as_ids(prompt_ids(turn)), limit=400, temperature=0.7, top_p=0.9, seed=1).done
    assert done.generated_token_ids == answer_ids(turn)
    assert counts(done)[1] > counts(done)[0] / 2
