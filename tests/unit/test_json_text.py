"""Objects as JSON text: the same members as any reader finds, and no others; whatever the values are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muse.json_text import read_object_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def values_in(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inner) + sum(map(values_in, inner))


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4), st.sampled_from([None, 0, 3]), st.booleans())
def test_members_are_those_of_any_reader(value: dict[str, Any], indent: int | None, is_ascii: bool) -> None:
    """In their order, their values to the letter."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    read = read_object_text(f" {text}\n")
    assert [(name, json.loads(inner)) for name, inner in read.members] == list(value.items())
    assert all(inner in text for _, inner in read.members)
    assert read.values == values_in(value)


@given(st.text('{}[]",:\\ntrue01-.e+u ', max_size=20))
@example('{"a":1.}')
@example('{"a":01}')
@example('{"a":[1,]}')
@example('{"a":{]}}')
@example('{"a":1}}')
@example('{"a":"\n"}')
@example('{"a":"\\x"}')
@example('{"a":NaN}')
@example('{"a":1,}')
@example('{"a":1 "b":2}')
@example('["a"]')
@example("")
def test_what_is_an_object_is_what_any_reader_takes(text: str) -> None:
    """And a text that is cut off is none. Python's reader takes NaN besides."""
    for candidate in (text, "{" + text, '{"a":' + text, '{"a":' + text + "}"):
        try:
            wanted = isinstance(json.loads(candidate, parse_constant=int), dict)
        except ValueError:
            wanted = False
        try:
            read_object_text(candidate)
            found = True
        except ValueError:
            found = False
        assert found is wanted, candidate


ODD = {
    "beyond doubles": "96e012995466444",
    "long": "9" * 5_000,
    "twice": '{"a":1,"a":2}',
    "deep": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"":' * 50_000 + "0" + "}" * 50_000,
    "half of a pair": '"\\ud83d"',
    "negative zero": "-0",
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_values_are_never_read(value: str) -> None:
    """Nothing overflows, and nothing is refused."""
    assert read_object_text(f'{{"n":{value},"n":{value}}}').members == (("n", value), ("n", value))
    for cut in (-1, len(value) // 2):
        with pytest.raises(ValueError, match="JSON"):
            read_object_text(f'{{"n":{value}}}'[:cut])


def test_names_are_text() -> None:
    """Escapes are read; half of a surrogate pair cannot be text."""
    names = [name for name, _ in read_object_text('{"\\u0061":1,"\\ud83d\\ude00":2,"\\ud83d":3}').members]
    assert names == ["a", "😀", "\ufffd"]
