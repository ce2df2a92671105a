"""A client's schema as the engine gets it: references, data, numbers, annotations, and what is refused where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.structured.engine_schema import engine_schema
from muse.structured.faults import SchemaFault

BIG = 1234567890123456789


def never(_pattern: str, _text: str) -> bool:
    return False


def whole(schema: Any) -> Any:
    """The engine's schema with its definitions."""
    return engine_schema(schema, matches=never).whole()


def refusal(schema: Any) -> SchemaFault:
    with pytest.raises(SchemaFault) as caught:
        engine_schema(schema, matches=never)
    return caught.value


@pytest.mark.parametrize(
    "schema",
    [
        {"const": {"minItems": 5000}},
        {"enum": [{"$ref": "#/nowhere"}, {"uniqueItems": True, "x-guidance": {"lenient": True}}]},
        {"const": {"$id": "a", "$defs": {"b": 1}, "format": "url", "not": {}}},
        {"const": {"properties": {"a": {"$ref": "#/x"}}}},
    ],
    ids=json.dumps,
)
def test_data_is_left_as_it_is(schema: dict[str, Any]) -> None:
    """Whatever it looks like."""
    assert whole(schema) == schema


def test_data_in_annotations_asks_for_nothing() -> None:
    """Nor do the annotations; they do not reach the engine."""
    odd = {"minItems": 5000, "$ref": "#/nowhere", "uniqueItems": True, "maximum": BIG}
    written = engine_schema({"type": "string", "default": odd, "examples": [odd], "title": "t"}, matches=never)
    assert written.whole() == {"type": "string"}
    assert written.notes == ()


@pytest.mark.parametrize(
    "keyword", ["const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)
@pytest.mark.parametrize("number", [BIG, -BIG, 2**53 + 1, 1e300, 1e16])
def test_a_number_beyond_doubles_is_refused_by_name(keyword: str, number: float) -> None:
    """With its place."""
    fault = refusal({"type": "object", "properties": {"id": {keyword: number}}})
    assert fault.pointer == f"#/properties/id/{keyword}"
    assert repr(number) in fault.what


def test_numbers_are_found_at_any_depth_of_data() -> None:
    """With the place in the data."""
    fault = refusal({"allOf": [{"enum": [1, {"a/b": [0, BIG]}]}]})
    assert fault.pointer == "#/allOf/0/enum/1/a~1b/1"


@pytest.mark.parametrize("number", [2**53, -(2**53), 0.1, -0.0, 1e15, 1.5e-7])
def test_exact_numbers_pass_unchanged(number: float) -> None:
    """As they were written."""
    schema = {"properties": {"n": {"const": number, "minimum": number}}}
    written = whole(schema)["properties"]["n"]
    assert json.dumps(written["const"]) == json.dumps(written["minimum"]) == json.dumps(number)


NULL = {"type": "null"}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/s", "$defs": {"s": NULL}},
        {"$id": "https://t.test/s", "$ref": "#/$defs/s", "$defs": {"s": NULL}},
        {"$id": "https://t.test/a/b", "$ref": "/c#x", "$defs": {"c": {"$id": "/c", "$anchor": "x", **NULL}}},
        {"$ref": "#here", "$defs": {"q": {"$anchor": "here", **NULL}}},
        {"$ref": "#here", "$defs": {"q": {"$dynamicAnchor": "here", **NULL}}},
        {"$ref": "inner#/$defs/x", "$defs": {"q": {"$id": "inner", "$defs": {"x": NULL}}}},
        {"$ref": "#/$defs/a~1b%25c", "$defs": {"a/b%c": NULL}},
        {"$ref": "#/definitions/s", "definitions": {"s": NULL}},
        {"$schema": DRAFT_7, "$ref": "#/definitions/x/items/1", "definitions": {"x": {"items": [{}, NULL]}}},
        {"$schema": DRAFT_7, "$ref": "#a", "definitions": {"s": {"$id": "#a", **NULL}}},
    ],
    ids=json.dumps,
)
def test_references_are_resolved(schema: dict[str, Any]) -> None:
    """By pointers, ids, anchors and relative addresses, as JSON Schema says."""
    assert whole(schema) == {"$ref": "#/$defs/d0", "$defs": {"d0": NULL}}


