"""Answers held to a JSON Schema: the engine's grammar for it, and the check that it can be followed.

The native server builds its constraint with llguidance. When that cannot compile a schema, the server writes
a line into its log and goes on without any constraint. So the same library looks at the schema first, and reads
the answer once more in the end. Where a schema demands the spelling of a control token, the server would demand the
token itself, which ends the answer or is no part of its text: such schemas are refused.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.runs import LONGEST_RUN, has_long_run

# Spaces and line breaks between the parts are left out: free to make them, small models make nothing else.
_OPTIONS: Final = {"whitespace_flexible": False}
# The grammar of a list repeats its element so often; a thousand million times ends the engine.
_MOST_ELEMENTS: Final = 1_000
_COUNTS: Final = ("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains")


# Members of a schema whose keys are the author's own, names of members of an answer or of other schemas.
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_NAMES_IN_ANSWERS: Final = ("properties", "patternProperties")
_SHOWN: Final = 80
_LITERALS: Final = ("const", "enum", "required", "pattern")
_ESCAPED: Final = re.compile(r"\\(.)")


def grammar_of(schema_text: str, control: Iterable[str] = ()) -> str:
    """The grammar of the answers that follow the schema. control: how control tokens are spelled. Raises EngineFault
    `bad_request`."""
    schema: dict[str, Any] = json.loads(schema_text)
    _check_counts(schema)
    _check_literals(schema, tuple(filter(None, control)))
    grammar = f"%llguidance {{}}\nstart: %json {json.dumps({'x-guidance': _OPTIONS, **schema})}"
    matcher = _matcher(grammar)
    fault: str = matcher.get_error()
    if not fault and not any(matcher.compute_bitmask()):
        fault = "no answer follows it, or too many do"
    if fault := fault or matcher.get_error():
        reason = fault.splitlines()[0].removeprefix("at 2(8): ")
        raise EngineFault("bad_request", f"the engine cannot hold an answer to this schema: {reason}")
    return grammar


def check_answer(grammar: str, text: str, *, complete: bool) -> None:
    """An answer, or the beginning of one, must follow its grammar, letter by letter: the engine gives up without
    a word when a grammar becomes too much for it, and has control tokens for some texts. Raises EngineFault
    `engine_error`."""
    matcher = _matcher(grammar)
    letters = list(text.encode())
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


def _check_literals(schema: object, control: tuple[str, ...]) -> None:
    for text in _literals(schema):
        # A pattern has the characters of most spellings escaped.
        plain = _ESCAPED.sub(r"\1", text)
        spelled = next((spelling for spelling in control if spelling in text or spelling in plain), None)
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
