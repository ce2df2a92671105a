"""Whether an answer can be held to a schema: what the engines' libraries and walks through their grammars find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.errors import ClientFault
from muse.structured import check
from muse.structured.check import fault_of, matches, written
from muse.structured.faults import SchemaFault
from muse.structured.forms import AskedSchema, encode_asked
from muse.structured.grammar_readers import LlamaCppReader, PythonReader, has_llama_cpp
from muse.structured.jobs import held_form
from muse.structured.keywords import FORMATS
from muse.structured.walk import DeadEnd, walk
from muse.worker.json_form import grammar_text

BIG = 1234567890123456789
NOTHING = {"type": "integer", "minimum": 2, "maximum": 1}


def refusal(schema: Any) -> SchemaFault:
    with pytest.raises(SchemaFault) as caught:
        written(schema)
    return caught.value


def test_the_library_inside_llama_cpp_is_asked() -> None:
    """Not only Python's, which is another version: the check must be that of the engine."""
    assert has_llama_cpp()
    grammar = grammar_text('{"const":"ab"}')
    for reader in (LlamaCppReader(grammar), PythonReader(grammar)):
        said = bytearray()
        while (allowed := reader.allowed()) != [256]:
            assert len(allowed) == 1
            reader.take(allowed[0])
            said.append(allowed[0])
        assert bytes(said) == b'"ab"'
        reader.restart()
        assert reader.allowed() == [ord('"')]


@pytest.mark.parametrize("name", FORMATS)
def test_every_engine_knows_the_formats(name: str) -> None:
    """Those that are enforced."""
    grammar = grammar_text(json.dumps({"type": "string", "format": name}))
    assert (LlamaCppReader(grammar).error(), PythonReader(grammar).error()) == ("", "")
    assert not PythonReader(grammar).reads(b'"?"')


@pytest.mark.parametrize("kind", [5, True, 1.5, None, {}, ["integer", 5], "integr"])
@pytest.mark.parametrize("place", ["root", "member"])
def test_a_wrong_type_is_refused_with_its_place(kind: object, place: str) -> None:
    """Whatever stands there."""
    wrong = {"type": kind, "maximum": 2**60}
    refused = refusal(wrong if place == "root" else {"type": "object", "properties": {"a": wrong}})
    assert ("" if place == "root" else "/properties/a") in str(refused.pointer)


def test_options_of_a_schema_do_not_replace_ours() -> None:
    """Also where the worker gets one with options."""
    lenient = '{"type":"array","items":{"type":"integer"},"x-guidance":{"lenient":true,"whitespace_flexible":true}}'
    assert not PythonReader(grammar_text(lenient)).reads(b"[1, 2]")
    assert PythonReader(grammar_text(lenient)).reads(b"[1,2]")


