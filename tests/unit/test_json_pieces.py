"""JSON in pieces: the same text as one call gives, and no piece is long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse import json_pieces as written
from muse.json_pieces import json_bytes, json_pieces, json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=12,
)
LONG: tuple[Any, ...] = (
    "я" * 1000,
    {"a": "\n" * 1000},
    {"k" * 1000: [1, None, {"b": ["x" * 1000, 2.5]}]},
    list(range(1000)),
    [[]] * 1000,
)


def in_one_call(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("PIECE_CHARS", 20), ("_FEW", 4), ("_SHORT", 5)):
        monkeypatch.setattr(written, name, size)


@given(VALUES)
def test_all_pieces_are_the_text(value: object) -> None:
    """Of any value."""
    assert "".join(json_pieces(value)) == in_one_call(value)


@pytest.mark.parametrize("value", LONG)
def test_no_piece_is_long(value: object, short_pieces: None) -> None:
    """However long texts and keys are, and however many values there are: escapes double a piece, at most."""
    pieces = list(json_pieces(value))
    assert "".join(pieces) == in_one_call(value)
    assert max(map(len, pieces)) <= 2 * 20


def test_half_a_surrogate_pair_is_written_as_its_escape() -> None:
    """UTF-8 has no bytes for it."""
    assert json_bytes(["a\ud800b", "ü"]) == b'["a\\ud800b","\xc3\xbc"]'


@pytest.mark.parametrize("value", LONG)
def test_what_is_too_long_is_not_written_to_its_end(value: object, short_pieces: None) -> None:
    """None beyond the limit, all of it up to the limit."""
    whole = in_one_call(value)
    assert json_text(value, most_chars=len(whole)) == whole
    assert json_text(value, most_chars=len(whole) - 1) is None
