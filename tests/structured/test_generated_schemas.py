"""Schemas at random: each is refused, or the answers of its grammar follow it, as another validator sees it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator
from referencing import Registry

from muse.structured.check import written
from muse.structured.faults import SchemaFault
from muse.structured.grammar_readers import readers
from muse.worker.json_form import grammar_text
from tests.structured.schemas import draw_answer, schemas

SEEDS = range(1000, 1012)
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


def follow(schema: dict[str, Any], found: Counter[str]) -> None:
    """The claim for one schema."""
    try:
        form = written(schema)
    except SchemaFault:
        found["refused"] += 1
        return
    found["taken"] += 1
    validator = Draft202012Validator(schema, registry=Registry())
    for name, reader in readers(grammar_text(json.dumps(form.whole()))).items():
        for number in SEEDS:
            answer = draw_answer(reader, number)
            if answer is not None:
                found["answers"] += 1
                fault = next(validator.iter_errors(json.loads(answer)), None)
                assert fault is None, (name, answer, fault.message if fault else "")


def examples(count: int) -> Any:
    return settings(max_examples=count, phases=PHASES, suppress_health_check=list(HealthCheck), database=None)


def test_each_schema_is_refused_or_followed() -> None:
    """100 of them; about as many are taken as are refused."""
    found = Counter[str]()

    @seed(1)
    @examples(100)
    @given(schemas())
    def claim(schema: dict[str, Any]) -> None:
        follow(schema, found)

    claim()
    assert found["taken"] > 30
    assert found["answers"] > 300


@pytest.mark.slow
def test_many_schemas_are_refused_or_followed() -> None:
    """2,000, others each time."""
    found = Counter[str]()

    @examples(2000)
    @given(schemas())
    def claim(schema: dict[str, Any]) -> None:
        follow(schema, found)

    claim()
    print(dict(found))
    assert found["taken"] > 600
