"""What values a JSON schema allows, as far as types and listed values say it: for text that says nothing of its type.

A schema is walked once and becomes a set of kinds and a set of listed values (`Allowed`). Followed are `type`, `enum`,
`const`, `allOf`, `anyOf`, `oneOf`, `$ref` and `$dynamicRef` (pointers, `$anchor`, `$id`, by the library `referencing`),
and, to find a property, `properties` and `additionalProperties` at the same places. Other keywords (lengths, patterns,
ranges, conditions) are not looked at: the result may allow more than the schema does, never less.

This runs in the main process, on schemas and names of properties that strangers choose. So all walks of an answer
together may cost MAX_WORK; beyond that schemas say nothing. Nothing here runs a client's regular expression.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from muse.api.tools import Tool
from muse.structured.faults import SchemaFault
from muse.structured.references import References, Resolver

MAX_WORK: Final = 50_000
"""Of all walks of one answer, in listed values: 10 to 20 ms. A property of a plain type costs 2 * NODE_WORK, once."""
NODE_WORK: Final = 10
"""What a node costs, in listed values: about 2 microseconds."""
MAX_NAMED_PARTS: Final = 1_000
"""Marks (`{` and `,`) of a schema in which names are looked for: that takes 4 microseconds for each part."""

_KINDS_OF: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset(("string",)),
    "boolean": frozenset(("boolean",)),
    "null": frozenset(("null",)),
    "integer": frozenset(("integer",)),
    "number": frozenset(("integer", "fraction")),
    "array": frozenset(("array",)),
    "object": frozenset(("object",)),
}
_ALL_KINDS: Final = frozenset[str]().union(*_KINDS_OF.values())
_BEGINS: Final = {'"': "string", "t": "boolean", "f": "boolean", "n": "null", "[": "array", "{": "object"}
# Keywords that speak of strings only: whoever writes one means a string, also where the type is left out.
_OF_STRINGS: Final = ("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType")


@attrs.frozen
class Allowed:
    """A value is allowed if its kind is in `kinds`, or it is one of `listed`."""

    kinds: frozenset[str] = _ALL_KINDS
    """Names of JSON Schema's types; `number` is `integer` and `fraction` here (a number written with a point)."""
    listed: frozenset[str] = frozenset()
    """Values of `enum` and `const`, each as `_canonical` writes it."""
    names_string: bool = False
    """A string is allowed by name, and not only since nothing is said of types."""

    def has(self, value: object) -> bool:
        """Whether the value is allowed."""
        return _kind(value) in self.kinds or (bool(self.listed) and _canonical(value) in self.listed)

    @property
    def is_anything(self) -> bool:
        """Nothing is said of types."""
        return self.kinds == _ALL_KINDS

    def __and__(self, other: Allowed) -> Allowed:
        """What both allow."""
        if self == ANYTHING or other == ANYTHING:
            return other if self == ANYTHING else self
        kinds = self.kinds & other.kinds
        listed = frozenset(
            value
            for one, two in ((self, other), (other, self))
            for value in one.listed
            if value in two.listed or _kind_written(value) in two.kinds
        )
        has_string = "string" in kinds or any(value.startswith('"') for value in listed)
        return Allowed(kinds, listed, has_string and (self.names_string or other.names_string))


ANYTHING: Final = Allowed()
_NOTHING: Final = Allowed(frozenset())


class Work:
    """What the walks of one answer may still cost."""

    def __init__(self) -> None:
        self._left = MAX_WORK

    def spend(self, cost: int) -> None:
        """Raise TooMuch when nothing is left."""
        self._left -= cost
        if self._left < 0:
            raise TooMuch


class TooMuch(Exception):
    """The walks have cost MAX_WORK."""


class SchemaReader:
    """Reads what the schema of a tool allows for its arguments, each once. work: shared by all of an answer."""

    def __init__(self, tool: Tool, work: Work | None = None) -> None:
        self._work = work or Work()
        self._schema = tool.schema
        self._references = _references(self._schema, tool.parameters)
        self._known: dict[str, Allowed] = {}
        self._own: dict[int, Allowed] = {}

    def property(self, name: str) -> Allowed:
        """What the argument of this name may be; anything, where nothing is declared or a reference leads nowhere."""
        if name not in self._known:
            try:
                walk = _Walk(name, self._references, self._work, self._own)
                self._known[name] = walk.of_property(self._schema, self._references.root)
            except Exception:
                # Whatever a stranger's schema does to the library: it is only a hint here.
                self._known[name] = ANYTHING
        return self._known[name]


