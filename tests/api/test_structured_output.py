"""Structured output through the whole server: what is held, what is refused before any text, and what is noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server_process import ServerProcess

pytestmark = pytest.mark.thorough

BIG = 1234567890123456789
NODE = {"type": "object", "properties": {"k": {"$ref": "#/$defs/n"}}, "required": ["k"], "additionalProperties": False}
ID = {"type": "object", "required": ["id"], "additionalProperties": False}
FORM = "response_format.json_schema.schema"
PARAMETERS = "tools[1].function.parameters"


def with_form(schema: dict[str, Any], **fields: Any) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return {"messages": [{"role": "user", "content": "hi"}], "response_format": form, "max_tokens": 300, **fields}


def with_call(parameters: object, **fields: Any) -> dict[str, Any]:
    """The second of two tools is asked for."""
    tools = [
        {"type": "function", "function": {"name": "other", "parameters": {"$ref": "#/nowhere"}}},
        {"type": "function", "function": {"name": "wanted", "parameters": parameters}},
    ]
    chosen = {"type": "function", "function": {"name": "wanted"}}
    message = {"role": "user", "content": "hi"}
    return {"messages": [message], "tools": tools, "tool_choice": chosen, "max_tokens": 300, **fields}


def answered(server: ServerProcess, body: dict[str, Any]) -> dict[str, Any]:
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({**ID, "properties": {"id": {"enum": [BIG, BIG + 1]}}}, f"#/properties/id/enum/0: is {BIG}"),
        ({**ID, "properties": {"id": {"const": BIG}}}, str(BIG)),
        ({**ID, "properties": {"id": {"type": "integer", "minimum": BIG}}}, str(BIG)),
        ({**ID, "properties": {"id": {"type": "integer", "maximum": BIG}}}, str(BIG)),
        ({"type": "object", "$defs": {"n": NODE}, "$ref": "#/$defs/n"}, "no answer"),
        ({**ID, "properties": {"id": {"type": "string", "pattern": "^(a{400}){400}$"}}}, "160"),
        ({**ID, "properties": {"id": {"type": "string", "pattern": "^(x{1000}){1000}$"}}}, "answers of at least"),
        ({"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(600)}}, "too large"),
        ({**ID, "properties": {"id": {"items": {"enum": [1]}, "uniqueItems": True}}, "x-guidance": {"lenient": True}},
         "#/properties/id/uniqueItems"),
        ({**ID, "properties": {"id": {"type": "integer", "multipleOf": 99991}}}, "#/properties/id/multipleOf"),
        ({**ID, "properties": {"id": {"allOf": [{"multipleOf": 97}, {"multipleOf": 89}, {"multipleOf": 83}]}}},
         "2 s"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_held_is_refused_before_any_text(
    nano_server: ServerProcess, schema: dict[str, Any], words: str, stream: bool
) -> None:
    """As a response format and as the parameters of a forced call, with the field, and of a tool the name."""
    for body, param in ((with_form(schema, stream=stream), FORM), (with_call(schema, stream=stream), PARAMETERS)):
        refused = nano_server.post("/v1/chat/completions", body)
        assert refused.status_code == 400, refused.text
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("invalid_schema", param)
        assert words in error["message"]
        assert ("'wanted'" in error["message"]) == (param == PARAMETERS)
    assert nano_server.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": {"minItems": 5000}}, {"minItems": 5000}),
        ({"type": "string", "pattern": "^<[|]start\\x7c>$"}, "<|start|>"),
        ({"enum": ["<|eot|><|message|>"]}, "<|eot|><|message|>"),
        ({"const": [-0.5, 2**53, "🎉", None, {"$ref": "#/x"}]}, [-0.5, 2**53, "🎉", None, {"$ref": "#/x"}]),
        ({"$id": "https://t.test/s", "$ref": "#s", "$defs": {"s": {"$anchor": "s", "const": "there"}}}, "there"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_what_is_demanded_comes(nano_server: ServerProcess, schema: dict[str, Any], value: object) -> None:
    """To the letter, as an answer and as an argument; also what spells a control token."""
    whole = answered(nano_server, with_form(schema))
    assert json.loads(whole["choices"][0]["message"]["content"]) == value
    parameters = {
        "type": "object",
        "properties": {"v": {"$id": "urn:v", **schema}},
        "required": ["v"],
        "additionalProperties": False,
    }
    called = answered(nano_server, with_call(parameters))["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (called["name"], json.loads(called["arguments"])) == ("wanted", {"v": value})


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_function_without_parameters_is_called_with_none(nano_server: ServerProcess, parameters: object) -> None:
    """Nothing is made up."""
    (call,) = answered(nano_server, with_call(parameters))["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == "{}"


def test_what_restricts_nothing_is_noted(nano_server: ServerProcess) -> None:
    """Unknown formats and keywords are in the metrics, with their place."""
    schema = {**ID, "properties": {"id": {"enum": ["a"], "format": "uint32"}}, "x-guidance": {"lenient": True}}
    metrics = answered(nano_server, with_form(schema))["muse_metrics"]
    assert "format 'uint32' is not enforced (#/properties/id)" in metrics["schema_notes"]
    assert "'x-guidance'" in metrics["schema_notes"]
    assert answered(nano_server, with_form({"const": 1}))["muse_metrics"]["schema_notes"] is None
