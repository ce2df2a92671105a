"""Arguments of ATEM calls get the type that their schema allows, however it says so."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from muse.api.tools import Tool
from muse.chat.allowed_values import ANYTHING, SchemaReader, TooMuch, Work
from muse.chat.atem import AtemParser
from muse.chat.channel_types import FoundCall
from tests.unit.parser_runs import call, read
from tests.unit.test_chat_atem import block, invoke

STRINGS: Final[tuple[tuple[Any, dict[str, Any]], ...]] = (
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {}),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {}),
    ({"type": ["string", "null"]}, {}),
    ({"allOf": [{"type": "string"}]}, {}),
    ({"allOf": [{"type": ["string", "integer"]}, {"type": ["string", "boolean"]}]}, {}),
    ({"$ref": "#/$defs/s"}, {}),
    ({"$ref": "#/definitions/s"}, {"definitions": {"s": {"type": "string"}}}),
    ({"$ref": "#text"}, {}),
    ({"$ref": "https://t.test/s#/$defs/s"}, {"$id": "https://t.test/s"}),
    ({"$ref": "inner"}, {"$id": "https://t.test/s"}),
    ({"anyOf": [{"$ref": "#/$defs/s"}, {"type": "number"}]}, {}),
    ({"minLength": 1}, {}),
    ({"allOf": [{"anyOf": [{}, {"const": 5}]}, {"minLength": 1}]}, {}),
    ({"pattern": "^[0-9]+$"}, {}),
    ({"enum": ["90210", "true", "12", '{"a":1}', "null"]}, {}),
    ({"enum": [90210, "90210", True, "true", 12, "12", None, "null", {"a": 1}, '{"a":1}']}, {}),
)


@pytest.mark.parametrize("text", ["90210", "true", "12", '{"a":1}', "null"])
@pytest.mark.parametrize(("schema", "root"), STRINGS)
def test_where_a_string_is_allowed_the_text_is_it(schema: Any, root: dict[str, Any], text: str) -> None:
    """However the schema says so, and whatever the text looks like."""
    defs = {"s": {"type": "string", "$anchor": "text"}, "i": {"$id": "inner", "type": ["string", "null"]}}
    assert value_of(schema, text, {"$defs": defs, **root}) == text


def value_of(schema: Any, text: str, root: dict[str, Any] | None = None) -> Any:
    """What is made of an argument."""
    parameters = {"type": "object", "properties": {"v": schema}, **(root or {})}
    [found] = read(AtemParser([Tool(name="t", parameters=json.dumps(parameters))]), [block(invoke("t", v=text))])
    assert isinstance(found, FoundCall)
    return json.loads(found.arguments)["v"]


LOOP: Final = {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "integer"}]}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "True", True),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "yes", "yes"),
        ({"oneOf": [{"const": True}, {"const": False}]}, " FALSE ", False),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, " +7 ", 7),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": ["integer", "null"]}]}, "5", 5),
        ({"allOf": [{"type": ["integer", "string"]}, {"enum": [1, 2]}]}, "2", 2),
        ({"enum": [1, "a"]}, "1", 1),
        ({"enum": [1, "1"]}, "1", "1"),
        ({"enum": ["a", "b"]}, "\n a\n", "a"),
        ({"enum": ["a", "b"]}, "3", "3"),
        ({"enum": [1, 2]}, "3", "3"),
        ({"const": 1.0}, "1", 1),
        ({"const": True}, "1", "1"),
        ({"const": {"a": [1, None]}}, '{"a": [1.0, null]}', {"a": [1.0, None]}),
        ({"type": ["array", "object"]}, "5", "5"),
        ({"type": ["integer", "null"]}, "3.0", "3.0"),
        ({"type": "number"}, "12345678901234567890", 12345678901234567890),
        ({}, "True", "True"),
        (True, "5", 5),
        ({"$ref": "#/$defs/n"}, "5", 5),
        ({"$ref": "#/$defs/nowhere"}, "5", 5),
        ({"$ref": "https://elsewhere.test/x"}, "5", 5),
        ({"$ref": 5, "type": "string"}, "5", "5"),
        ({"type": "strange"}, "5", 5),
        ({"type": {"a": 1}, "enum": "x", "anyOf": 3}, "5", 5),
        ({"type": "array"}, "[" * 63 + "]" * 63, json.loads("[" * 63 + "]" * 63)),
        ({"type": "array"}, "[" * 64 + "]" * 64, "[" * 64 + "]" * 64),
    ],
)
def test_a_value_is_read_where_only_that_is_allowed(schema: Any, text: str, value: Any) -> None:
    """By the walk over its schema; what fits nothing stays the text, and so does what could not be sent back."""
    found = value_of(schema, text, {"$defs": LOOP})
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "root",
    [
        {"allOf": [{"properties": {"w": {"type": "string"}}}]},
        {"anyOf": [{"properties": {"w": {"type": "string"}}}, {"properties": {"w": {"type": "null"}}}]},
        {"$ref": "#/$defs/o"},
        {"additionalProperties": {"type": "string"}},
    ],
)
def test_a_property_is_found_wherever_the_schema_declares_it(root: dict[str, Any]) -> None:
    """Not only at its top."""
    parameters = {"type": "object", "$defs": {"o": {"properties": {"w": {"type": "string"}}}}, **root}
    [found] = read(AtemParser([Tool(name="t", parameters=json.dumps(parameters))]), [block(invoke("t", w="90210"))])
    assert found == call("t", w="90210")


@pytest.mark.parametrize("width", [2, 3])
def test_a_schema_that_grows_when_it_is_read_ends(width: int) -> None:
    """Each level refers several times to the next."""
    defs = {f"a{level}": {"anyOf": [{"$ref": f"#/$defs/a{level + 1}"}] * width} for level in range(40)}
    defs["a40"] = {"type": "string"}  # type: ignore[dict-item]
    assert value_of({"$ref": "#/$defs/a0"}, "5", {"$defs": defs}) == "5"


def test_many_names_of_a_large_schema_cost_no_more_than_one() -> None:
    """The model chooses the names, and may be asked for many. What they cost together is bounded; what is known by
    then stays known."""
    branches: list[Any] = [{"type": "string"}, *[{}] * 80_000]
    schema = {"type": "object", "properties": {"v": {"type": "string"}}, "additionalProperties": {"allOf": branches}}
    work = Work()
    reader = SchemaReader(Tool(name="t", parameters=json.dumps(schema)), work)
    assert reader.property("v").names_string
    assert all(reader.property(f"a{number}") == ANYTHING for number in range(100))
    with pytest.raises(TooMuch):
        work.spend(1)
    assert reader.property("v").names_string
    assert SchemaReader(Tool(name="u", parameters=json.dumps(schema)), work).property("v") == ANYTHING


def test_names_of_schemas_are_looked_for_in_small_ones_only() -> None:
    """To find them takes a second in the largest."""
    named = {"s": {"type": "string", "$anchor": "text"}}
    for others, is_found in ((10, True), (20_000, False)):
        parameters = {"type": "object", "properties": {"v": {"$ref": "#text"}}, "$defs": named, "anyOf": [{}] * others}
        reader = SchemaReader(Tool(name="t", parameters=json.dumps(parameters)))
        assert reader.property("v").names_string == is_found
