"""`oneOf` as `anyOf` where at most one branch can hold: the engine does not look through references to find that out.

Read and written is what `engine_schema` has made. What is not certain stays as it is, and the engine refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final, cast

from muse.structured import keywords

_REFERENCE: Final = "#/$defs/"
_MAX_BRANCHES: Final = 200
"""Each is compared with each."""

Definitions = Mapping[str, Any]


def exclusive_as_any(schema: Any, definitions: Definitions) -> Any:
    """The same schema, with `anyOf` in place of each `oneOf` whose branches exclude each other."""
    if not isinstance(schema, dict):
        return schema
    written = {key: _inside(key, value, definitions) for key, value in cast("dict[str, Any]", schema).items()}
    branches = written.get("oneOf", [])
    if "anyOf" in written or not 2 <= len(branches) <= _MAX_BRANCHES:
        return written
    if all(_exclude(first, second, definitions) for first, second in combinations(branches, 2)):
        return {"anyOf" if key == "oneOf" else key: value for key, value in written.items()}
    return written


def with_tag(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with a property required, if it is one with constants: OpenAPI demands that of a discriminator."""
    if name not in schema.get("properties", {}) or not {"const", "enum"} & set(schema["properties"][name]):
        return schema
    required: list[str] = schema.get("required", [])
    return {**schema, "required": [*required, name]} if name not in required else schema


def _inside(key: str, value: Any, definitions: Definitions) -> Any:
    if key in keywords.SCHEMA_MAPS:
        return {name: exclusive_as_any(inner, definitions) for name, inner in value.items()}
    if key in keywords.SCHEMA_LISTS or (key == "items" and isinstance(value, list)):
        return [exclusive_as_any(inner, definitions) for inner in cast("list[Any]", value)]
    return exclusive_as_any(value, definitions) if key in keywords.SCHEMAS else value


def _exclude(first: Any, second: Any, definitions: Definitions) -> bool:
    """Whether surely no value follows both."""
    first, second = _target(first, definitions), _target(second, definitions)
    types, other_types = _types(first), _types(second)
    if not types & other_types:
        return True
    values, others = _values(first), _values(second)
    if values is not None and others is not None and not values & others:
        return True
    if types & other_types != {"object"}:
        return False
    named, other_named = first.get("properties", {}), second.get("properties", {})
    required = {*first.get("required", ()), *second.get("required", ())}
    for name in named.keys() & other_named.keys() & required:
        tags, other_tags = (_values(_target(part[name], definitions)) for part in (named, other_named))
        if tags is not None and other_tags is not None and not tags & other_tags:
            return True
    return False


def _target(schema: Any, definitions: Definitions) -> dict[str, Any]:
    """What a reference that stands alone refers to; nothing certain is an empty schema."""
    for _ in range(len(definitions) + 1):
        if not isinstance(schema, dict):
            return {}
        known = cast("dict[str, Any]", schema)
        if known.keys() != {"$ref"}:
            return known
        schema = definitions[known["$ref"].removeprefix(_REFERENCE)]
    return {}


def _values(schema: Mapping[str, Any]) -> set[str] | None:
    """All that it allows, in a form to compare; None: not only constants."""
    if "const" in schema:
        return {_comparable(schema["const"])}
    return {_comparable(value) for value in schema["enum"]} if "enum" in schema else None


def _comparable(value: Any) -> str:
    """The same text for values that are equal in JSON Schema, such as 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | dict):
        return "structure"
    return json.dumps(value)


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Types of JSON that may follow it; an integer is a number, too."""
    kinds = schema.get("type", keywords.TYPES)
    return {"number" if kind == "integer" else kind for kind in ([kinds] if isinstance(kinds, str) else kinds)}