@pytest.mark.parametrize(
    ("schema", "pointer", "words"),
    [
        ({"type": "string", "pattern": "(((("}, "#", "cannot read a pattern"),
        ({"items": {"properties": {"a": {"pattern": "^(?=a)b"}}}}, "#/items/properties/a", "look-around"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "#", "incompatible types"),
        ({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": NOTHING}, "required": ["b"]}},
          "required": ["a"]}, "#/properties/a/properties/b", ""),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/a", "minLength": 5}}, "required": ["x"],
          "$defs": {"a": {"type": "string", "maxLength": 3}}}, "#/properties/x", ""),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#", "anyOf"),
        ({"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string", "maxLength": 4}},
          "required": ["n", "t"], "patternProperties": {"^(n|t)$": {}}, "additionalProperties": False},
         "#", "cannot go on after"),
        ({"properties": {f"p{n}": {} for n in range(600)}, "additionalProperties": False}, "#", "too large"),
        ({"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(1500)}}, "#", "too large"),
        ({"type": "integer", "multipleOf": 9973, "minimum": 1}, "#", "too large"),
    ],
)  # fmt: skip
def test_what_the_engine_would_meet_is_found_before(schema: dict[str, Any], pointer: str, words: str) -> None:
    """With the smallest part that has the fault."""
    fault = refusal(schema)
    assert fault.pointer == pointer
    assert words in fault.what


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"const": {"minItems": 5000}}, {"minItems": 5000}),
        ({"enum": [f"word{n * 7919 % 1_000_003:06}" for n in range(4300)]}, "word007919"),
        ({"type": "string", "pattern": r"^<[|]im_end\x7c>$"}, "<|im_end|>"),
        ({"type": "string", "pattern": "^[α-ω]{2}\\d$"}, "αω5"),
        ({"type": "string", "pattern": "a*b{3}[c-z]*$"}, "bbbz"),
        ({"$id": "https://t.test/s", "$ref": "#/$defs/s", "$defs": {"s": {"type": "integer"}}}, 5),
        ({"properties": {"a": {}, "b": {}}, "minProperties": 1, "additionalProperties": False}, {"b": 1}),
        ({"properties": {"ab": {"type": "string"}}, "patternProperties": {"^a": {"maxLength": 1}}, "required": ["ab"],
          "additionalProperties": False, "type": "object"}, {"ab": "x", "ac": "y"}),
        ({"properties": {f"p{n}": {"type": "integer"} for n in range(300)}}, {"p0": 1, "p299": 2, "q": []}),
        ({"type": "object", "properties": {"n": {"$ref": "#"}, "v": {"enum": [-0.0, 0.1, 2**53]}}, "required": ["v"]},
         {"n": {"v": 0.1}, "v": 9007199254740992}),
        ({"type": "number", "multipleOf": 0.01, "minimum": 1, "maximum": 9.99}, 8.2),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "a"),
        (True, {"any": [None, {"thing": 1.5e-3}]}),
    ],
    ids=lambda value: json.dumps(value)[:50],
)  # fmt: skip
def test_what_can_be_followed_is_taken(schema: Any, answer: Any) -> None:
    """And the grammars read the answer."""
    grammar = grammar_text(json.dumps(written(schema).whole()))
    letters = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
    assert PythonReader(grammar).reads(letters)
    reader = LlamaCppReader(grammar)
    for letter in letters:
        assert letter in reader.allowed()
        reader.take(letter)
    assert 256 in reader.allowed()


@pytest.mark.parametrize(
    ("schema", "letters"),
    [
        ({"properties": {"a": {"type": "string"}}}, b'{"\\u0061":1}'),
        ({"properties": {"a/b": {"type": "string"}}}, b'{"a\\/b":1}'),
        ({"type": "object", "required": ["a"], "properties": {"a": False}, "anyOf": [{"type": "null"}]}, b"{}"),
        ({"const": 1}, b"2"),
        ({"type": "object", "properties": {"ab": {"type": "string"}}, "patternProperties": {"^a": {"maxLength": 1}},
          "additionalProperties": False}, b'{"ab":"xy"}'),
    ],
)  # fmt: skip
def test_what_breaks_a_schema_is_in_no_grammar(schema: dict[str, Any], letters: bytes) -> None:
    """Names by escapes among it: read, they would be names of properties."""
    try:
        grammar = grammar_text(json.dumps(written(schema).whole()))
    except SchemaFault:
        return
    assert not PythonReader(grammar).reads(letters)
    reader = LlamaCppReader(grammar)
    for letter in letters:
        if letter not in reader.allowed():
            return
        reader.take(letter)
    assert 256 not in reader.allowed()


def test_an_answer_that_breaks_the_client_s_schema_is_a_reason() -> None:
    """Where the engine's grammar has one, whatever the reason: it is compared with a validator."""
    assert "minimum forbids it" in (fault_of({"type": "integer"}, original={"type": "integer", "minimum": 10**6}) or "")
    assert fault_of({"type": "integer", "minimum": 5}, original={"type": "integer", "minimum": 5}) is None


def test_libraries_that_disagree_are_a_reason() -> None:
    """The one reads each answer in the end that the other made."""
    schema = {"properties": {"ab": {"const": 1}}, "required": ["ab"], "patternProperties": {"^a": {"type": "string"}}}
    reader = LlamaCppReader(grammar_text(json.dumps({"type": "object", **schema})))
    if reader.error():
        pytest.fail("llama.cpp's library has learned this: find another difference")
    assert fault_of({"type": "object", **schema}) is not None