class _Walk:
    """One walk, for one property. own: what nodes say themselves, by their identity, kept for the next walks."""

    def __init__(self, name: str, references: References, work: Work, own: dict[int, Allowed]) -> None:
        self._name = name
        self._references = references
        self._work = work
        self._own = own
        self._done: dict[int, Allowed] = {}  # by the identity of the node; one that is open says nothing

    def of_property(self, schema: Any, resolver: Resolver) -> Allowed:
        """What a schema of an object allows for the property."""
        if not isinstance(schema, Mapping):
            return ANYTHING
        node = cast("Mapping[str, Any]", schema)
        allowed = ANYTHING
        properties = node.get("properties")
        if isinstance(properties, Mapping) and self._name in properties:
            allowed = self.of_value(properties[self._name], self._inside(resolver, properties[self._name]))
        elif "patternProperties" not in node:
            other = node.get("additionalProperties")
            allowed = self.of_value(other, self._inside(resolver, other)) if isinstance(other, Mapping) else ANYTHING
        return allowed & self._combined(node, resolver, is_property=True)

    def of_value(self, schema: Any, resolver: Resolver) -> Allowed:
        """What a schema allows."""
        if schema is False:
            return _NOTHING
        if not isinstance(schema, Mapping):
            return ANYTHING
        node = cast("Mapping[str, Any]", schema)
        self._work.spend(len(_list(node, "enum")))
        if id(node) not in self._own:
            self._own[id(node)] = _own(node)
        return self._own[id(node)] & self._combined(node, resolver, is_property=False)

    def _combined(self, node: Mapping[str, Any], resolver: Resolver, *, is_property: bool) -> Allowed:
        """By the schemas that the node refers to or is made of."""
        self._work.spend(NODE_WORK)
        if id(node) in self._done:
            return self._done[id(node)]
        self._done[id(node)] = ANYTHING

        def read(inner: Any, where: Resolver) -> Allowed:
            found = self.of_property(inner, where) if is_property else self.of_value(inner, where)
            self._work.spend(len(found.listed))
            return found

        allowed = ANYTHING
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(node.get(keyword), str):
                allowed &= read(*self._references.look_up(resolver, node[keyword], ""))
        for inner in _list(node, "allOf"):
            allowed &= read(inner, self._inside(resolver, inner))
        for keyword in ("anyOf", "oneOf"):
            if branches := [read(inner, self._inside(resolver, inner)) for inner in _list(node, keyword)]:
                allowed &= _any_of(branches)
        self._done[id(node)] = allowed
        return allowed

    def _inside(self, resolver: Resolver, schema: Any) -> Resolver:
        """The resolver for a part of a schema, which may have an `$id` of its own."""
        if not (isinstance(schema, dict) and "$id" in schema):
            return resolver
        return self._references.inside(resolver, cast("dict[str, Any]", schema), "")


def _own(node: Mapping[str, Any]) -> Allowed:
    """What the node says itself."""
    allowed = Allowed(names_string=True) if any(keyword in node for keyword in _OF_STRINGS) else ANYTHING
    declared = node.get("type")
    if isinstance(declared, str | list):
        names = [declared] if isinstance(declared, str) else cast("list[Any]", declared)
        kinds = [_KINDS_OF[name] for name in names if isinstance(name, str) and name in _KINDS_OF]
        if kinds:
            allowed &= Allowed(frozenset[str]().union(*kinds), names_string="string" in names)
    for values in (_list(node, "enum"), [node["const"]] if "const" in node else []):
        if values:
            is_text = any(isinstance(value, str) for value in values)
            allowed &= Allowed(frozenset(), frozenset(map(_canonical, values)), is_text)
    return allowed


def _any_of(branches: Sequence[Allowed]) -> Allowed:
    return Allowed(
        frozenset[str]().union(*(branch.kinds for branch in branches)),
        frozenset[str]().union(*(branch.listed for branch in branches)),
        any(branch.names_string for branch in branches),
    )


def _list(node: Mapping[str, Any], keyword: str) -> list[Any]:
    value = node.get(keyword)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _references(schema: dict[str, Any], text: str) -> References:
    """text: the same schema. Names are looked for only where there are some, and few parts: that takes long."""
    has_names = any(keyword in text for keyword in ('"$id"', '"$anchor"', '"$dynamicAnchor"'))
    is_small = text.count("{") + text.count(",") <= MAX_NAMED_PARTS
    try:
        return References(schema, names=has_names and is_small)
    except SchemaFault:  # a name or a version that is none: pointers may still lead somewhere
        return References({key: value for key, value in schema.items() if key not in ("$id", "$schema")}, names=False)


def _kind(value: object) -> str:
    match value:
        case str():
            return "string"
        case bool():
            return "boolean"
        case None:
            return "null"
        case int():
            return "integer"
        case float():
            return "fraction"
        case list():
            return "array"
        case _:
            return "object"


def _kind_written(canonical: str) -> str:
    """The kind of a value that `_canonical` wrote."""
    kind = _BEGINS.get(canonical[0])
    return kind or ("integer" if canonical.lstrip("-").isdigit() else "fraction")


def _canonical(value: object) -> str:
    """Equal for equal JSON values, and only for those: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, str):
        return '"' + value  # not its JSON, which is slower to write: its first character says that it is a string
    return json.dumps(_without_points(value), sort_keys=True)


def _without_points(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_without_points(inner) for inner in cast("list[Any]", value)]
        case dict():
            return {key: _without_points(inner) for key, inner in cast("dict[str, Any]", value).items()}
        case _:
            return value
