"""The job of the isolated process for structured output: asked schemas in, the form for the engine out.

A schema that cannot be followed is a ClientFault. What takes too long or too much memory, or crashes the libraries, the
main process sees from outside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from muse.api.held_form import HeldForm
from muse.structured.check import FEW_WALKS, fault_of, written
from muse.structured.engine_schema import EngineSchema
from muse.structured.faults import SchemaFault
from muse.structured.forms import CHECK, AskedSchema, decode_asked, encode_held, param_of, refused
from muse.structured.keywords import ANNOTATIONS


def held_form(asked: Sequence[AskedSchema]) -> HeldForm:
    """The form of an answer that follows one of the schemas; of tools, one call. Raises ClientFault."""
    parts: list[EngineSchema] = []
    for number, schema in enumerate(asked):
        try:
            parts.append(written(_closed(json.loads(schema.text), schema), prefix=f"s{number}_"))
        except SchemaFault as fault:
            raise refused(schema, fault.pointer, fault.what) from None
    whole: Any = _form(asked, parts)
    notes = tuple(
        f"{schema.tool}: {note}" if schema.tool else note
        for schema, part in zip(asked, parts, strict=True)
        for note in part.notes
    )
    if asked[0].tool is not None and (fault := fault_of(whole, walks=FEW_WALKS)):
        blamed = asked[0] if len(asked) == 1 else AskedSchema(param=param_of(asked), text="")
        raise refused(blamed, "#", fault)
    return HeldForm(schema=json.dumps(whole, ensure_ascii=False, separators=(",", ":")), notes=notes)


def _form(asked: Sequence[AskedSchema], parts: Sequence[EngineSchema]) -> dict[str, Any]:
    if asked[0].tool is None:
        return parts[0].whole()
    calls = [_call(schema.tool, part.schema) for schema, part in zip(asked, parts, strict=True)]
    whole: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
    definitions = {name: inner for part in parts for name, inner in part.definitions.items()}
    return {**whole, "$defs": definitions} if definitions else whole


def _call(name: str | None, arguments: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _closed(schema: Any, asked: AskedSchema) -> Any:
    """A function that declares no parameters gets none: a model that may write any would not stop."""
    declared = {key for key in schema if key not in ANNOTATIONS and (key, schema[key]) != ("properties", {})}
    if asked.tool is None or declared - {"type"}:
        return schema
    return {**schema, "additionalProperties": False}


def check(payload: bytes) -> bytes:
    """The job."""
    return encode_held(held_form(decode_asked(payload)))


# Before the first job, so that none pays for loading the libraries.
held_form((AskedSchema(param="", text='{"type":"object","properties":{"a":{"type":"string"}}}'),))

JOBS = {CHECK: check}
