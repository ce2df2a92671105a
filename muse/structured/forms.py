"""What a request asks its answer to be held to, and what came of it: the main process's side, without native code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import attrs

from muse.api.chat_request import ChatRequest
from muse.api.held_form import HeldForm
from muse.errors import ClientFault

MODULE: Final = "muse.structured.jobs"
"""That has the job."""
CHECK: Final = "check"
MAX_FORM_CHARS: Final = 256 * 1024
"""Of all schemas of one form together, as JSON."""
RESPONSE: Final = "response_format.json_schema.schema"
INVALID: Final = "invalid_schema"


@attrs.frozen(kw_only=True)
class AskedSchema:
    """One schema of a client. param: the request's field that it stands in. tool: whose parameters it describes."""

    param: str
    text: str
    tool: str | None = None


def asked_schemas(request: ChatRequest) -> tuple[AskedSchema, ...]:
    """What the answer must be one of: empty if it is free. Raises ClientFault for what is too large."""
    use = request.tool_use
    if not use.forced:
        return () if request.json_schema is None else (AskedSchema(param=RESPONSE, text=request.json_schema),)
    asked = tuple(
        AskedSchema(param=f"tools[{index}].function.parameters", text=tool.parameters, tool=tool.name)
        for index, tool in enumerate(use.tools)
        if tool.name in use.forced
    )
    size = sum(len(schema.text) for schema in asked)
    if size > MAX_FORM_CHARS:
        raise ClientFault(
            INVALID,
            f"The parameters of the tools that tool_choice allows have {size} characters of JSON in all, and at most "
            f"{MAX_FORM_CHARS} are supported. Name one function in tool_choice, or use smaller schemas.",
            param="tool_choice",
        )
    return asked


def refused(asked: AskedSchema, pointer: str, what: str) -> ClientFault:
    """The error for a schema. pointer: the place in it. what: a clause without a full stop."""
    owner = f" of tool {asked.tool!r}" if asked.tool is not None else ""
    place = "" if pointer == "#" else f", at {pointer}"
    return ClientFault(INVALID, f"The schema '{asked.param}'{owner}{place}: {what}.", param=asked.param)


def param_of(asked: Sequence[AskedSchema]) -> str:
    """The field to blame where it is not known which of several schemas is at fault."""
    return asked[0].param if len(asked) == 1 else "tool_choice"


def encode_asked(asked: Sequence[AskedSchema]) -> bytes:
    """The job's payload."""
    return json.dumps([attrs.asdict(schema) for schema in asked], ensure_ascii=False).encode()


def decode_asked(payload: bytes) -> tuple[AskedSchema, ...]:
    """What `encode_asked` wrote."""
    schemas: list[dict[str, Any]] = json.loads(payload)
    return tuple(AskedSchema(**schema) for schema in schemas)


def encode_held(held: HeldForm) -> bytes:
    """The job's result."""
    return json.dumps(attrs.asdict(held), ensure_ascii=False).encode()


def decode_held(result: bytes | bytearray) -> HeldForm:
    """What `encode_held` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    read: dict[str, Any] = json.loads(result)
    schema, notes = read["schema"], read["notes"]
    if not isinstance(schema, str) or not all(isinstance(note, str) for note in notes):
        raise ValueError("not a form of ours")
    return HeldForm(schema=schema, notes=tuple(notes))
