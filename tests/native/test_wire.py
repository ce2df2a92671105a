"""Lines of the program as records; what is none of them is said to be so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.worker.engines.native.wire import (
    Broken,
    ErrorLine,
    OpDone,
    Terminal,
    TokenLine,
    cancel_bytes,
    op_line,
    parse_line,
    parse_ready,
)

DONE = {
    "done": True,
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "finish_reason": "stop",
    "reused_prompt_tokens": 0,
    "prefilled_prompt_tokens": 5,
    "generated_token_ids": [1, 2],
}


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, "unpatched"),
        ({"supports_cancel_op": True}, "cancel_op"),
        ({"supports_cancel": True}, "control_pipe"),
        ({"supports_cancel": True, "supports_cancel_op": True}, "cancel_op"),
        ({"supports_cancel": False, "unknown": 1}, "unpatched"),
    ],
)
def test_the_ready_line_tells_how_to_cancel(fields: dict[str, object], level: str) -> None:
    """Unknown fields are ignored; a missing `supports_image` is that of the generic loop."""
    ready = parse_ready(line(ready=True, max_sessions=2, max_named_sessions=1, **fields))
    assert (ready.patch_level, ready.supports_image, ready.max_named_sessions) == (level, False, 1)


def test_each_kind_of_line_is_known() -> None:
    """With what may be missing."""
    assert parse_line(line(token="a")) == TokenLine("a")
    assert parse_line(line(error="e")) == ErrorLine(message="e", code=None, session_id=None)
    assert parse_line(line(error="e", code="c", session_id="s")) == ErrorLine(message="e", code="c", session_id="s")
    assert parse_line(line(opened=True, session_id="s")) == OpDone(op="open", session_id="s")
    assert parse_line(line(closed=True, session_id="s")) == OpDone(op="close", session_id="s")
    assert parse_line(line(reset=True, session_id="s")) == OpDone(op="reset", session_id="s")
    end = parse_line(line(**DONE, prefill_ms=1, decode_tok_s=None))
    assert isinstance(end, Terminal)
    assert (end.ids, end.prefill_ms, end.decode_tok_s, end.vision_encoder_ms, end.cancelled) == (
        (1, 2),
        1,
        0,
        None,
        False,
    )
    cut = parse_line(line(**{name: value for name, value in DONE.items() if name != "generated_token_ids"}))
    assert isinstance(cut, Terminal)
    assert cut.ids is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token": 1},
        {"error": None},
        {"opened": True},
        {"done": False},
        {"ready": True},
        {**DONE, "finish_reason": "cancelled"},
        {**DONE, "prompt_tokens": 5.0},
        {**DONE, "prompt_tokens": True},
        {**DONE, "generated_token_ids": [True]},
        {**DONE, "generated_token_ids": "12"},
        {**DONE, "generated_token_ids": [1, -2]},
        {**DONE, "generated_token_ids": [1]},
        {**DONE, "prompt_tokens": -1},
        {**DONE, "completion_tokens": 2**63},
        {**DONE, "prefill_ms": 10**400},
        {**DONE, "prefill_ms": float("inf")},
        {**DONE, "decode_tok_s": float("nan")},
        {**DONE, "total_ms": "1"},
    ],
)
def test_what_is_no_line_of_the_contract_is_broken(fields: dict[str, object]) -> None:
    """Also where one field alone is of another type."""
    with pytest.raises(Broken):
        parse_line(line(**fields))


@given(st.binary(max_size=40) | st.sampled_from([b"[" * 100_000, b"null", b"[]", b"1", b"\xff", b""]))
def test_any_bytes_are_a_line_or_broken(data: bytes) -> None:
    """Nothing else ever comes out."""
    with pytest.raises(Broken):
        parse_line(data)


def test_what_is_written_is_as_the_contract_says() -> None:
    """Lines of ASCII; ids of 8 bytes, little-endian."""
    assert op_line("reset", "é\u2028") == b'{"op":"reset","session_id":"\\u00e9\\u2028"}\n'
    assert cancel_bytes(258) == b"\x02\x01\0\0\0\0\0\0"