def test_the_same_target_is_written_once() -> None:
    """However it is referred to."""
    schema = {
        "$id": "urn:x",
        "properties": {
            "$ref": {"$ref": "#/$defs/$ref"},
            "b": {"$ref": "urn:x#name"},
            "c": {"$ref": "#/properties/$ref"},
        },
        "$defs": {"$ref": {"$anchor": "name", "type": "string"}},
    }
    written = whole(schema)
    assert written["properties"] == {
        "$ref": {"$ref": "#/$defs/d0"},
        "b": {"$ref": "#/$defs/d0"},
        "c": {"$ref": "#/$defs/d1"},
    }
    assert written["$defs"] == {"d0": {"type": "string"}, "d1": {"$ref": "#/$defs/d0"}}


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"$ref": "#/nowhere"}, "#/$ref", "points to nothing"),
        ({"properties": {"a": {"$ref": "#gone"}}}, "#/properties/a/$ref", "points to nothing"),
        ({"$ref": "http://example.org/x.json"}, "#/$ref", "outside"),
        ({"$ref": "http://["}, "#/$ref", ""),
        ({"$ref": 5}, "#/$ref", "string"),
        ({"$ref": "#/items/0", "items": [{}]}, "#/$ref", "prefixItems"),
        ({"items": {"$dynamicRef": "#a"}}, "#/items/$dynamicRef", "use $ref"),
        ({"$schema": "https://example.org/mine"}, "#/$schema", "2020-12"),
        ({"$id": 5}, "#/$id", "URI"),
            ({"properties": {"a": {"$id": []}}}, "#/properties/a/$id", "URI"),
        ({"$defs": 5, "$ref": "#/$defs/x"}, "#/$ref", ""),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "x-guidance": {"lenient": True}},
         "#/uniqueItems", "not supported"),
        ({"anyOf": [{}, {"not": {"type": "string"}}]}, "#/anyOf/1/not", "not supported"),
        ({"if": {}, "then": {}}, "#/if", "anyOf"),
        ({"dependentRequired": {"a": ["b"]}, "anyOf": [{}]}, "#/dependentRequired", "anyOf"),
        ({"dependentRequired": {"a": "b"}}, "#/dependentRequired", "anyOf"),
        ({"dependentRequired": {name: ["z"] for name in "abcde"}}, "#/dependentRequired", "anyOf"),
        ({"allOf": [{"dependentRequired": {"a": ["b"]}}, {}]}, "#/allOf/0/dependentRequired", "anyOf"),
        ({"dependencies": {"a": {"required": ["b"]}}}, "#/dependencies", "anyOf"),
        ({"unevaluatedProperties": False, "allOf": [{}]}, "#/unevaluatedProperties", "additionalProperties"),
        ({"unevaluatedItems": False, "anyOf": [{}]}, "#/unevaluatedItems", "items"),
        ({"type": "integer", "maximum": BIG}, "#/maximum", str(BIG)),
        ({"type": "integer", "minimum": 2**63}, "#/minimum", str(2**63)),
        ({"type": "integer", "exclusiveMaximum": 2**62}, "#/exclusiveMaximum", str(2**62)),
        ({"type": "number", "maximum": 2**63 - 1}, "#/maximum", str(2**63 - 1)),
        ({"type": ["number", "integer"], "maximum": 2**63 - 1}, "#/maximum", str(2**63 - 1)),
        ({"properties": {"a/b": {"contains": {}}}}, "#/properties/a~1b/contains", "prefixItems"),
        ({"type": "nonsense"}, "#/type", "string"),
        ({"type": []}, "#/type", "one or several"),
        ({"type": ["string", 5]}, "#/type", "string"),
        ({"enum": []}, "#/enum", "at least one"),
        ({"enum": {"a": 1}}, "#/enum", "list"),
        ({"anyOf": []}, "#/anyOf", "at least one"),
        ({"properties": []}, "#/properties", "object"),
        ({"properties": {"a": 5}}, "#/properties/a", "schema"),
        ({"required": "a"}, "#/required", "list"),
        ({"minLength": -1}, "#/minLength", "at least 0"),
        ({"minItems": 1.5}, "#/minItems", "integer"),
        ({"minItems": True}, "#/minItems", "integer"),
        ({"items": {"maxItems": 10**9}}, "#/items/maxItems", "at most 1000"),
        ({"minimum": "1"}, "#/minimum", "number"),
        ({"exclusiveMinimum": True, "minimum": 1}, "#/exclusiveMinimum", "number"),
        ({"multipleOf": 0}, "#/multipleOf", "above 0"),
        ({"multipleOf": 99991}, "#/multipleOf", "digits"),
        ({"multipleOf": 10**6}, "#/multipleOf", "digits"),
        ({"multipleOf": 1234.567}, "#/multipleOf", "digits"),
        ({"allOf": [{"multipleOf": 997}, {"multipleOf": 9973}]}, "#/allOf/0/multipleOf", "combined"),
        ({"pattern": 5}, "#/pattern", "string"),
        ({"minProperties": 2}, "#/minProperties", "required"),
        ({"patternProperties": {"^a": {"type": "null"}}}, "#/patternProperties", "additionalProperties false"),
        ({"type": "object", "properties": {"a": {}}, "const": {"a": 1}}, "#/const", "beside other"),
        (False, "#/enum", "at least one"),
        ([], "#", "object"),
        ({"properties": {"x": False}, "required": ["x"], "type": "object"}, "#", "no answer"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_with_its_place(schema: Any, pointer: str, words: str) -> None:
    """And says how to fix it."""
    fault = refusal(schema)
    assert fault.pointer == pointer
    assert words in fault.what


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": False},
        {"then": {"type": "null"}},
        {"else": False},
        {"if": {"type": "null"}},
        {"minContains": 2},
        {"unevaluatedProperties": {}},
        {"dependentRequired": {}},
        {"not": False},
        {"additionalItems": False},
        {"format": "uuid", "$schema": "https://json-schema.org/draft/2020-12/schema"},
    ],
    ids=json.dumps,
)
def test_what_asks_for_nothing_is_no_reason(schema: dict[str, Any]) -> None:
    """JSON Schema gives these no meaning, or one that every answer has."""
    written = engine_schema(schema, matches=never)
    assert written.whole() == {key: value for key, value in schema.items() if key == "format"}
    assert written.notes == ()


