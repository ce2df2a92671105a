"""Invariant: any bytes give a value that can be written as JSON again, or a ClientFault; nothing else."""

from __future__ import annotations

import json
import math
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muse.errors import ClientFault
from muse.sizes import JSON_ESCAPES, JSON_VALUES, PIECE_CHARS
from muse.strict_json import decode_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=30,
)


def refused(data: bytes, **limits: int) -> ClientFault:
    with pytest.raises(ClientFault) as caught:
        decode_json(data, **limits)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")
    return caught.value


@given(VALUES, st.booleans())
def test_every_sane_value_comes_through_unchanged(value: object, escape: bool) -> None:
    """Escaped or not, with any text in it."""
    assert decode_json(json.dumps(value, ensure_ascii=escape).encode()) == value


@given(st.binary(max_size=200) | st.text('[]{}":,\\ud8Nan0123456789.eE+- \x00').map(str.encode))
@example(b'"\\ud83d\\ude00"')
@example(b"[" * 100)
@settings(max_examples=500)
def test_any_bytes_give_a_value_or_a_fault(data: bytes) -> None:
    """And what is given can be written out again."""
    try:
        value = decode_json(data)
    except ClientFault:
        return
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "data, message, param",
    [
        (b"", "The JSON body is empty.", None),
        (b" \n", "The JSON body is empty.", None),
        (b"\xef\xbb\xbf{}", "The JSON body begins with a byte order mark.", None),
        (b'{"a": "\xff"}', "The JSON body is not UTF-8 (byte 7).", None),
        (b'{"a": "\xed\xa0\x80"}', "The JSON body is not UTF-8 (byte 7).", None),
        (b'{"a": 1} x', "The JSON body is not valid: Extra data (line 1, column 10).", None),
        (b'{"a": 1,\n "b" 2}', "The JSON body is not valid: Expecting ':' delimiter (line 2, column 6).", None),
        (b"[NaN]", "[0] is NaN, which is not JSON.", "[0]"),
        (b'{"a": {"b c": [1, -Infinity]}}', 'a["b c"][1] is -Infinity, which is not JSON.', 'a["b c"][1]'),
        (b'{"a": 1e400}', "a is a number too large for a double.", "a"),
        (b'{"messages": [{"a": 1, "a": 2}]}', 'messages[0] has the key "a" twice.', "messages[0]"),
        (b'{"a": 1, "\\u0061": 2}', 'The JSON body has the key "a" twice.', None),
        (b'{"seed": ' + b"1" * 65 + b"}", "seed is a number of more than 64 digits.", "seed"),
        (b'["\\ud800"]', "[0] holds half of a surrogate pair, which is no character.", "[0]"),
        (b'["x", "\\uDE00\\uD83D"]', "[1] holds half of a surrogate pair, which is no character.", "[1]"),
        (b'{"a": {"\\udfff": 1}}', 'a has the key "\\udfff" with half of a surrogate pair.', "a"),
    ],
)
def test_fault_says_what_and_where(data: bytes, message: str, param: str | None) -> None:
    """One sentence that a person can act on, and the path for a program."""
    fault = refused(data)
    assert (fault.detail, fault.param) == (message, param)


