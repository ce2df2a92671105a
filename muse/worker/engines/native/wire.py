"""The lines of upstream's worker as records: contracts/worker-protocol.md sections 2 to 5, 8 and 14. No I/O.

Unknown fields are ignored, as upstream does; a known one of a wrong type means that the program cannot be trusted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

import attrs

from muse.protocol import PatchLevel

CANCEL_LINE: Final = b'{"op":"cancel"}\n'
"""Of our patch only. Any other worker takes it for a request and answers with an error line."""

_Kind = TypeVar("_Kind", str, int)
Op = Literal["open", "close", "reset"]
_DONE_WORDS: Final[dict[Op, str]] = {"open": "opened", "close": "closed", "reset": "reset"}


class Broken(ValueError):
    """A line that the contract does not know; the message says what is wrong, without the line's text."""


@attrs.frozen(kw_only=True)
class NativeReady:
    """The first line. max_named_sessions: how many conversations it holds besides the nameless one."""

    max_sessions: int
    max_named_sessions: int
    supports_image: bool
    patch_level: PatchLevel


@attrs.frozen
class TokenLine:
    """Newly generated text."""

    text: str


@attrs.frozen(kw_only=True)
class Terminal:
    """The end of a generation. ids: exactly what was made resident, None after a stop string or a foreign cancel."""

    prompt_tokens: int
    completion_tokens: int
    finish_reason: Literal["stop", "length"]
    reused_prompt_tokens: int
    prefilled_prompt_tokens: int
    ids: tuple[int, ...] | None
    prefill_ms: float
    decode_ms: float
    total_ms: float
    prefill_tok_s: float
    decode_tok_s: float
    vision_encoder_ms: float | None
    cancelled: bool


@attrs.frozen(kw_only=True)
class ErrorLine:
    """A request or a session command failed."""

    message: str
    code: str | None
    session_id: str | None


@attrs.frozen(kw_only=True)
class OpDone:
    """A session command is done."""

    op: Op
    session_id: str


Line = TokenLine | Terminal | ErrorLine | OpDone


def parse_ready(line: bytes) -> NativeReady:
    """The first line. Raises Broken."""
    value = _object(line)
    if value.get("ready") is not True:
        raise Broken("it is no ready line")
    if value.get("multiplexed"):
        raise Broken("it speaks a later protocol, with several requests at a time, which this version cannot speak")
    level: PatchLevel = "unpatched"
    if value.get("supports_cancel_op") is True:
        level = "cancel_op"
    elif value.get("supports_cancel") is True:
        level = "control_pipe"
    return NativeReady(
        max_sessions=_field(value, "max_sessions", int),
        max_named_sessions=_field(value, "max_named_sessions", int),
        supports_image=value.get("supports_image") is True,
        patch_level=level,
    )


def parse_line(line: bytes) -> Line:
    """Any later line. Raises Broken."""
    value = _object(line)
    if "token" in value:
        return TokenLine(_field(value, "token", str))
    if "error" in value:
        code, session_id = value.get("code"), value.get("session_id")
        return ErrorLine(
            message=_field(value, "error", str),
            code=code if isinstance(code, str) else None,
            session_id=session_id if isinstance(session_id, str) else None,
        )
    for op, word in _DONE_WORDS.items():
        if value.get(word) is True:
            return OpDone(op=op, session_id=_field(value, "session_id", str))
    if value.get("done") is True:
        return _terminal(value)
    raise Broken("it is none of the lines that such a worker writes")


def _terminal(value: dict[str, Any]) -> Terminal:
    reason = _field(value, "finish_reason", str)
    if reason not in ("stop", "length"):
        raise Broken(f"finish_reason is {reason[:40]!r}")
    ids: list[Any] | None = value.get("generated_token_ids")
    if ids is not None and (type(ids) is not list or any(type(token) is not int for token in ids)):
        raise Broken("generated_token_ids is no list of numbers")
    numbers = {
        name: _number(value, name) for name in ("prefill_ms", "decode_ms", "total_ms", "prefill_tok_s", "decode_tok_s")
    }
    return Terminal(
        prompt_tokens=_field(value, "prompt_tokens", int),
        completion_tokens=_field(value, "completion_tokens", int),
        finish_reason="stop" if reason == "stop" else "length",
        reused_prompt_tokens=_field(value, "reused_prompt_tokens", int),
        prefilled_prompt_tokens=_field(value, "prefilled_prompt_tokens", int),
        ids=None if ids is None else tuple(ids),
        vision_encoder_ms=_number(value, "vision_encoder_ms") if "vision_encoder_ms" in value else None,
        cancelled=value.get("cancelled") is True,
        **numbers,
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise Broken("it is not JSON") from fault
    if not isinstance(value, dict):
        raise Broken("it is no JSON object")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON


def _field(value: dict[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    found: Any = value.get(name)
    if type(found) is not kind:
        raise Broken(f"{name} is no {kind.__name__}")
    return found


def _number(value: dict[str, Any], name: str) -> float:
    """0 where it is missing, or null, which is how the program writes what is no number."""
    found: Any = value.get(name)
    if found is not None and type(found) not in (int, float):
        raise Broken(f"{name} is no number")
    return float(found or 0)


# ---------------------------------------------------------------- to the worker


def ids_segment(ids: Sequence[int]) -> dict[str, Any]:
    """Token ids of a prompt, taken as they are."""
    return {"ids": list(ids)}


def image_segment(base64_png: str) -> dict[str, Any]:
    """The one picture of a prompt."""
    return {"image": {"encoding": "base64", "mime_type": "image/png", "data": base64_png}}


def request_line(fields: dict[str, Any]) -> bytes:
    """A generation."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def op_line(op: Op, session_id: str) -> bytes:
    """A session command."""
    return request_line({"op": op, "session_id": session_id})


def cancel_bytes(cancel_id: int) -> bytes:
    """What cancels a request by the control pipe: its `cancel_request_id`, 8 bytes, little-endian."""
    return struct.pack("<Q", cancel_id)
