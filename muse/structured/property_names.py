"""`propertyNames`, which the engine does not know, said by keywords that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from muse.structured.keywords import ANNOTATIONS, RESOURCES

_PATTERNS: Final = frozenset(("pattern", "minLength", "maxLength"))
_VALUES: Final = frozenset(("const", "enum"))


def said_otherwise(schema: Mapping[str, Any], names: Any) -> dict[str, Any] | None:
    """An object's schema without `propertyNames`, whose value is `names`; None: it cannot be said otherwise."""
    rest = {key: value for key, value in schema.items() if key != "propertyNames"}
    if names is True:
        return rest
    if not isinstance(names, dict):
        return None
    known = cast("dict[str, Any]", names)
    asked = {key: value for key, value in known.items() if key not in ANNOTATIONS and key not in RESOURCES}
    if asked.get("type") == "string":  # as every name is
        del asked["type"]
    if not asked:
        return rest
    if "properties" in rest or "patternProperties" in rest:
        return None
    others = rest.get("additionalProperties", True)
    if len(asked) > 1:
        return None
    ((key, value),) = asked.items()
    if key in _VALUES:
        values = cast("list[Any]", [value] if key == "const" else value if isinstance(value, list) else [])
        allowed = {name: others for name in values if isinstance(name, str)}
        return {**rest, "properties": allowed, "additionalProperties": False} if allowed else None
    if key in _PATTERNS:
        pattern = value if key == "pattern" else _length_pattern(key, value)
        return {**rest, "patternProperties": {pattern: others}, "additionalProperties": False} if pattern else None
    return None


def _length_pattern(key: str, length: Any) -> str | None:
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= 1_000:
        return None
    return f"^(?s:.){{{length},}}$" if key == "minLength" else f"^(?s:.){{0,{length}}}$"
