"""The lines of upstream's worker as records: contracts/worker-protocol.md sections 2 to 5, 8 and 14. No I/O.

Unknown fields are ignored, as upstream does; a known one of a wrong type means that the program cannot be trusted.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs

from muse.protocol import PatchLevel

CANCEL_LINE: Final = b'{"op":"cancel"}\n'
"""Of our patch only. Any other worker takes it for a request and answers with an error line."""

# Every count is a signed number of 64 bits to the worker.
_MOST_COUNT: Final = 2**63 - 1

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
        max_sessions=_count(value, "max_sessions"),
        max_named_sessions=_count(value, "max_named_sessions"),
        supports_image=value.get("supports_image") is True,
        patch_level=level,
    )


def parse_line(line: bytes) -> Line:
    """Any later line. Raises Broken."""
    value = _object(line)
    if "token" in value:
        return TokenLine(_text(value, "token"))
    if "error" in value:
        code, session_id = value.get("code"), value.get("session_id")
        return ErrorLine(
            message=_text(value, "error"),
            code=code if isinstance(code, str) else None,
            session_id=session_id if isinstance(session_id, str) else None,
        )
    for op, word in _DONE_WORDS.items():
        if value.get(word) is True:
            return OpDone(op=op, session_id=_text(value, "session_id"))
    if value.get("done") is True:
        return _terminal(value)
    raise Broken("it is none of the lines that such a worker writes")


def _terminal(value: dict[str, Any]) -> Terminal:
    reason = _text(value, "finish_reason")
    if reason not in ("stop", "length"):
        raise Broken(f"finish_reason is {reason[:40]!r}")
    ids: list[Any] | None = value.get("generated_token_ids")
    if ids is not None and (type(ids) is not list or any(type(token) is not int or token < 0 for token in ids)):
        raise Broken("generated_token_ids is no list of token ids")
    completion_tokens = _count(value, "completion_tokens")
    if ids is not None and len(ids) != completion_tokens:
        raise Broken(f"generated_token_ids are {len(ids)}, and completion_tokens is {completion_tokens}")
    numbers = {
        name: _number(value, name) for name in ("prefill_ms", "decode_ms", "total_ms", "prefill_tok_s", "decode_tok_s")
    }
    return Terminal(
        prompt_tokens=_count(value, "prompt_tokens"),
        completion_tokens=completion_tokens,
        finish_reason="stop" if reason == "stop" else "length",
        reused_prompt_tokens=_count(value, "reused_prompt_tokens"),
        prefilled_prompt_tokens=_count(value, "prefilled_prompt_tokens"),
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


def _text(value: dict[str, Any], name: str) -> str:
    found: Any = value.get(name)
    if type(found) is not str:
        raise Broken(f"{name} is no text")
    return found


def _count(value: dict[str, Any], name: str) -> int:
    found: Any = value.get(name)
    if type(found) is not int or not 0 <= found <= _MOST_COUNT:
        raise Broken(f"{name} is no count")
    return found


def _number(value: dict[str, Any], name: str) -> float:
    """0 where it is missing, or null, which is how the program writes what is no number."""
    found: Any = value.get(name)
    if found is None:
        return 0.0
    try:
        if type(found) in (int, float) and math.isfinite(found):
            return float(found)
    except OverflowError as fault:
        raise Broken(f"{name} is too large") from fault
    raise Broken(f"{name} is no number")


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
