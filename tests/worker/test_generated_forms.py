"""Schemas at random through the real engine: what the check lets pass, the engine follows."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from referencing import Registry

from muse.protocol import Error, TextSegment
from muse.structured.check import written
from muse.structured.faults import SchemaFault
from tests.structured.schemas import schemas
from tests.worker.client import WorkerProcess
from tests.worker.nano import MODEL

COUNT = int(os.environ.get("MUSE_FORMS", "2000"))


@pytest.mark.slow
def test_the_engine_follows_what_the_check_lets_pass(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each answer is valid, or cut at its limit; none is an error, and the worker lives."""
    found = Counter[str]()
    home = tmp_path_factory.mktemp("home")
    with WorkerProcess(
        "--engine", "llamacpp", "--model", str(MODEL), "--context", "1024", env={"MUSE_HOME": str(home)}
    ) as worker:
        worker.ready()

        @settings(
            max_examples=COUNT,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(schemas())
        def claim(schema: dict[str, Any]) -> None:
            try:
                form = json.dumps(written(schema).whole())
            except SchemaFault:
                found["refused"] += 1
                return
            prompt = (TextSegment(text="hi", special=False),)
            answer = worker.ask(prompt, json_schema=form, limit=200, temperature=1.0, seed=found["taken"])
            found["taken"] += 1
            assert not isinstance(answer.end, Error), (schema, answer.end)
            found[answer.done.finish_reason] += 1
            if answer.done.finish_reason == "stop":
                assert Draft202012Validator(schema, registry=Registry()).is_valid(json.loads(answer.text)), answer.text

        claim()
    print(dict(found))
    assert found["stop"] > COUNT / 5
