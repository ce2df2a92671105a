"""Which tokens a JSON form allows, against the form itself read letter by letter."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer

from muse.protocol import Sampling
from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.constraint import JsonConstraint
from muse.worker.engines.executorch.sampling import Sampler
from muse.worker.hf_tokenizer import JsonTokenizer
from muse.worker.json_form import grammar_of
from tests.worker.nano import FOLDER

TOKENIZER: Final = JsonTokenizer(FOLDER / "hf" / "tokenizer.json")
ROW: Final = np.random.default_rng(3).normal(0, 3, TOKENIZER.size).astype(np.float32)
ANSWERS: Final[dict[str, dict[str, Any]]] = {
    '{"to":"<|eot|>","n":[1,-2.5e7,true]}': {"type": "object"},
    '"é \\u000b \\n 🎉"': {"type": "string"},
    "12": {"type": "integer"},
    '"<|start|>a<|eot|>"': {"const": "<|start|>a<|eot|>"},
    '{"animal":"fox","legs":4}': {
        "type": "object",
        "properties": {"animal": {"enum": ["fox", "fish"]}, "legs": {"type": "integer"}},
        "required": ["animal", "legs"],
        "additionalProperties": False,
    },
}


def constraint_of(schema: dict[str, Any]) -> JsonConstraint:
    return JsonConstraint(TOKENIZER.for_grammars, json.dumps(schema))


def allowed_by(constraint: JsonConstraint) -> set[int]:
    """The tokens that may come next, whose logits must be as they were."""
    left, ids = constraint.narrow(ROW)
    places = np.flatnonzero(left > -np.inf)
    tokens = places if ids is None else ids
    assert np.array_equal(left[places], ROW[tokens])
    return set(map(int, tokens))


@pytest.mark.parametrize("answer", ANSWERS)
def test_exactly_the_tokens_that_go_on_are_allowed(answer: str) -> None:
    """At each place of an answer. Control tokens never, however they are spelled; those that end an answer, all of
    them, where it is complete."""
    constraint = constraint_of(ANSWERS[answer])
    letters = LLMatcher(LLTokenizer("byte"), grammar_of(json.dumps(ANSWERS[answer])), log_level=0)
    # One byte is in no text, and its token spells nothing.
    spelled = {token: list(TOKENIZER.decode([token])) for token in range(TOKENIZER.size)}
    len_of = {token: len(text) for token, text in spelled.items()}.__getitem__
    words = [token for token, text in spelled.items() if text and token not in TOKENIZER.control]
    rest = list(answer.encode())
    while True:
        allowed = allowed_by(constraint)
        wanted = {word for word in words if letters.validate_tokens(spelled[word]) == len(spelled[word])}
        wanted |= TOKENIZER.end_ids if letters.is_accepting() else set()
        assert allowed == wanted
        if not rest:
            break
        token = max((word for word in allowed if rest[: len(spelled[word])] == spelled[word]), key=len_of)
        constraint.take(token)
        assert letters.consume_tokens(spelled[token])
        del rest[: len(spelled[token])]
    constraint.check(answer.encode(), complete=True)


def test_few_and_many_tokens_are_told_apart() -> None:
    """Few are looked at alone, many within the row."""
    constraint = constraint_of({"type": "string"})
    left, ids = constraint.narrow(ROW)
    assert ids is not None
    assert left.size == ids.size < TOKENIZER.size / 8
    (quote,) = TOKENIZER.encode('"', special=False)
    constraint.take(quote)
    left, ids = constraint.narrow(ROW)
    assert ids is None
    assert left.size == TOKENIZER.size
    assert np.count_nonzero(left > -np.inf) > TOKENIZER.size / 8


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_that_only_the_program_has_never_come(temperature: float) -> None:
    """However likely they are, and also where a draft names one."""
    row = np.concatenate([ROW, np.full(88, 100.0, np.float32)])
    sampler = Sampler(Sampling(temperature=temperature, seed=1), constraint_of({"type": "string", "maxLength": 40}))
    said: list[int] = []
    while not TOKENIZER.end_ids & set(said):
        said.append(sampler.accept(row, 550) if len(said) % 2 else sampler.choose(row))
    assert max(said) < TOKENIZER.size
    assert isinstance(json.loads(TOKENIZER.decode(said[:-1])), str)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 3.0])
def test_numbers_of_no_sense_still_make_an_answer(temperature: float) -> None:
    """Whatever is drafted: the answer has the form, and ends."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 12}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    random = np.random.default_rng(7)
    for seed in range(5):
        sampler = Sampler(Sampling(temperature=temperature, top_k=40, seed=seed), constraint_of(schema))
        said: list[int] = []
        while not TOKENIZER.end_ids & set(said):
            row = random.normal(0, 3, TOKENIZER.size).astype(np.float32)
            drafted = int(random.integers(TOKENIZER.size))
            said.append(sampler.accept(row, drafted) if len(said) % 3 else sampler.choose(row))
        assert set(json.loads(TOKENIZER.decode(said[:-1]))) == {"a", "b"}


def test_a_schema_that_cannot_be_followed_is_refused() -> None:
    """Before anything is evaluated."""
    with pytest.raises(EngineFault, match="nonsense") as caught:
        constraint_of({"type": "nonsense"})
    assert caught.value.code == "bad_request"


def test_a_form_that_becomes_too_much_ends_the_answer() -> None:
    """By an error, and not by an answer of any form."""
    constraint = constraint_of({"type": "string", "pattern": "^(a{1,9999}){900,9999}$"})
    (quote,) = TOKENIZER.encode('"', special=False)
    assert allowed_by(constraint) == {quote}
    constraint.take(quote)
    (letter,) = TOKENIZER.encode("a", special=False)

    def write_on() -> None:
        for _ in range(900):
            constraint.narrow(ROW)
            constraint.take(letter)

    with pytest.raises(EngineFault, match="cannot go on") as caught:
        write_on()
    assert caught.value.code == "constrained_dead_end"
    with pytest.raises(EngineFault, match="cannot go on"):
        constraint.narrow(ROW)
