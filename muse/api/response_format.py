"""`response_format`: the JSON that an answer must be, as a JSON Schema for the engine.

OpenAI's three types: `text` asks for nothing, `json_object` for any object, `json_schema` for what a schema
describes. `strict` changes nothing: a constrained answer always follows the schema, unless it is cut. What
the engine cannot enforce of JSON Schema is refused before the request is accepted (muse/structured).
"""

from __future__ import annotations

from typing import Final

from muse.api.fields import Offenders, invalid_value, member, read_bool, read_object, read_text
from muse.json_pieces import json_text

MAX_SCHEMA_CHARS: Final = 64 * 1024
"""Of the schema as JSON. A schema becomes a grammar inside the engine, which is a multiple of that."""

ANY_OBJECT: Final = '{"type":"object"}'
"""The schema of `json_object`."""
_PATH: Final = "response_format"
_SCHEMA_FIELDS: Final = ("name", "description", "schema", "strict")


def parse_response_format(value: object, offenders: Offenders) -> str | None:
    """The schema as JSON text; None when any text will do. Raises ClientFault."""
    fields = read_object(value, _PATH)
    kind = read_text(fields.get("type", ""), f"{_PATH}.type")
    if kind not in ("text", "json_object", "json_schema"):
        raise invalid_value(f"{_PATH}.type", "must be text, json_object or json_schema")
    for key in fields:
        if key != "type" and not (key == "json_schema" and kind == "json_schema"):
            offenders.add_unknown(member(_PATH, key))
    if kind != "json_schema":
        return ANY_OBJECT if kind == "json_object" else None
    path = f"{_PATH}.json_schema"
    described = {key: given for key, given in read_object(fields.get("json_schema"), path).items() if given is not None}
    for key in described:
        if key not in _SCHEMA_FIELDS:
            offenders.add_unknown(member(path, key))
    for key in ("name", "description"):
        if key in described:
            read_text(described[key], f"{path}.{key}")
    if "strict" in described:
        read_bool(described["strict"], f"{path}.strict")
    schema = json_text(read_object(described.get("schema"), f"{path}.schema"), most_chars=MAX_SCHEMA_CHARS)
    if schema is None:
        raise invalid_value(f"{path}.schema", f"must be at most {MAX_SCHEMA_CHARS} characters of JSON")
    return schema
