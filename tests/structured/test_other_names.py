"""Patterns for the names that an object does not list."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.structured.check import matches, written
from muse.structured.other_names import other_names

NAMES = st.text('ab"\\/]^-é\n\x00🎉', max_size=4)


@given(st.lists(NAMES, max_size=5), st.lists(NAMES, max_size=5))
def test_all_names_match_but_these(excluded: list[str], others: list[str]) -> None:
    """Read here as Python does, which writes code points otherwise."""
    pattern = re.sub(r"\\x\{(\w+)\}", lambda found: f"\\U{int(found[1], 16):08x}", other_names(excluded))
    for name in (*excluded, *others, *(f"{name}a" for name in excluded), *(name[:-1] for name in excluded)):
        assert bool(re.search(pattern.replace("$", "\\Z"), name)) is (name not in excluded)


@settings(max_examples=15, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=3), NAMES)
def test_the_engine_reads_the_pattern_so(excluded: list[str], other: str) -> None:
    """By its own regular expressions."""
    pattern = other_names(excluded)
    assert not any(matches(pattern, name) for name in excluded)
    assert matches(pattern, other) is (other not in excluded)


@pytest.mark.parametrize("count", [100, 200])
def test_many_names_are_no_burden(count: int) -> None:
    """As many as the largest schemas of clients have."""
    names = {f"a_property_of_the_object_{number}": {"type": "string"} for number in range(count)}
    schema = {"type": "object", "properties": names, "additionalProperties": {"type": "integer"}}
    assert len(json.dumps(written(schema).whole())) < 100 * count