def test_patterns_are_matched_as_the_engine_does() -> None:
    """Unanchored, and without Python's backtracking."""
    assert matches("b", "abc")
    assert not matches("^b", "abc")
    assert matches("^(a+)+$", "a" * 60)
    assert not matches("^(a+)+$", "a" * 60 + "b")


def test_walks_are_the_same_each_time() -> None:
    """A verdict does not change by chance."""
    grammar = grammar_text('{"type":"object","properties":{"a":{"type":"array"}}}')
    first, second = ([walk(PythonReader(grammar), number) for number in range(12)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 5
    with pytest.raises(DeadEnd) as caught:
        walk(PythonReader(grammar_text('{"type":"string","pattern":"^(a{1,9999}){900,9999}$"}')), 0)
    assert caught.value.reason


def test_a_slow_grammar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine would take as long, and others with it."""
    monkeypatch.setattr(check, "COMPILE_S", 0.0)
    assert "too long" in refusal({"type": "string"}).what


# ---------------------------------------------------------------- forms


def tool(parameters: dict[str, Any], name: str = "f", index: int = 2) -> AskedSchema:
    return AskedSchema(param=f"tools[{index}].function.parameters", text=json.dumps(parameters), tool=name)


def call_reads(asked: tuple[AskedSchema, ...], call: dict[str, Any]) -> bool:
    grammar = grammar_text(held_form(asked).schema)
    return PythonReader(grammar).reads(json.dumps(call, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "parameters",
    [{"type": "object", "properties": {}}, {"type": "object"}, {"type": "object", "title": "x", "properties": {}}],
    ids=json.dumps,
)
def test_a_function_without_parameters_gets_none(parameters: dict[str, Any]) -> None:
    """A model that may make some up would not stop."""
    assert call_reads((tool(parameters),), {"name": "f", "arguments": {}})
    assert not call_reads((tool(parameters),), {"name": "f", "arguments": {"a": 1}})


def test_a_function_may_take_anything() -> None:
    """If it says so."""
    asked = (tool({"type": "object", "properties": {}, "additionalProperties": True}),)
    assert call_reads(asked, {"name": "f", "arguments": {"a": 1}})


def test_schemas_of_tools_keep_their_references() -> None:
    """Each its own, also where several have the same names; data stays data."""
    first = {"$id": "https://t.test/s", "type": "object", "properties": {"a": {"$ref": "#/$defs/s"}},
             "$defs": {"s": {"const": {"$ref": "#/x"}}}, "required": ["a"]}  # fmt: skip
    second = {"type": "object", "properties": {"$ref": {"$ref": "#t"}}, "required": ["$ref"],
              "$defs": {"s": {"$anchor": "t", "type": "integer"}}}  # fmt: skip
    asked = (tool(first, "one"), tool(second, "two"))
    assert call_reads(asked, {"name": "one", "arguments": {"a": {"$ref": "#/x"}}})
    assert call_reads(asked, {"name": "two", "arguments": {"$ref": 5}})
    assert not call_reads(asked, {"name": "two", "arguments": {"a": {"$ref": "#/x"}}})


def test_faults_name_the_tool_and_the_place() -> None:
    """By the request's field, the function's name, and the pointer in its schema."""
    bad = {"type": "object", "properties": {"id": {"maximum": BIG}}}
    with pytest.raises(ClientFault) as caught:
        held_form((tool({"type": "object"}, "ok", 0), tool(bad, "count.up", 3)))
    fault = caught.value
    assert (fault.code, fault.status, fault.param) == ("invalid_schema", 400, "tools[3].function.parameters")
    assert all(words in fault.detail for words in ("'count.up'", "#/properties/id/maximum", str(BIG)))


def test_notes_name_their_tool() -> None:
    """For the metrics."""
    asked = (tool({"type": "object", "properties": {"u": {"type": "string", "format": "url"}}}),)
    assert held_form(asked).notes == ("f: format 'url' is not enforced (#/properties/u)",)
    assert len(encode_asked(asked)) > 0
