"""Keywords that the engine does not know, said by those that it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, cast

from muse.structured import keywords

_DEPENDENT: Final = ("dependentRequired", "dependencies")
MAX_DEPENDENTS: Final = 4
"""Properties that demand others: each doubles the variants of its object."""


def without_unevaluated(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with `additionalProperties` and `items` in place of `unevaluatedProperties` and `unevaluatedItems`. They
    are the same where no other schema is applied in place; elsewhere they stay."""
    written = dict(schema)
    if any(key in schema for key in keywords.IN_PLACE):
        return written
    for keyword, same in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        if keyword in schema and not isinstance(schema.get(same), list):
            rest = written.pop(keyword)
            written.setdefault(same, rest)
    return written


def without_dependents(schema: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Schemas of which an answer must follow one, in place of one with `dependentRequired` (`dependencies` in older
    versions): a property that demands others is there with them, or not at all. None: it cannot be said so."""
    rest = {key: value for key, value in schema.items() if key not in _DEPENDENT}
    given = _object(next(schema[key] for key in _DEPENDENT if key in schema))
    properties, required = _object(rest.get("properties", {})), rest.get("required", [])
    if len(rest) + 1 < len(schema) or any(key in rest for key in keywords.IN_PLACE):
        return None
    if given is None or properties is None or len(given) > MAX_DEPENDENTS:
        return None
    if not all(map(_is_names, (required, *given.values()))):
        return None
    variants: list[dict[str, Any]] = []
    for choice in product((True, False), repeat=len(given)):
        there = dict(zip(given, choice, strict=True))
        demanded = dict.fromkeys([*required, *(name for key in given if there[key] for name in (key, *given[key]))])
        absent = {name: False for name, is_there in there.items() if not is_there}
        if not demanded.keys() & absent.keys():
            variants.append({**rest, "properties": {**properties, **absent}, "required": list(demanded)})
    return variants


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in cast("Sequence[Any]", value))
