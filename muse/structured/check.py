"""Whether an answer can be held to a schema: compiled and walked with the libraries of the engines.

What is found here is found before the request is accepted: a grammar that is refused, too large, or has a dead end, and
an answer of the grammar that does not follow the client's schema. Walks are a sample: what they cannot find, the engine
may meet while it decodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

from muse.structured.engine_schema import EngineSchema, engine_schema
from muse.structured.faults import SchemaFault, join
from muse.structured.grammar_readers import PythonReader, Reader, readers
from muse.structured.walk import DeadEnd, cpu_seconds, walk
from muse.worker.json_form import grammar_text

WALKS: Final = 24
WALK_S: Final = 0.15
"""CPU seconds for the walks through one grammar with one library; a first walk always goes to its end."""
COMPILE_S: Final = 0.7
"""CPU seconds that the libraries may take to compile a grammar: the engine takes as long, and others wait then."""
PLACE_S: Final = 0.3
"""CPU seconds for finding out which part of a schema is to blame."""
FEW_WALKS: Final = 4
_TOO_MUCH: Final = ("row has", "too big", "too many", "fuel", "too large", "too complex")
_EXACT_DIGITS: Final = 15
"""That a double surely has."""
_SHOWN: Final = 60


def written(schema: object, *, prefix: str = "d") -> EngineSchema:
    """A client's schema, written for the engine and tried. Raises SchemaFault."""
    result = engine_schema(schema, matches=matches, prefix=prefix)
    fault = fault_of(result.whole(), original=schema)
    if fault is not None:
        raise _placed(result, fault)
    return result


def fault_of(schema: Any, *, original: object = None, walks: int = WALKS) -> str | None:
    """Why no answer can be held to the engine's schema, in one clause; None if it can. original: what the client wrote,
    which answers are compared with."""
    started = cpu_seconds()
    grammar = grammar_text(json.dumps(schema))
    read = readers(grammar)
    took = cpu_seconds() - started
    for reader in read.values():
        if error := reader.error():
            return f"the engine cannot compile it: {_words(error)}"
    if took > COMPILE_S:
        return f"takes the engine too long to compile ({took:.1f} s); make it smaller, or multipleOf a smaller number"
    judges = _Judges(read["llguidance"], original)
    for reader in read.values():
        try:
            answers = list(_walks(reader, walks))
        except DeadEnd as end:
            what = _words(end.reason) if end.reason else "nothing may follow"
            return f"the engine cannot go on after {_shown(end.answer)}: {what}"
        for answer in answers:
            if wrong := judges.fault_of(answer):
                return f"the engine would also accept {_shown(answer)}, although {wrong}"
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern as the engine understands it; an invalid one matches nothing."""
    grammar = grammar_text(json.dumps({"allOf": [{"const": text}, {"type": "string", "pattern": pattern}]}))
    return not PythonReader(grammar).error()


def _walks(reader: Reader, walks: int) -> Iterator[bytes]:
    """Answers of the grammar."""
    started = cpu_seconds()
    for number in range(walks):
        answer = walk(reader, number)
        if answer is not None:
            yield answer
        if cpu_seconds() - started > WALK_S:
            return


class _Judges:
    """Read whole answers: the library that reads every answer in the end, and a validator of the client's schema."""

    def __init__(self, reader: Reader, original: object) -> None:
        assert isinstance(reader, PythonReader)
        self._reader = reader
        self._validator = None if original is None else client_validator(original)

    def fault_of(self, answer: bytes) -> str | None:
        if not self._reader.reads(answer):
            return "another version of its library reads it as wrong"
        if self._validator is None:
            return None
        try:
            self._validator.validate(json.loads(answer))
        except ValidationError as fault:
            return f"{fault.validator} forbids it"
        except Exception:
            self._validator = None
        return None


def _no_check(*_: object) -> Iterator[ValidationError]:
    """For patterns: the engine reads them otherwise than Python in small points, and it is theirs that count."""
    yield from ()


def _multiple(_: object, factor: Any, value: Any, __: object) -> Iterator[ValidationError]:
    """`multipleOf` in decimal: the validator's own divides doubles."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = Decimal(repr(value))
        if len(number.as_tuple().digits) <= _EXACT_DIGITS and number % Decimal(repr(factor)):
            yield ValidationError("is no multiple")


def client_validator(schema: Any) -> Any:
    """Validates answers by a client's schema, but for patterns."""
    library: Any = validators
    kind = library.validator_for(schema, default=Draft202012Validator)
    # The registry is empty: the default one would fetch references from the network.
    empty: Any = Registry
    return library.extend(kind, {"pattern": _no_check, "multipleOf": _multiple})(schema, registry=empty())


@attrs.frozen
class _Part:
    """Of a schema, reached by steps or, if it is a definition, at a place of its own."""

    steps: tuple[str | int, ...]
    schema: Any
    place: str | None = None


def _placed(written: EngineSchema, fault: str) -> SchemaFault:
    """The fault at the smallest part that has one by itself."""
    pointer, schema, seen = "#", written.schema, set[str]()
    deadline = cpu_seconds() + PLACE_S
    while True:
        for part in _parts(schema, written, seen):
            if inner := _fault_in(part, written, deadline):
                pointer, schema, fault = part.place or join(pointer, *part.steps), part.schema, inner
                break
        else:
            return SchemaFault(pointer, fault)


def _fault_in(part: _Part, written: EngineSchema, deadline: float) -> str | None:
    if isinstance(part.schema, bool) or cpu_seconds() > deadline:
        return None
    schema: dict[str, Any] = {**part.schema, "$defs": written.definitions}
    return fault_of(schema, walks=FEW_WALKS)


def _parts(schema: Mapping[str, Any], written: EngineSchema, seen: set[str]) -> Iterator[_Part]:
    for key, value in schema.items():
        many: list[Any] = value
        if key == "$ref":
            name = value.rpartition("/")[2]
            if name not in seen:
                seen.add(name)
                yield _Part((), written.definitions[name], written.places[name])
        elif key in ("properties", "patternProperties"):
            yield from (_Part((key, name), inner) for name, inner in value.items())
        elif key in ("allOf", "anyOf", "oneOf", "prefixItems") or (key == "items" and isinstance(value, list)):
            yield from (_Part((key, index), inner) for index, inner in enumerate(many))
        elif key in ("items", "additionalItems", "additionalProperties"):
            yield _Part((key,), value)


def _words(error: str) -> str:
    """The library's reason, without its place in a grammar that nobody sees and its advice to programmers."""
    line = error.splitlines()[0].removeprefix("at 2(8): ").removeprefix("failed to compile JSON schema: ")
    if "oneOf" in line:
        return (
            "it cannot tell whether only one branch of oneOf holds; give the branches different types, or different "
            "constants of one required property, or use anyOf"
        )
    if line.startswith("regex parse error"):
        reason = re.search(r"^error: (.*)", error, re.MULTILINE)
        return f"it cannot read a pattern{f' ({reason[1][:120]})' if reason else ''}"
    if any(sign in line for sign in _TOO_MUCH):
        return f"it is too large or too ambiguous for the engine ({line.partition(';')[0][:120]})"
    return {"NoExtensionBias": "nothing may follow there"}.get(line, line[:200])


def _shown(answer: bytes) -> str:
    text = answer.decode("utf-8", "replace")
    return repr(text if len(text) <= _SHOWN else f"...{text[-_SHOWN:]}")
