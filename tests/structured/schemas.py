"""JSON Schemas at random, and answers drawn from the grammar of one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from muse.structured.grammar_readers import END, Reader

NAMES = st.sampled_from(["a", "b", "$ref", "x y", "é", "a/b~c", "type", "enum"])
PATTERNS = st.sampled_from(["^a", "b$", "^[a-c]{2,4}$", "^(x|yz)*$", "^\\d{3}-\\d{2}$", "^[α-ω]+$", "^$", ".", "^a.*b"])
NUMBERS = st.one_of(
    st.integers(-20, 20),
    st.sampled_from([0.5, -0.25, 1e3, 2**53, -(2**53), 0.1, -0.0, 1e-6]),
    st.integers(-(2**62), 2**62),
)
SMALL = st.integers(0, 4)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text('ab"\\/é\n\x00🎉', max_size=6), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
NUMERIC = {
    "minimum": NUMBERS, "maximum": NUMBERS, "exclusiveMinimum": NUMBERS, "exclusiveMaximum": NUMBERS,
    "multipleOf": st.sampled_from([1, 2, 5, 0.5, 0.01, 7, 100]),
}  # fmt: skip
TEXTUAL = {
    "minLength": SMALL, "maxLength": SMALL, "pattern": PATTERNS,
    "format": st.sampled_from(["date", "ipv4", "uuid", "url", "int32", "date-time", "email"]),
}  # fmt: skip
NOTES = {
    "title": st.just("t"), "description": st.just("minItems"), "default": VALUES,
    "examples": st.lists(VALUES, max_size=1),
    "x-note": VALUES, "nullable": st.booleans(), "$comment": st.just("c"),
}  # fmt: skip
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#anchor", "urn:b", "urn:b#/$defs/c", "#/$defs/nowhere"])


def objects(inner: st.SearchStrategy[Any]) -> Mapping[str, st.SearchStrategy[Any]]:
    return {
        "properties": st.dictionaries(NAMES, inner, max_size=4),
        "required": st.lists(NAMES, max_size=3, unique=True),
        "additionalProperties": st.one_of(st.booleans(), inner),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=1),
        "minProperties": st.integers(0, 2),
        "maxProperties": SMALL,
    }


def arrays(inner: st.SearchStrategy[Any]) -> Mapping[str, st.SearchStrategy[Any]]:
    return {
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minItems": SMALL,
        "maxItems": SMALL,
    }


def unsupported(inner: st.SearchStrategy[Any]) -> Mapping[str, st.SearchStrategy[Any]]:
    return {
        "not": inner, "if": inner, "then": inner, "contains": inner, "uniqueItems": st.booleans(),
        "dependentRequired": st.just({"a": ["b"]}), "$dynamicRef": st.just("#a"), "unevaluatedProperties": inner,
    }  # fmt: skip


def _typed(kinds: Any, keywords: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    types = st.just(kinds)
    return st.fixed_dictionaries({"type": types}, optional={**keywords})


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=3)
    kinds = st.sampled_from(["object", "string", "integer"])
    return st.fixed_dictionaries(
        {}, optional={"allOf": some, "anyOf": some, "oneOf": some, "$ref": REFERENCES, "type": kinds}
    )


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    every: dict[str, st.SearchStrategy[Any]] = {**objects(inner), **arrays(inner), **NUMERIC, **TEXTUAL, **NOTES}
    return st.one_of(
        _typed("object", objects(inner)),
        _typed("object", objects(inner)),
        _typed("array", arrays(inner)),
        _combined(inner),
        st.fixed_dictionaries({}, optional={**every, **_enumerated()}),
        st.builds(
            lambda left, right: {**left, **right}, inner.filter(lambda one: isinstance(one, dict)), _combined(inner)
        ),
        st.fixed_dictionaries({}, optional=unsupported(inner)),
    )


def _enumerated() -> Mapping[str, st.SearchStrategy[Any]]:
    return {"const": VALUES, "enum": st.lists(VALUES, min_size=1, max_size=4)}


_LEAVES = st.one_of(
    st.booleans(),
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "null"}, {}, {"$ref": "#/$defs/a"}]),
    _typed("integer", NUMERIC),
    _typed("number", NUMERIC),
    _typed("string", {**TEXTUAL, **NOTES}),
    _typed(["string", "null"], TEXTUAL),
    st.fixed_dictionaries({"const": VALUES}),
    st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=4)}),
)
PARTS = st.recursive(_LEAVES, _grown, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A whole schema, with definitions for its references."""
    root: dict[str, Any] = draw(PARTS.filter(lambda part: isinstance(part, dict)))
    definitions = {
        "a": draw(PARTS),
        "b": {"$id": "urn:b", "$defs": {"c": draw(PARTS)}, "items": {"$ref": "#/$defs/c"}},
        "d": {"$anchor": "anchor", "type": draw(st.sampled_from(["string", "object"]))},
    }
    return {**root, "$defs": definitions}


def draw_answer(reader: Reader, seed: int, *, most: int = 400) -> bytes | None:
    """An answer of a grammar, by dice of its own; None: it did not end. Asserts that it can always go on."""
    dice = random.Random(seed)
    reader.restart()
    answer = bytearray()
    while len(answer) < most:
        allowed = reader.allowed()
        assert allowed, (bytes(answer), reader.error())
        closing = [token for token in allowed if token == END or token in b'"}],:']
        token = dice.choice(closing if closing and dice.random() < 0.2 + len(answer) / 100 else allowed)
        if token == END:
            return bytes(answer)
        reader.take(token)
        answer.append(token)
    return None