@pytest.mark.parametrize(
    "data",
    [
        b"{'a': 1}",
        b"[1,]",
        b'{"a": 1,}',
        b"01",
        b"+1",
        b".5",
        b"1.",
        b"0x1",
        b"// x\n1",
        b'"\t"',
        b'"\\x"',
        b"nul",
        b"[1 2]",
    ],
)
def test_almost_json_is_refused(data: bytes) -> None:
    """Everything RFC 8259 does not have."""
    refused(data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_other_encodings_are_refused(encoding: str) -> None:
    """The standard library would guess them."""
    refused('{"a": "é"}'.encode(encoding))


def test_pairs_of_surrogates_are_characters() -> None:
    """An escaped emoji is fine, in values and keys."""
    assert decode_json(b'{"\\ud83d\\ude00": "\\uD83D\\uDE00"}') == {"😀": "😀"}


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_depth_has_a_limit(opening: bytes, closing: bytes) -> None:
    """64 levels pass, one more does not, and 100,000 are no crash."""
    levels = opening.count(b"[") + opening.count(b"{")
    nested = 64 // levels
    decode_json(opening * nested + b"1" + closing * nested)
    fault = refused(opening * (nested + 1) + b"1" + closing * (nested + 1))
    assert fault.detail == "The JSON body is nested deeper than 64 levels."
    assert refused(opening * 100_000).detail == "The JSON body is nested deeper than 64 levels."


def test_depth_counts_nesting_and_not_brackets() -> None:
    """Many lists beside each other, and brackets in text, are no depth."""
    decode_json(b"[" + b"[]," * 1000 + b"[]]")
    decode_json(b'["' + b"[{" * 1000 + b'"]')


def test_integers_up_to_the_limit_are_exact() -> None:
    """The sign is not a digit, and exponents make a float of it."""
    assert decode_json(b"-" + b"9" * 64) == -(10**64 - 1)
    assert decode_json(b"1E5") == 100000.0
    assert math.copysign(1, decode_json(b"-0.0")) == -1  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", [b"[],", b"1,", b"{},", b'"",'])
def test_number_of_values_has_a_limit(unit: bytes) -> None:
    """A body of a few MB cannot become gigabytes of lists."""
    fault = refused(b"[" + unit * JSON_VALUES + b"1]")
    assert fault.detail == f"The JSON body has more than {JSON_VALUES:,} values."


def test_strings_that_nothing_separates_are_counted() -> None:
    """Else millions of them would be looked at one by one."""
    fault = refused(b'""' * 10_000_000 + b"," * (JSON_VALUES + 1))
    assert fault.detail == f"The JSON body has more than {JSON_VALUES:,} values."


def test_number_of_escapes_has_a_limit() -> None:
    """Each costs time in which no other thread runs."""
    fault = refused(b'"' + rb"\n" * (JSON_ESCAPES + 1) + b'"')
    assert fault.detail == f"The JSON body has more than {JSON_ESCAPES:,} escapes."


@pytest.mark.parametrize("shift", range(-3, 4))
def test_characters_and_strings_across_pieces_are_whole(shift: int) -> None:
    """Long texts are worked on in pieces; a character, an escape or a quote may lie on each seam."""
    text = "a" * (PIECE_CHARS + shift) + 'ж😀\\"' * 3
    assert decode_json(json.dumps({"t": text, "u": ["," * JSON_VALUES]}, ensure_ascii=False).encode()) == {
        "t": text,
        "u": ["," * JSON_VALUES],
    }


def test_commas_and_brackets_in_text_are_no_values() -> None:
    """A long text full of them is one value; also with escapes and quotes in it."""
    text = 'a, b [c] {d} \\ " ' * 600_000
    assert decode_json(json.dumps({"content": text}).encode()) == {"content": text}


@pytest.mark.parametrize(
    "data",
    [b'"' + b"\\" * 9_000_001, b'"\\"' * 3_000_000, b'["' + b",[" * 4_500_000, b",[" * 4_500_000 + b'"\\'],
    ids=["backslashes", "quotes", "unterminated", "cut off"],
)
def test_broken_strings_cost_no_quadratic_time(data: bytes) -> None:
    """Megabytes that never end a string are refused like any other fault."""
    refused(data)


def test_path_of_a_fault_is_bounded() -> None:
    """A key of a megabyte is not sent back, nor copied for each of its children."""
    fault = refused(json.dumps({"k" * 1_000_000: [0] * 100_000}).encode()[:-2] + b", NaN]}")
    assert len(fault.detail) < 200


def test_limits_hold_at_a_high_recursion_limit() -> None:
    """The depth is counted, not left to the interpreter."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        refused(b"[" * 3000 + b"]" * 3000)
    finally:
        sys.setrecursionlimit(before)
