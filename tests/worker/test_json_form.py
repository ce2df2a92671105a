"""Schemas as grammars, for every engine that holds answers to them, and the last look at an answer."""

from __future__ import annotations

import json

import pytest

from muse.worker.engines.base import EngineFault
from muse.worker.json_form import check_answer, grammar_of


def test_an_answer_is_read_along_its_schema() -> None:
    """Letter by letter: a cut one must be a beginning, also inside a character, a whole one complete; its values count
    too."""
    grammar = grammar_of('{"type":"object","properties":{"t":{"const":"<|é|>"}},"required":["t"]}')
    whole = '{"t":"<|é|>"}'.encode()
    check_answer(grammar, whole, complete=True)
    for length in range(len(whole)):
        check_answer(grammar, whole[:length], complete=False)
        with pytest.raises(EngineFault, match="schema"):
            check_answer(grammar, whole[:length], complete=True)
    for answer in (b'{"t":"x"}', b"The past", whole + b"}", b"\xff"):
        for complete in (True, False):
            with pytest.raises(EngineFault, match="schema") as caught:
                check_answer(grammar, answer, complete=complete)
            assert (caught.value.code, caught.value.fatal) == ("engine_error", False)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "nonsense"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"type": "string", "pattern": "(((("}, "regex"),
        ({"type": "object", "properties": {"x": False}, "required": ["x"]}, "Unsatisfiable"),
        ({"$ref": "#"}, "."),
    ],
    ids=["type", "ref", "pattern", "nothing", "endless"],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: dict[str, object], words: str) -> None:
    """With what is wrong with it."""
    with pytest.raises(EngineFault, match=words) as caught:
        grammar_of(json.dumps(schema))
    assert (caught.value.code, caught.value.fatal) == ("bad_request", False)
    assert "schema" in caught.value.message
