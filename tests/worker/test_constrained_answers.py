"""Constrained answers of the llama.cpp engine that begin behind a prefix, as after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from muse.protocol import Segment, TextSegment, Tokens
from muse.worker.json_form import check_answer, grammar_of
from tests.worker.client import WorkerProcess
from tests.worker.nano import (
    DRAFT,
    END_OF_TURN,
    MMPROJ,
    MODEL,
    as_ids,
    prompt_ids,
    question_ids,
    question_segments,
    turns,
)

QUESTION: Final = prompt_ids(turns("hello")[0])
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "animal": {"enum": ["fox", "dög"]},
        "text": {"type": "string", "maxLength": 40},
        "legs": {"type": "integer", "minimum": 0, "maximum": 1000},
    },
    "required": ["animal", "text", "legs"],
    "additionalProperties": False,
}
FORM: Final = json.dumps(SCHEMA)


@pytest.fixture(scope="module", params=["plain", "draft"])
def nano(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    """A worker with muse-nano, ready; one has a draft, and sees."""
    more = ["--draft", str(DRAFT), "--mmproj", str(MMPROJ)] if request.param == "draft" else []
    with WorkerProcess("--engine", "llamacpp", "--model", str(MODEL), "--context", "2048", *more) as worker:
        worker.ready()
        yield worker


def behind(prefix: str, *prompt: Segment) -> tuple[Segment, ...]:
    """A prompt that ends in the beginning of an answer."""
    return (*(prompt or as_ids(QUESTION)), TextSegment(text=prefix, special=False))


def check(text: str, schema: dict[str, Any] = SCHEMA, *, complete: bool = True) -> None:
    check_answer(grammar_of(json.dumps(schema)), text.encode(), complete=complete)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_goes_on_behind_any_prefix(nano: WorkerProcess, temperature: float) -> None:
    """Every place of an answer: what comes makes it whole, with all its ids."""
    whole = '{"animal":"dög","text":"é <|eot|> 🦩","legs":12}'
    for place in range(1, len(whole) + 1, 3):
        prefix = whole[:place]
        answer = nano.ask(
            behind(prefix), json_schema=FORM, constrained_prefix=prefix, temperature=temperature, seed=place, limit=200
        )
        check(prefix + answer.text)
        assert answer.done.finish_reason == "stop"
        assert answer.done.generated_token_ids == tuple(i for event in answer.tokens for i in event.ids or ())
        assert not any(event.control for event in answer.tokens)


def test_a_long_run_in_the_prefix_is_no_matter(nano: WorkerProcess) -> None:
    """It is read by its bytes."""
    prefix = '{"t":"' + "y" * 600
    schema = {"type": "object", "properties": {"t": {"type": "string", "maxLength": 650}}, "required": ["t"]}
    schema |= {"additionalProperties": False}
    answer = nano.ask(behind(prefix), json_schema=json.dumps(schema), constrained_prefix=prefix, limit=200)
    check(prefix + answer.text, schema)


def test_it_is_cut_at_its_budget(nano: WorkerProcess) -> None:
    """Each budget gives so many tokens of the same answer."""
    prefix = '{"animal":"'
    whole = nano.ask(behind(prefix), json_schema=FORM, constrained_prefix=prefix, limit=200).done
    assert whole.generated_token_ids is not None
    for limit in range(6):
        cut = nano.ask(behind(prefix), json_schema=FORM, constrained_prefix=prefix, limit=limit)
        assert (cut.done.completion_tokens, cut.done.finish_reason) == (limit, "length")
        check(prefix + cut.text, complete=False)


def test_a_cancel_is_obeyed(nano: WorkerProcess) -> None:
    """In the middle; the next answer is right."""
    schema: dict[str, Any] = {"type": "array", "items": {"enum": ["abc", "xyz"]}, "minItems": 900}
    prefix = '["abc",'
    running = nano.start(behind(prefix), json_schema=json.dumps(schema), constrained_prefix=prefix)
    nano.wait(Tokens, running)
    nano.cancel(running)
    answer = nano.finish(running)
    assert answer.done.finish_reason == "cancelled"
    check(prefix + answer.text, schema, complete=False)
    done = nano.ask(as_ids(QUESTION), limit=60).done
    assert done.generated_token_ids == tuple(turns("hello")[0]["answer"]["ids"])


def test_a_session_knows_what_the_slot_holds(nano: WorkerProcess) -> None:
    """The next turn reads what is new, though what left no choice was never evaluated; its answer is that of a cold
    run."""
    first = nano.ask(as_ids(QUESTION), session="rest", json_schema=FORM, limit=4)
    ids = first.done.generated_token_ids or ()
    rest = nano.ask(
        as_ids(QUESTION, ids), session="rest", json_schema=FORM, constrained_prefix=first.text, limit=200
    ).done
    known = (*QUESTION, *ids, *(rest.generated_token_ids or ()))
    after = as_ids(known, (END_OF_TURN,), question_ids("sum"))
    warm = nano.ask(after, session="rest", limit=60).done
    assert warm.session_reset_reason == "exact_prefix"
    assert warm.reused_prompt_tokens >= len(known) - 4
    assert warm.generated_token_ids == nano.ask(after, limit=60).done.generated_token_ids


def test_an_answer_goes_on_where_the_engine_would_leave_it(nano: WorkerProcess) -> None:
    """The engine's library is an older version, which here takes names that the schema forbids. Its choice is drawn
    again among what may come; before, such an answer was a dead end."""
    opened = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "patternProperties": {"": True}}
    closed = {"type": "object", "properties": {"a": {"type": "string"}, "bird": {"enum": [1, 2]}}}
    schema = {"allOf": [part | {"additionalProperties": False} for part in (opened, closed)], "required": ["a"]}
    for seed in range(10):
        answer = nano.ask(as_ids(QUESTION), json_schema=json.dumps(schema), temperature=1.5, seed=seed, limit=200)
        check(answer.text, schema)
        assert answer.done.finish_reason == "stop"
        assert answer.done.generated_token_ids == tuple(i for event in answer.tokens for i in event.ids or ())


def test_a_prefix_that_is_none_is_refused(nano: WorkerProcess) -> None:
    """Nothing is generated for it."""
    refused = nano.ask(behind("Hello"), json_schema=FORM, constrained_prefix="Hello", limit=20)
    assert (refused.error.code, refused.accepted, refused.error.fatal) == ("bad_request", None, False)


@pytest.mark.parametrize("nano", ["draft"], indirect=True)
def test_it_goes_on_behind_a_picture(nano: WorkerProcess) -> None:
    """The engine takes the prompt as text then, and cannot begin inside a character; these signs have no tokens of
    their own."""
    schema: dict[str, Any] = {"type": "array", "items": {"enum": ["é", "ö", "🦩", "🦊", "中"]}, "minItems": 6}
    schema |= {"maxItems": 8}
    prefix = '["é",'
    for seed in range(4):
        answer = nano.ask(
            behind(prefix, *question_segments("image-red")),
            json_schema=json.dumps(schema),
            constrained_prefix=prefix,
            temperature=1.0,
            seed=seed,
            limit=200,
        )
        check(prefix + answer.text, schema)
        assert answer.done.finish_reason == "stop"
