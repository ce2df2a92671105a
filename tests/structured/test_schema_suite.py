"""The JSON-Schema-Test-Suite: each of its schemas is refused, or its answers follow it.

The suite is part of the source distribution of the package `jsonschema` (`json/tests/draft2020-12`), not of what is
installed: MUSE_SCHEMA_SUITE names its folder.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muse.structured.check import client_validator, written
from muse.structured.faults import SchemaFault
from muse.structured.grammar_readers import Reader, readers
from muse.worker.json_form import grammar_text
from tests.structured.schemas import draw_answer

SEEDS = range(2000, 2010)


def groups(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema of the suite with its instances."""
    for file in sorted(folder.rglob("*.json")):
        if "format" not in file.relative_to(folder).parts:  # where formats restrict, against the standard's default
            yield from ((file.stem, group) for group in json.loads(file.read_text(encoding="utf-8")))


def takes(reader: Reader, answer: bytes) -> bool:
    """Whether the grammar has an answer."""
    reader.restart()
    for byte in answer:
        if byte not in reader.allowed():
            return False
        reader.take(byte)
    return 256 in reader.allowed()


@pytest.mark.slow
@pytest.mark.skipif("MUSE_SCHEMA_SUITE" not in os.environ, reason="MUSE_SCHEMA_SUITE names no folder")
def test_the_suite_is_refused_or_followed() -> None:
    """No instance that the suite calls invalid is in a grammar, and all answers drawn are valid."""
    found = Counter[str]()
    wrong: list[object] = []
    for name, group in groups(Path(os.environ["MUSE_SCHEMA_SUITE"])):
        schema = group["schema"]
        try:
            form = written(schema)
        except SchemaFault as fault:
            found["refused"] += 1
            found[f"refused in {name}: {fault.what[:40]}"] += 1
            continue
        found["taken"] += 1
        validator = client_validator(schema)
        for library, reader in readers(grammar_text(json.dumps(form.whole()))).items():
            for instance in group["tests"]:
                letters = json.dumps(instance["data"], ensure_ascii=False, separators=(",", ":")).encode()
                read = takes(reader, letters)
                found[f"{'valid' if instance['valid'] else 'invalid'} {'taken' if read else 'not taken'}"] += 1
                # What a class such as \\S holds is the engine's own; ECMAScript has U+FEFF among the blanks.
                if read and not instance["valid"] and name != "ecmascript-regex":
                    wrong.append((library, name, schema, instance["data"]))
            for number in SEEDS:
                answer = draw_answer(reader, number)
                with suppress(re.error):  # a pattern that Python cannot read, such as one with \\p
                    if answer is not None and not validator.is_valid(json.loads(answer)):
                        wrong.append((library, name, schema, answer))
    print(json.dumps(dict(found.most_common()), indent=1))
    assert wrong == []
    assert found["taken"] > 100
