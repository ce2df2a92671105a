"""`response_format` becomes a JSON schema, or a fault with the path of what is wrong."""

from __future__ import annotations

import json

import pytest

from tests.unit.chat_bodies import parse, refuse, refuse_field

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA, "description": "d", "strict": None}}, SCHEMA),
    ],
)
def test_a_response_format_becomes_a_schema(value: object, schema: object) -> None:
    """OpenAI's three types."""
    given = parse(response_format=value).json_schema
    assert (None if given is None else json.loads(given)) == schema


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json", "response_format"),
        ({}, "response_format.type"),
        ({"type": "grammar"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": True}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}, "response_format.json_schema.strict"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "name": 1}}, "response_format.json_schema.name"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "x": 1}}, "response_format.json_schema.x"),
        ({"type": "json_object", "schema": {}}, "response_format.schema"),
        ({"type": "json_object", "json_schema": {}}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"schema": {"const": "x" * 70_000}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_wrong_response_format_is_named(value: object, param: str) -> None:
    """The path of what is wrong."""
    assert refuse_field("response_format", value).param == param


def test_a_continued_reply_takes_no_other_form() -> None:
    """It has its own."""
    body = {"muse": {"continue": "chatcmpl-1"}, "response_format": {"type": "json_object"}}
    assert refuse(body).param == "response_format"
