"""Answers held to a JSON form, and calls that must be made: of the worker, and over HTTP.

What is imported are tests of the llama.cpp engine with its built-in model; here the model is muse-nano, which knows no
JSON but what it was told, so the form is all that holds it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.protocol import Error, Tokens
from muse.worker.json_form import check_answer, grammar_of
from tests.api.test_constrained_answers import (  # noqa: F401 - to be run here
    test_a_cut_json_answer_is_continued,
    test_a_further_turn_reuses_a_json_answer,
    test_a_json_answer_has_its_header,
)
from tests.api.test_openai_client import client, test_an_answer_in_the_form_of_a_schema  # noqa: F401
from tests.api.test_tools import (  # noqa: F401
    test_a_call_can_be_forced_with_any_model,
    test_a_schema_that_cannot_be_followed_is_named,
)
from tests.worker.client import WorkerProcess
from tests.worker.nano import END_OF_TURN, answer_ids, as_ids, prompt_ids, question_ids, turns
from tests.worker.test_draft import test_an_answer_in_json_is_the_same  # noqa: F401
from tests.worker.test_llamacpp import (  # noqa: F401
    FORM,
    test_a_schema_that_cannot_be_followed_is_refused,
    test_an_answer_follows_its_schema,
    test_an_answer_that_breaks_its_schema_is_never_passed_off,
)
from tests.worker.test_muse_nano_pictures import test_an_answer_about_a_picture_can_have_a_form  # noqa: F401

QUESTION = as_ids(prompt_ids(turns("hello")[0]))
LETTERS: dict[str, Any] = {"type": "array", "items": {"enum": ["a", "bc", "<|eot|>"]}, "minItems": 3, "maxItems": 40}


@pytest.fixture(scope="module")
def llama(nano: WorkerProcess) -> WorkerProcess:
    """The worker that tests of the other engine ask for."""
    return nano


def check(schema: dict[str, Any], text: str, *, complete: bool) -> None:
    check_answer(grammar_of(json.dumps(schema)), text.encode(), complete=complete)


def test_it_says_that_it_can(nano: WorkerProcess) -> None:
    """In the ready line."""
    assert nano.ready().supports.grammar


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_a_list_of_words_is_one(nano: WorkerProcess, temperature: float) -> None:
    """Also of words that spell a control token: they are text, and no token of the answer is one."""
    for seed in range(6):
        answer = nano.ask(QUESTION, json_schema=json.dumps(LETTERS), temperature=temperature, seed=seed, limit=500)
        assert answer.done.finish_reason == "stop"
        assert set(json.loads(answer.text)) <= set(LETTERS["items"]["enum"])
        assert not any(event.control for event in answer.tokens)
        assert answer.done.generated_token_ids is not None
        assert max(answer.done.generated_token_ids) < END_OF_TURN


def test_a_text_may_be_demanded_whatever_it_spells(nano: WorkerProcess) -> None:
    """Control tokens by their letters, and runs of any length."""
    for text in ("<|start|>assistant<|message|><|eot|>", "y" * 700, "7" * 700 + " " * 700):
        answer = nano.ask(QUESTION, json_schema=json.dumps({"const": text}), limit=2000)
        assert json.loads(answer.text) == text
        assert answer.done.finish_reason == "stop"


def test_an_answer_is_cut_at_any_token(nano: WorkerProcess) -> None:
    """What there is then is a beginning, the same one each time."""
    whole = nano.ask(QUESTION, json_schema=json.dumps(FORM)).done.generated_token_ids or ()
    for limit in range(len(whole) + 1):
        cut = nano.ask(QUESTION, json_schema=json.dumps(FORM), limit=limit)
        assert cut.done.generated_token_ids == whole[:limit]
        assert cut.done.finish_reason == "length"
        check(FORM, cut.text, complete=False)


def test_a_cancelled_answer_is_a_beginning(nano: WorkerProcess) -> None:
    """However far it came."""
    schema: dict[str, Any] = {"type": "array", "items": {"const": "abc"}, "minItems": 800}
    running = nano.start(QUESTION, json_schema=json.dumps(schema))
    nano.wait(Tokens, running)
    nano.cancel(running)
    answer = nano.finish(running)
    assert answer.done.finish_reason == "cancelled"
    check(schema, answer.text, complete=False)


def test_a_session_goes_on_behind_a_held_answer(nano: WorkerProcess) -> None:
    """It is in the cache like any other; the next answer is a free one."""
    held = nano.ask(QUESTION, session="held", json_schema=json.dumps(FORM), limit=60).done
    ids = (*prompt_ids(turns("hello")[0]), *(held.generated_token_ids or ()), END_OF_TURN)
    free = nano.ask(as_ids(ids, question_ids("sum")), session="held", limit=60).done
    assert free.reused_prompt_tokens >= len(ids) - 2
    cold = nano.ask(as_ids(ids, question_ids("sum")), limit=60).done
    assert free.generated_token_ids == cold.generated_token_ids
    assert nano.ask(QUESTION, limit=60).done.generated_token_ids == answer_ids(turns("hello")[0])


def test_a_refused_form_leaves_the_session_alone(nano: WorkerProcess) -> None:
    """Nothing was evaluated for it."""
    nano.ask(QUESTION, session="kept", limit=60)
    refused = nano.ask(QUESTION, session="kept", json_schema='{"type":"nonsense"}').error
    assert (refused.code, refused.fatal) == ("bad_request", False)
    again = nano.ask(QUESTION, session="kept", limit=60).done
    assert again.reused_prompt_tokens == len(prompt_ids(turns("hello")[0])) - 1


def test_a_form_that_becomes_too_much_is_an_error(nano: WorkerProcess) -> None:
    """Behind the first letter; the worker lives on."""
    answer = nano.ask(QUESTION, json_schema='{"type":"string","pattern":"^(a{1,9999}){900,9999}$"}')
    assert isinstance(answer.end, Error)
    assert (answer.end.code, answer.end.fatal) == ("constrained_dead_end", False)
    assert nano.ask(QUESTION, limit=60).done.generated_token_ids == answer_ids(turns("hello")[0])
