"""Answers held to a JSON Schema: the grammar for it, and the check that it can be followed.

Engines build their constraint with llguidance. It is asked first whether it can compile a schema, and reads the answer
once more in the end, letter by letter, whatever the engine made of the grammar.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Final, cast

from muse.worker.engines.base import EngineFault

# Spaces and line breaks between the parts are left out: free to make them, small models make nothing else.
_OPTIONS: Final = {"whitespace_flexible": False}
# The grammar of a list repeats its element so often; a thousand million times ends the engine.
_MOST_ELEMENTS: Final = 1_000
_COUNTS: Final = ("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains")


def grammar_of(schema_text: str) -> str:
    """The grammar of the answers that follow the schema. Raises EngineFault `bad_request`."""
    schema: dict[str, Any] = json.loads(schema_text)
    _check_counts(schema)
    grammar = f"%llguidance {{}}\nstart: %json {json.dumps({'x-guidance': _OPTIONS, **schema})}"
    check_followed(_matcher(grammar))
    return grammar


def check_followed(matcher: Any) -> None:
    """A matcher of llguidance's at its beginning must be able to go on. Raises EngineFault `bad_request`."""
    fault: str = matcher.get_error()
    if not fault and not any(matcher.compute_bitmask()):
        fault = "no answer follows it, or too many do"
    if fault := fault or matcher.get_error():
        reason = fault.splitlines()[0].removeprefix("at 2(8): ")
        raise EngineFault("bad_request", f"the engine cannot hold an answer to this schema: {reason}")


def check_answer(grammar: str, answer: bytes, *, complete: bool) -> None:
    """An answer, or the beginning of one, must follow its grammar. Raises EngineFault `engine_error`."""
    matcher = _matcher(grammar)
    letters = list(answer)
    follows = matcher.try_consume_tokens(letters) == len(letters)
    if not follows or (complete and not matcher.is_accepting()):
        raise EngineFault("engine_error", "the engine did not hold its answer to the schema it was given")


def _matcher(grammar: str) -> Any:
    """Reads bytes along a grammar."""
    # By name, since it is for this alone and costs time to load.
    library: Any = importlib.import_module("llguidance")
    return library.LLMatcher(library.LLTokenizer("byte"), grammar, log_level=0)


def _check_counts(value: object) -> None:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _check_counts(item)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            if key in _COUNTS and isinstance(item, int | float) and item > _MOST_ELEMENTS:
                raise EngineFault("bad_request", f"the answer's schema asks for a {key} of more than {_MOST_ELEMENTS}")
            _check_counts(item)
