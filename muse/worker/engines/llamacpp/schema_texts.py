"""Texts in a JSON Schema that the native server cannot write as text.

The server builds its constraint with llguidance (`muse/worker/json_form.py`). Where a schema demands the spelling of a
control token, it would demand the token itself, which ends the answer or is no part of its text. Where it demands a
long run, it would give that to its tokeniser, which does not survive it. Such schemas are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, cast

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.runs import LONGEST_RUN, has_long_run

# Members of a schema whose keys are the author's own, names of members of an answer or of other schemas.
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_NAMES_IN_ANSWERS: Final = ("properties", "patternProperties")
_SHOWN: Final = 80
_LITERALS: Final = ("const", "enum", "required", "pattern")
_ESCAPED: Final = re.compile(r"\\(.)")


def check_texts(schema_text: str, control: Iterable[str]) -> None:
    """Whether the server can write the texts that a schema demands. control: how control tokens are spelled. Raises
    EngineFault `bad_request`."""
    spellings = tuple(filter(None, control))
    for text in _literals(json.loads(schema_text)):
        # A pattern has the characters of most spellings escaped.
        plain = _ESCAPED.sub(r"\1", text)
        spelled = next((spelling for spelling in spellings if spelling in text or spelling in plain), None)
        if spelled is not None:
            raise EngineFault(
                "bad_request",
                f"the answer's schema demands the text {text[:_SHOWN]!r}, which spells the control token {spelled!r}: "
                "this engine cannot write that as text",
            )
        if has_long_run(text):
            raise EngineFault(
                "bad_request",
                f"the answer's schema demands the text {text[:_SHOWN]!r}, which has more than {LONGEST_RUN} letters, "
                "digits, symbols or blanks in a row",
            )


def _literals(schema: object) -> Iterator[str]:
    """The texts that a schema puts into answers: not those that only describe it."""
    if isinstance(schema, list):
        for item in cast("list[object]", schema):
            yield from _literals(item)
    elif isinstance(schema, dict):
        for key, value in cast("dict[str, object]", schema).items():
            if key in _NAMED and isinstance(value, dict):
                named = cast("dict[str, object]", value)
                if key in _NAMES_IN_ANSWERS:
                    yield from named
                for inner in named.values():
                    yield from _literals(inner)
            elif key in _LITERALS:
                yield from _texts(value)
            else:
                yield from _literals(value)


def _texts(value: object) -> Iterator[str]:
    """All texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield key
            yield from _texts(item)