@pytest.mark.parametrize("name", ["url", "binary", "uint32", "password", "uri", "regex"])
def test_unknown_formats_are_notes(name: str) -> None:
    """Named, with their place."""
    written = engine_schema({"properties": {"u": {"type": "string", "format": name}}}, matches=never)
    assert written.schema["properties"]["u"] == {"type": "string"}
    assert written.notes == (f"format {name!r} is not enforced (#/properties/u)",)


def test_unknown_keywords_are_notes() -> None:
    """The options of the engine's library among them: ours are the last word."""
    written = engine_schema({"type": "string", "x-guidance": {"lenient": True}, "nullable": True}, matches=never)
    assert written.whole() == {"type": "string"}
    assert written.notes == (
        "unknown keyword 'x-guidance' is not enforced (#)",
        "unknown keyword 'nullable' is not enforced (#)",
    )
    many = engine_schema({f"x{number}": 1 for number in range(5000)}, matches=never).notes
    assert len(many) == 21
    assert many[-1] == "4980 more of this kind"


NODE = {"type": "object", "properties": {"k": {"$ref": "#/$defs/n"}}, "required": ["k"]}


def test_a_schema_without_a_finite_answer_is_refused() -> None:
    """Where all that it requires contains itself, by whatever way."""
    for schema in (
        {"$ref": "#/$defs/n", "$defs": {"n": NODE}},
        {"$ref": "#"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#/$defs/n"}, {"allOf": [{"$ref": "#/$defs/n"}]}], "$defs": {"n": NODE}},
        {"prefixItems": [{"$ref": "#"}], "minItems": 1, "type": "array"},
    ):
        assert "no answer" in refusal(schema).what


def test_endless_parts_of_a_finite_schema_are_left_out() -> None:
    """An answer that enters one could not end. The others stay."""
    tree = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        "required": ["next"],
    }
    assert whole(tree)["$defs"]["d0"]["properties"]["next"]["anyOf"][1] == {"$ref": "#/$defs/d0"}
    schema = {"properties": {"a": {"type": "null"}, "b": {"$ref": "#/$defs/n"}}, "$defs": {"n": NODE}}
    assert whole(schema)["properties"] == {"a": {"type": "null"}, "b": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a{400}){400}$"},
        {"type": "string", "pattern": "^(x{1000}){1000}$"},
        {"type": "string", "minLength": 20_000},
        {"const": "x" * 17_000},
        {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000, "items": {"type": "integer"}}},
        {"properties": {"a": {"type": "string", "pattern": "^(ab){9000}$"}}, "required": ["a"], "type": "object"},
    ],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_a_schema_whose_shortest_answer_is_too_long_is_refused(schema: dict[str, Any]) -> None:
    """By its size."""
    assert "requires answers of at least" in refusal(schema).what


