"""References inside a schema, resolved as JSON Schema says (`$ref`, `$id`, `$anchor`), by the library `referencing`."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from referencing import Registry, Resource, Specification
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT202012, UnknownDialect, specification_with

from muse.structured.faults import SchemaFault, join

Resolver: TypeAlias = Any
"""`referencing`'s: says what the references mean that stand at one place."""

_SPELLINGS: Final = re.compile(r"\Ahttps://(json-schema\.org/draft-0\d/schema)")
"""The older versions are named by http, but many write https."""
_BROKEN: Final = (AttributeError, TypeError, ValueError, LookupError)


class References:
    """Of one schema of a client. root: the resolver of the whole. names: whether `$id` and anchors inside are looked
    for, which takes 4 microseconds for each part; pointers need none."""

    def __init__(self, schema: dict[str, Any], *, names: bool = True) -> None:
        """Raises SchemaFault."""
        self._dialect = self._dialect_of(schema, cast("Specification[Any]", DRAFT202012))
        library: Any = Registry
        try:
            resource = self._resource(schema)
            identity = resource.id() or ""
            registry = library().with_resource(identity, resource)
        except _BROKEN:
            raise SchemaFault("#/$id", "must be a URI reference") from None
        if names:
            with suppress(*_BROKEN):  # a part that is no schema: whoever reads it will say so
                registry = registry.crawl()
        self.root: Final[Resolver] = registry.resolver(identity)

    def inside(self, resolver: Resolver, schema: dict[str, Any], pointer: str) -> Resolver:
        """The resolver of a part, which may have an `$id` of its own. Raises SchemaFault."""
        try:
            return resolver.in_subresource(self._resource(schema))
        except _BROKEN:
            raise SchemaFault(join(pointer, "$id"), "must be a URI reference") from None

    def look_up(self, resolver: Resolver, reference: object, pointer: str) -> tuple[Any, Resolver]:
        """What a `$ref` stands for, and the resolver there. Raises SchemaFault."""
        pointer = join(pointer, "$ref")
        if not isinstance(reference, str):
            raise SchemaFault(pointer, "must be a string")
        shown = repr(reference[:80])
        try:
            resolved = resolver.lookup(reference)
        except (PointerToNowhere, NoSuchAnchor):
            raise SchemaFault(pointer, f"{shown} points to nothing in this schema") from None
        except Unresolvable:
            raise SchemaFault(pointer, f"{shown} points outside this schema; put its target into $defs") from None
        except _BROKEN:
            words = "cannot be resolved: a part of the schema is none (lists of schemas go into prefixItems, not items)"
            raise SchemaFault(pointer, f"{shown} {words}") from None
        return resolved.contents, resolved.resolver

    def _resource(self, schema: dict[str, Any]) -> Resource[Any]:
        return Resource(contents=schema, specification=self._dialect_of(schema, self._dialect))

    @staticmethod
    def _dialect_of(schema: dict[str, Any], default: Specification[Any]) -> Specification[Any]:
        dialect = schema.get("$schema")
        if dialect is None:
            return default
        try:
            return specification_with(_SPELLINGS.sub(r"http://\1", dialect))
        except (UnknownDialect, AttributeError, TypeError):
            raise SchemaFault("#/$schema", "is no known version of JSON Schema; leave it out for 2020-12") from None
