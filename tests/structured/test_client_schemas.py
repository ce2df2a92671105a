"""Schemas as pydantic, zod and agents write them: taken, and held to what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.structured.check import written
from muse.structured.engine_schema import engine_schema
from muse.structured.faults import SchemaFault
from muse.structured.forms import AskedSchema
from muse.structured.grammar_readers import END, LlamaCppReader, PythonReader, Reader
from muse.structured.jobs import held_form
from muse.structured.walk import walk
from muse.worker.json_form import grammar_text

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def branch(tag: str, *, tag_required: bool = True, closed: bool = False, **named: Any) -> dict[str, Any]:
    """One of a tagged union."""
    required = [*(["kind"] if tag_required else []), *named]
    properties = {"kind": {"const": tag, "default": tag, "title": "Kind", "type": "string"}, **named}
    schema = {"title": tag, "type": "object", "properties": properties, "required": required}
    return {**schema, "additionalProperties": False} if closed else schema


def union(*, tag_required: bool, tagged: bool = True, closed: bool = False) -> dict[str, Any]:
    """Pydantic's `Annotated[Cat | Dog, Field(discriminator="kind")]`; a cat has a friend that is a pet."""
    pet: dict[str, Any] = {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    if tagged:
        mapping = {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}
        pet["discriminator"] = {"mapping": mapping, "propertyName": "kind"}
    return {
        "type": "object",
        "properties": {"pet": pet},
        "required": ["pet"],
        "$defs": {
            "Cat": branch(
                "cat", tag_required=tag_required, closed=closed, friend={"anyOf": [pet, {"type": "null"}]}
            ),
            "Dog": branch("dog", tag_required=tag_required, closed=closed, barks=NUMBER),
        },
    }  # fmt: skip


def record(names: Any, **more: Any) -> dict[str, Any]:
    inner = {"type": "object", "propertyNames": names, "additionalProperties": NUMBER, **more}
    return {"type": "object", "properties": {"m": inner}, "required": ["m"], "additionalProperties": False}


CAT: Any = {"pet": {"kind": "cat", "friend": {"kind": "dog", "barks": 2}}}
TREE: Any = {
    "$defs": {
        "Node": {
            "properties": {
                "v": {"type": "integer"},
                "l": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
                "r": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
            },
            "required": ["v"],
            "title": "Node",
            "type": "object",
        }
    },
    "type": "object",
    "$ref": "#/$defs/Node",
}
INTERSECTION: Any = {
    "type": "object",
    "properties": {
        "v": {
            "allOf": [
                {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
                {"type": "object", "properties": {"b": NUMBER}, "required": ["b"]},
            ]
        }
    },
    "required": ["v"],
    "additionalProperties": False,
}

CASES: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("tagged union", union(tag_required=True), [CAT], [{"pet": {"kind": "cat", "barks": 2}}]),
    ("tags by default", union(tag_required=False), [CAT], [{"pet": {"barks": 2}}, {"pet": {"kind": "eel"}}]),
    ("union without a word about its tag", union(tag_required=True, tagged=False, closed=True), [CAT], [{"pet": {}}]),
    ("binary tree", TREE, [{"v": 1, "l": {"v": 2, "r": None}}], [{"v": 1, "l": 2}]),
    ("intersection", INTERSECTION, [{"v": {"a": "x", "b": 1}}], [{"v": {"a": "x"}}]),
    ("record", record(TEXT), [{"m": {}}, {"m": {"any/thing": 1}}], [{"m": {"a": "b"}}]),
    ("record of an enum", record({"type": "string", "enum": ["a", "b"]}, required=["a"]), [{"m": {"a": 1}}],
     [{"m": {"a": 1, "c": 1}}, {"m": {}}, {"m": {"a": "x"}}]),
    ("record of a pattern", record({"pattern": "^[a-z]+$"}), [{"m": {"ab": 1}}], [{"m": {"aB": 1}}]),
    ("record of long names", record({"minLength": 2, "type": "string"}), [{"m": {"яя": 1}}], [{"m": {"я": 1}}]),
    ("record of short names", record({"maxLength": 2}), [{"m": {"яя": 1, "": 2}}], [{"m": {"abc": 1}}]),
    ("record of a referenced enum", {**record({"$ref": "#/$defs/K"}), "$defs": {"K": {"enum": ["a", "b"]}}},
     [{"m": {"b": 2}}], [{"m": {"c": 2}}]),
    ("never", {"type": "object", "properties": {"a": {"not": {}}, "b": TEXT}, "required": ["b"]}, [{"b": "x"}],
     [{"a": 1, "b": "x"}]),
    ("older version by https", {"$schema": "https://json-schema.org/draft-07/schema#", "type": "object",
     "properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": NUMBER}}, [{"a": 1}], [{"a": "x"}]),
    ("integers", {"type": "object", "properties": {"n": {"type": ["integer", "null"]}, "m": {"type": "integer",
     "minimum": 0}}, "additionalProperties": False}, [{"n": 2**63 - 1024, "m": 0}, {"n": -12}, {"n": None}],
     [{"n": 10**64}, {"m": 10**64}, {"m": -1}, {"n": 1.5}]),
    ("64 bits", {"type": "object", "properties": {"n": {"type": "integer", "format": "int64",
     "minimum": -9223372036854775808, "maximum": 9223372036854775807}}, "required": ["n"]},
     [{"n": 2**63 - 1024}, {"n": -(2**63 - 1024)}, {"n": 0}], [{"n": 2**63}, {"n": -(2**63) - 1}, {"n": 0.5}]),
    ("dependent", {"type": "object", "properties": {"card": TEXT, "zip": TEXT, "street": TEXT},
     "dependentRequired": {"card": ["zip"], "zip": ["street"]}, "additionalProperties": False},
     [{}, {"street": ""}, {"zip": "", "street": ""}, {"card": "", "zip": "", "street": ""}],
     [{"card": ""}, {"zip": ""}, {"card": "", "zip": ""}, {"card": "", "street": ""}]),
    ("dependent, older and open", {"properties": {"a": TEXT}, "required": ["b"], "dependencies": {"a": ["c"], "b": []}},
     [{"b": 1}, {"a": "", "b": 1, "c": None}, {"b": 0, "z": 1}], [{"a": "", "b": 1}, {"a": 1, "b": 1, "c": 1}, {}]),
    ("unevaluated", {"type": "object", "properties": {"a": TEXT, "l": {"type": "array", "prefixItems": [TEXT],
     "unevaluatedItems": False}}, "unevaluatedProperties": False}, [{"a": ""}, {"a": "", "l": ["x"]}],
     [{"b": 1}, {"l": ["x", 1]}]),
    ("unevaluated, other schema", {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": NUMBER},
     [{"a": "", "b": 1.5}], [{"b": ""}, {"a": 1}]),
    ("unevaluated with names", {"type": "object", "properties": {"r": {"type": "object", "propertyNames":
     {"pattern": "^a"}, "unevaluatedProperties": False}}}, [{"r": {}}], [{"r": {"a": 1}}]),
    ("unevaluated beside additional", {"type": "object", "properties": {"a": TEXT}, "additionalProperties": NUMBER,
     "unevaluatedProperties": False}, [{"b": 1}], [{"b": ""}]),
    ("others of one type", {"type": "object", "properties": {"a": TEXT, "ab\u00e9\n": TEXT, "": TEXT},
     "additionalProperties": NUMBER}, [{"a": "", "b": 1, "ab": 2, "abé": 3, "\n": 4}, {"ab\u00e9\n": ""}],
     [{"a": 1}, {"b": ""}, {"": 1}, {"ab\u00e9\n": 1}]),
    ("open parts", {"allOf": [{"type": "object", "properties": {"a": TEXT}}, {"properties": {"b": NUMBER},
     "required": ["b"]}], "anyOf": [{"required": ["a"]}, {"required": ["c"]}]},
     [{"a": "", "b": 1}, {"a": "", "b": 1, "d": []}], [{"a": 1, "b": 1}, {"b": 1}, {"a": ""}, {"a": "", "b": ""}]),
    ("enum of described constants", {"type": "object", "properties": {"k": {"oneOf": [
        {"description": "A", "type": "string", "const": "a"}, {"description": "B", "type": "string", "const": "b"}]}},
     "required": ["k"]}, [{"k": "b"}], [{"k": "c"}]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("forced", [False, True], ids=["response", "call"])
def test_ordinary_schemas_are_taken(schema: dict[str, Any], good: list[Any], bad: list[Any], *, forced: bool) -> None:
    """As an answer's form and as a tool's parameters, by both libraries, with their meaning."""
    asked = AskedSchema(param="x", text=json.dumps(schema), tool="f" if forced else None)
    reader = PythonReader(grammar_text(held_form((asked,)).schema))
    for answers, wanted in ((good, True), (bad, False)):
        for answer in answers:
            whole = {"name": "f", "arguments": answer} if forced else answer
            letters = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
            assert reader.reads(letters) is wanted, answer


def test_branches_that_may_both_hold_stay_one_of() -> None:
    """`anyOf` would let an answer follow both."""
    overlapping: list[list[Any]] = [
        [{"type": "integer"}, NUMBER],
        [{"const": 1}, {"const": 1.0}],
        [{"const": "a"}, TEXT],
        [{"const": [1]}, {"const": [1.0]}],
        [branch("a", tag_required=False), branch("b", tag_required=False)],
        [branch("a"), {"type": "object", "properties": {"kind": TEXT}}],
        [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    ]
    for branches in overlapping:
        schema = {"oneOf": branches, "$defs": {"a": TEXT, "b": {"anyOf": [TEXT, NUMBER]}}}
        assert "oneOf" in engine_schema(schema, matches=lambda *_: False).schema, branches
    for branches in (
        [TEXT, NUMBER],
        [branch("a"), branch("b", tag_required=False)],
        [{"const": 1}, {"enum": [2, "1"]}],
    ):
        assert "anyOf" in engine_schema({"oneOf": branches}, matches=lambda *_: False).schema, branches


def test_names_that_two_keywords_restrict_are_refused() -> None:
    """The engine gets them wrong together."""
    for more in ({"properties": {"a": {}}}, {"patternProperties": {"^a": {}}}):
        with pytest.raises(SchemaFault) as caught:
            written(record({"pattern": "^[a-z]+$"}, **more))
        assert caught.value.pointer == "#/properties/m/propertyNames"


def test_zeros_without_end_do_not_use_up_the_walks() -> None:
    """They may follow each other for ever in an address: walks end all the same."""
    grammar = grammar_text(json.dumps({"type": "string", "format": "email"}))
    for number in range(12):
        assert walk(PythonReader(grammar), number) is not None


def test_walks_leave_out_escapes_that_the_libraries_read_differently() -> None:
    """Names of an object that is combined with others may have `\\/` by one version and not by the other, where some
    object of these may have no other names: a refusal would depend on what a walk happens to write."""
    closed = {"allOf": [{"type": "object", "additionalProperties": False}, {"type": "object"}]}
    schema = {**INTERSECTION, "properties": {**INTERSECTION["properties"], "w": closed}}
    grammar = grammar_text(json.dumps(written(schema).whole()))
    read, walked = PythonReader(grammar), LlamaCppReader(grammar)
    escaped = 0
    for number in range(300):
        answer = walk(walked, number)
        assert answer is None or read.reads(answer), answer
        escaped += b"\\" in (answer or b"")
    assert escaped > 5


ESCAPED = [b'{"\\u0061":1}', b'{"a":"","x\\/y":1}', b'{"a":"","\\ud83d":1}', b'{"a":"","\\ud83d\\ude00":1}']


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": TEXT}},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": NUMBER},
        {"type": "object", "additionalProperties": True, "required": ["a"]},
        {"type": "object", "patternProperties": {"^.": True}, "additionalProperties": False},
        {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "minProperties": 2},
        {"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}], "type": "object"},
        {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {"$ref": "#/$defs/r", "properties": {"a": TEXT}, "$defs": {"r": {"properties": {"b": TEXT}}}},
        {"properties": {"a": TEXT}, "dependentRequired": {"a": ["q"]}, "type": "object"},
    ],
    ids=json.dumps,
)
def test_a_name_has_one_spelling(schema: dict[str, Any]) -> None:
    """In both libraries: with escapes that no name needs, one could stand for another, and the libraries differ in
    which they take."""
    grammar = grammar_text(json.dumps(written(schema).whole()))
    for reader in (PythonReader(grammar), LlamaCppReader(grammar)):
        assert [letters for letters in ESCAPED if follows(reader, letters)] == []
        assert follows(reader, b'{"a":"","q":1}')


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"properties": {"a": TEXT}, "required": ["a"], "anyOf": [{"properties": {"b": TEXT}}, {"required": ["a"]}]},
        {"properties": {"a": TEXT, "b": TEXT}, "$ref": "#/$defs/r", "$defs": {"r": {"required": ["a"]}}},
    ],
    ids=json.dumps,
)
def test_a_closed_object_stays_closed_beside_open_ones(schema: dict[str, Any]) -> None:
    """In both libraries: the older one takes the patterns of an open part for those of the whole."""
    closed = {"type": "object", "additionalProperties": False, **schema}
    grammar = grammar_text(json.dumps(written(closed).whole()))
    for reader in (PythonReader(grammar), LlamaCppReader(grammar)):
        assert follows(reader, b'{"a":""}')
        assert not follows(reader, b'{"a":"","q":1}')


def follows(reader: Reader, letters: bytes) -> bool:
    """Whether they are a whole answer."""
    reader.restart()
    for letter in letters:
        if letter not in reader.allowed():
            return False
        reader.take(letter)
    return END in reader.allowed()