def test_deep_nesting_is_no_crash() -> None:
    """Requests are not nested so deeply; references could be."""
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"items": deep}
    assert "deeply" in refusal(deep).what
    chain = {f"d{number}": {"items": {"$ref": f"#/$defs/d{number + 1}"}} for number in range(1_500)}
    assert whole({"$ref": "#/$defs/d0", "$defs": {**chain, "d1500": {}}})["$ref"] == "#/$defs/d0"


def test_named_properties_have_the_schema_of_their_pattern_too() -> None:
    """The engine forgets it."""
    schema = {
        "properties": {"ab": {}, "c": {}},
        "patternProperties": {"^a": {"type": "null"}},
        "additionalProperties": False,
    }
    written = engine_schema(schema, matches=lambda pattern, name: name.startswith(pattern[1:]))
    assert written.schema["properties"] == {"ab": {"allOf": [{}, {"type": "null"}]}, "c": {}}


MOST = 2**63 - 1024


@pytest.mark.parametrize(
    ("bounds", "wanted", "noted"),
    [
        ({"minimum": -(2**63), "maximum": 2**63 - 1}, {"minimum": -MOST, "maximum": MOST}, 2),
        ({"minimum": 0, "maximum": 2**64 - 1}, {"minimum": 0, "maximum": MOST}, 1),
        ({"exclusiveMinimum": -1e300, "exclusiveMaximum": 2.0**63}, {"minimum": -MOST, "maximum": MOST}, 2),
        ({"minimum": 1, "exclusiveMaximum": 2**63, "maximum": 5}, {"minimum": 1, "maximum": 5}, 1),
        ({"maximum": 5, "exclusiveMaximum": 2**63, "minimum": 1}, {"minimum": 1, "maximum": 5}, 1),
        ({"exclusiveMaximum": 2**63, "maximum": 2**62, "minimum": 1}, {"minimum": 1, "maximum": 2**62}, 1),
        ({"minimum": -(10**18), "maximum": 2**60}, {"minimum": -(10**18), "maximum": 2**60}, 0),
        ({"minimum": -MOST, "maximum": MOST}, {"minimum": -MOST, "maximum": MOST}, 0),
    ],
)
def test_bounds_of_integers_of_64_bits_are_held(bounds: dict[str, Any], wanted: dict[str, Any], noted: int) -> None:
    """Those beyond 64 bits become the largest and smallest that the engine holds, and that is noted; those that are
    doubles are exact."""
    for kind in ("integer", ["integer", "null"]):
        written = engine_schema({"properties": {"n": {"type": kind, **bounds}}}, matches=never)
        assert written.schema["properties"]["n"] == {"type": kind, **wanted}
        assert len(written.notes) == noted
        assert all("is enforced as m" in note and note.endswith(" (#/properties/n)") for note in written.notes)
