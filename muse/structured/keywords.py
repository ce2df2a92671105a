"""The keywords of JSON Schema: what stands in them, and what the engine can do with them.

Only these positions hold schemas. Everything else (`const`, `enum`, `default`, `examples`, unknown keywords) is data,
whatever it looks like.
"""

from __future__ import annotations

from typing import Any, Final

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMA_MAPS: Final = ("properties", "patternProperties")
SCHEMAS: Final = ("items", "additionalItems", "additionalProperties")
NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
COUNTS: Final = ("minItems", "maxItems", "minProperties", "maxProperties")
LENGTHS: Final = ("minLength", "maxLength")

IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "$ref", "const", "enum")
"""Keywords that the engine intersects one by one with the rest of their schema."""
OBJECT_KEYWORDS: Final = (
    "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
)  # fmt: skip

FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
"""Formats that every engine enforces. JSON Schema makes every other one an annotation."""

ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
        *("contentMediaType", "contentEncoding", "contentSchema"),
    )
)
"""These restrict no answer."""
RESOURCES: Final = frozenset(
    ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs", "definitions")
)
"""These only serve references, which are resolved."""

UNSUPPORTED: Final = {
    "not": "describe what is allowed instead",
    "if": "use anyOf with one whole schema for each case",
    "contains": "use prefixItems, or an enum in items",
    "uniqueItems": "leave it out and check the answer yourself",
    "propertyNames": "use patternProperties with additionalProperties false",
    "dependentRequired": "use anyOf with one whole schema for each case",
    "dependentSchemas": "use anyOf with one whole schema for each case",
    "dependencies": "use anyOf with one whole schema for each case",
    "unevaluatedProperties": "use additionalProperties in each branch",
    "unevaluatedItems": "use items in each branch",
    "$dynamicRef": "use $ref",
    "$recursiveRef": "use $ref",
}
"""The engine cannot enforce these. With each, what to write instead."""

EFFECTLESS: Final[dict[str, tuple[Any, ...]]] = {
    "not": (False,),
    "uniqueItems": (False,),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
}
"""Values with which an unsupported keyword asks for nothing."""

DEPENDENT: Final = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
"""Keywords that mean nothing without another one."""
