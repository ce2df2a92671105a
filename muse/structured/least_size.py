"""How long the shortest answer to a schema is at least: endless for a list that must hold such a list, and so on.

Read is what `engine_schema` has written. A lower bound: parts that are combined are looked at one by one. It is the
least solution over the definitions, found by rounds from "endless" downwards; each round settles at least one of them.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

_REFERENCE: Final = "#/$defs/"
_ALL_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_LITERALS: Final = {"null": 4, "boolean": 4, "integer": 1, "number": 1}

Sizes = Mapping[str, float]
"""Of definitions by name, in characters; those left out are endless."""


def least_sizes(definitions: Mapping[str, Any]) -> dict[str, float]:
    """Of all definitions that are not endless."""
    sizes: dict[str, float] = {}
    changed = True
    while changed:
        changed = False
        for name in reversed(tuple(definitions)):  # those that others refer to stand behind these
            size = least_size(definitions[name], sizes)
            if size < sizes.get(name, math.inf):
                sizes[name] = size
                changed = True
    return sizes


def least_size(schema: Any, sizes: Sizes) -> float:
    """Characters of JSON; infinite where no finite answer is."""
    if isinstance(schema, bool):
        return 1 if schema else math.inf
    parts = [min((_typed_size(kind, schema, sizes) for kind in _types(schema)), default=math.inf)]
    if "$ref" in schema:
        parts.append(sizes.get(schema["$ref"].removeprefix(_REFERENCE), math.inf))
    parts += [_written_size(schema["const"])] if "const" in schema else []
    parts += [min(map(_written_size, schema["enum"]))] if "enum" in schema else []
    parts += [least_size(inner, sizes) for inner in schema.get("allOf", ())]
    parts += [min(least_size(inner, sizes) for inner in schema[key]) for key in ("anyOf", "oneOf") if key in schema]
    return max(parts)


def without_endless(schema: Any, sizes: Sizes) -> Any:
    """The same with endless parts replaced by false."""
    if isinstance(schema, bool) or least_size(schema, sizes) == math.inf:
        return schema is True
    return {key: _pruned(key, value, sizes) for key, value in schema.items()}


def _pruned(key: str, value: Any, sizes: Sizes) -> Any:
    if key in ("properties", "patternProperties"):
        return {name: without_endless(inner, sizes) for name, inner in value.items()}
    if key in ("allOf", "anyOf", "oneOf", "prefixItems") or (key == "items" and isinstance(value, list)):
        return [without_endless(inner, sizes) for inner in cast("list[Any]", value)]
    return without_endless(value, sizes) if key in ("items", "additionalItems", "additionalProperties") else value


def _types(schema: Mapping[str, Any]) -> Iterable[str]:
    kinds = schema.get("type", _ALL_TYPES)
    return (kinds,) if isinstance(kinds, str) else kinds


def _typed_size(kind: str, schema: Mapping[str, Any], sizes: Sizes) -> float:
    if kind in _LITERALS:
        return _LITERALS[kind]
    if kind == "string":
        return 2 + max(schema.get("minLength", 0), _pattern_size(schema.get("pattern", "")))
    if kind == "object":
        named = schema.get("properties", {})
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        required = dict.fromkeys(schema.get("required", ()))
        return 1 + sum(_written_size(name) + 2 + least_size(named.get(name, others), sizes) for name in required)
    least = schema.get("minItems", 0)
    items = schema.get("items", True)
    first, rest = schema.get("prefixItems", []), items
    if isinstance(items, list):  # older drafts
        first, rest = cast("list[Any]", items), schema.get("additionalItems", True)
    size = 1.0 + sum(1 + least_size(inner, sizes) for inner in first[:least])
    more = least - len(first)
    return size + more * (1 + least_size(rest, sizes)) if more > 0 else size


def _written_size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@lru_cache(maxsize=256)
def _pattern_size(pattern: str) -> int:
    """Characters that a text must have at least to match, as far as Python reads the pattern."""
    parser: Any = importlib.import_module("re._parser")
    try:
        with warnings.catch_warnings(action="ignore"):
            return parser.parse(pattern).getwidth()[0]
    except (ValueError, OverflowError, RecursionError, re.error):
        return 0
