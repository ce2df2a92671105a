"""Bounds of integers beyond 2^53, and of those that nothing bounds: all have 64 bits.

A small model may write digits without end, and a call with a number that no client can hold is no use. The engine reads
bounds as doubles: one that is no double is refused by plain_value (values.py), unless it is beyond 64 bits, as the
largest and smallest integers of many languages are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muse.structured.values import LARGEST_EXACT

LARGEST_INTEGER: Final = 2**63 - 1024
"""The largest double that is an integer of 64 bits."""
_LIMITS: Final = {
    "maximum": LARGEST_INTEGER,
    "exclusiveMaximum": LARGEST_INTEGER,
    "minimum": -LARGEST_INTEGER,
    "exclusiveMinimum": -LARGEST_INTEGER,
}
_INCLUSIVE: Final = {"exclusiveMaximum": "maximum", "exclusiveMinimum": "minimum"}


def is_integer(schema: Mapping[str, Any]) -> bool:
    """Whether its numbers are integers."""
    kinds = schema.get("type")
    return isinstance(kinds, str | list) and "integer" in kinds and "number" not in kinds


def large_bounds(schema: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Bounds of an integer beyond 2^53 that can be held, by their keyword: the keyword and the value for the engine."""
    held: dict[str, tuple[str, int]] = {}
    for key, limit in _LIMITS.items() if is_integer(schema) else ():
        value = schema.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) <= LARGEST_EXACT:
            continue
        if abs(value) > LARGEST_INTEGER and (value > 0) == (limit > 0):
            held[key] = (_INCLUSIVE.get(key, key), limit)
        elif key not in _INCLUSIVE and abs(value) <= LARGEST_INTEGER and int(float(value)) == value:
            held[key] = (key, int(value))
    return held


def missing_bounds(schema: Mapping[str, Any]) -> dict[str, int]:
    """For an integer that has none."""
    bounds: dict[str, int] = {}
    if is_integer(schema) and "multipleOf" not in schema:
        if "minimum" not in schema and "exclusiveMinimum" not in schema:
            bounds["minimum"] = -LARGEST_INTEGER
        if "maximum" not in schema and "exclusiveMaximum" not in schema:
            bounds["maximum"] = LARGEST_INTEGER
    return bounds
