"""A client's schema rewritten for the engine: the same answers, in the part of JSON Schema that the engine gets right.

Pure, and linear but for parts that several references share. What it makes sure of:
- Every `$ref` is resolved here and becomes `#/$defs/NAME`, so the result can stand inside a larger schema, and engines
  need to know nothing of `$id` and anchors.
- Data (`const`, `enum`) is copied as it is. Numbers there and in ranges are refused beyond 2^53, where the engine
  rounds.
- What the engine cannot enforce is refused with its place. What JSON Schema makes an annotation (unknown formats and
  keywords) is left out, with a note.
- Objects with named properties that may have others say so by a pattern (`_other_names`).
- Parts that have no finite answer are `false` (least_size.py).
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from muse.structured import keywords
from muse.structured.faults import SchemaFault, join
from muse.structured.integer_bounds import large_bounds, missing_bounds
from muse.structured.least_size import least_size, least_sizes, without_endless
from muse.structured.one_of import exclusive_as_any, with_tag
from muse.structured.other_names import ANY_NAME, other_names
from muse.structured.other_words import without_dependents, without_unevaluated
from muse.structured.property_names import said_otherwise
from muse.structured.references import References, Resolver
from muse.structured.values import check_numbers, has_object, plain_value

MAX_PARTS: Final = 20_000
"""Schemas in the result, where references were followed."""
MAX_ANSWER_CHARS: Final = 16_384
"""Of the shortest answer. Twice as many would be most of an ordinary context."""
MAX_NOTES: Final = 20

_DRAFT_4: Final = re.compile(r"http://json-schema\.org/draft-0?[34]/schema#?")

Matches = Callable[[str, str], bool]
"""Whether a pattern of JSON Schema matches a text, by the engine's own regular expressions."""


@attrs.frozen(kw_only=True)
class EngineSchema:
    """The result."""

    schema: Any
    """What the engine gets, without `$defs`."""
    definitions: dict[str, Any]
    """What its references stand for, by name."""
    places: dict[str, str]
    """Where these are in the client's schema, as far as that can be said."""
    notes: tuple[str, ...]
    """What was left out, since JSON Schema makes it an annotation."""

    def whole(self) -> Any:
        """The schema with its definitions."""
        return {**self.schema, "$defs": self.definitions} if self.definitions else self.schema


def engine_schema(schema: object, *, matches: Matches, prefix: str = "d") -> EngineSchema:
    """Write a schema for the engine. prefix: of the names of its definitions. Raises SchemaFault."""
    if isinstance(schema, bool):
        schema = {} if schema else {"enum": []}
    if not isinstance(schema, dict):
        raise SchemaFault("#", "must be an object")
    merged: frozenset[str] = frozenset()
    restricted = False
    try:
        while True:
            writer = _Writer(cast("dict[str, Any]", schema), matches, prefix, merged, restricted=restricted)
            written = writer.write_all()
            if writer.found_merged <= merged and writer.found_restricted <= restricted:
                return written
            # Only known when all references have been seen.
            merged |= writer.found_merged
            restricted |= writer.found_restricted
    except RecursionError:
        raise SchemaFault("#", "is nested too deeply") from None


@attrs.frozen
class _Place:
    """Of a schema: how to resolve its references, its pointer, and whether the engine intersects it with others."""

    resolver: Resolver
    pointer: str
    merged: bool

    def at(self, *steps: str | int, merged: bool = False) -> _Place:
        return _Place(self.resolver, join(self.pointer, *steps), merged)


class _Writer:
    """merged: names of definitions that the engine intersects with something at one of the places that refer to them.
    found_merged: those that turned out to be. restricted: an object that it intersects does not allow any other names.
    found_restricted: there was one."""

    def __init__(
        self, root: dict[str, Any], matches: Matches, prefix: str, merged: frozenset[str], *, restricted: bool
    ) -> None:
        self._merged = merged
        self.found_merged: set[str] = set()
        self._restricted = restricted
        self.found_restricted = False
        self._root = root
        self._matches = matches
        self._prefix = prefix
        self._references = References(root)
        self._is_draft_4 = _DRAFT_4.fullmatch(str(root.get("$schema"))) is not None
        self._names: dict[int, str] = {}
        self._waiting: deque[tuple[str, Any, _Place]] = deque()
        self._tags: dict[tuple[str, str], None] = {}
        """Definitions with the discriminator of a `oneOf` that they are a branch of."""
        self._notes: dict[str, None] = {}
        self._parts = 0

    def write_all(self) -> EngineSchema:
        written = self._write_object(self._root, _Place(self._references.root, "#", merged=False))
        definitions: dict[str, Any] = {}
        places: dict[str, str] = {}
        while self._waiting:
            name, contents, place = self._waiting.popleft()
            places[name] = place.pointer
            definitions[name] = self._write(contents, place, entered=True)
        for name, tag in self._tags:
            if isinstance(definitions[name], dict):
                definitions[name] = with_tag(definitions[name], tag)
        written = exclusive_as_any(written, definitions)
        definitions = {name: exclusive_as_any(inner, definitions) for name, inner in definitions.items()}
        sizes = least_sizes(definitions)
        size = least_size(written, sizes)
        if size == math.inf:
            raise SchemaFault("#", "has no answer: what it requires is false, or contains itself again and again")
        if size > MAX_ANSWER_CHARS:
            raise SchemaFault(
                "#", f"requires answers of at least {size:.0f} characters; at most {MAX_ANSWER_CHARS} are supported"
            )
        written = without_endless(written, sizes)
        definitions = {name: without_endless(definitions[name], sizes) for name in sizes}
        notes = list(self._notes)
        if len(notes) > MAX_NOTES:
            notes[MAX_NOTES:] = [f"{len(notes) - MAX_NOTES} more of this kind"]
        return EngineSchema(schema=written, definitions=definitions, places=places, notes=tuple(notes))

    # ------------------------------------------------------------ one schema

    def _write(self, schema: object, place: _Place, *, entered: bool = False) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise SchemaFault(place.pointer, "must be a schema: an object, true or false")
        known = cast("dict[str, Any]", schema)
        if not entered:
            place = attrs.evolve(place, resolver=self._references.inside(place.resolver, known, place.pointer))
        return self._write_object(known, place)

    def _write_object(self, schema: dict[str, Any], place: _Place) -> Any:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise SchemaFault("#", f"has more than {MAX_PARTS} parts, references included")
        if "not" in schema and (schema["not"] is True or schema["not"] == {}):
            return False  # what generators write for "never"
        schema = without_unevaluated(schema)
        if "propertyNames" in schema:
            schema = self._names_said_otherwise(schema, place)
        if not place.merged and (schema.get("dependentRequired") or schema.get("dependencies")):
            variants = without_dependents(schema)
            if variants is not None:
                return {"anyOf": [self._write_object(variant, place) for variant in variants]} if variants else False
        given = {key: value for key, value in schema.items() if self._restricts(key, value, schema, place)}
        merged = place.merged or any(key in keywords.IN_PLACE for key in given)
        simple: dict[str, Any] = {}
        written: dict[str, Any] = {}
        large = large_bounds(given)
        for key, value in given.items():
            if key in keywords.IN_PLACE:
                written[key] = self._in_place(key, value, given, place)
            elif key in large:
                held_key, held = large[key]
                if held != value:
                    self._note(f"{key} {value} is enforced as {held_key} {held}", place)
                simple[held_key] = held if held_key == key else simple.get(held_key, held)
            else:
                simple[key] = self._simple(key, value, place, merged=merged)
        self._tag_branches(written.get("oneOf", ()), schema.get("discriminator"))
        self._check_data(given, place)
        simple = self._other_names(simple, place, merged=merged)
        if not merged:
            simple |= missing_bounds(simple)
        # The engine reads one group of keywords between two of the others: they must see each other.
        first = next(iter(given), None)
        return simple | written if first not in keywords.IN_PLACE or "properties" in simple else written | simple

    def _names_said_otherwise(self, schema: dict[str, Any], place: _Place) -> dict[str, Any]:
        names = schema["propertyNames"]
        named = cast("dict[str, Any]", names) if isinstance(names, dict) else {}
        if named.keys() == {"$ref"}:
            names, _ = self._references.look_up(place.resolver, named["$ref"], join(place.pointer, "propertyNames"))
        rest = said_otherwise(schema, names)
        return schema if rest is None else rest

    def _restricts(self, key: str, value: Any, schema: Mapping[str, Any], place: _Place) -> bool:
        """Whether a keyword restricts answers. Raises SchemaFault for one that the engine cannot enforce."""
        if key in keywords.ANNOTATIONS or key in keywords.RESOURCES:
            return False
        if key in keywords.DEPENDENT:
            return False  # the keyword that gives it a meaning is refused
        if key in keywords.UNSUPPORTED:
            if any(value is asks or value == asks == {} for asks in keywords.EFFECTLESS.get(key, ())):
                return False
            if key == "if" and not ("then" in schema or "else" in schema):
                return False
            raise SchemaFault(join(place.pointer, key), f"is not supported by the engine; {keywords.UNSUPPORTED[key]}")
        if key == "format" and isinstance(value, str) and value not in keywords.FORMATS:
            self._note(f"format {value[:40]!r} is not enforced", place)
            return False
        if key == "additionalItems":
            return isinstance(schema.get("items"), list)
        if key in _SIMPLE or key in keywords.IN_PLACE:
            return True
        if key != "id" or not self._is_draft_4:
            self._note(f"unknown keyword {key[:40]!r} is not enforced", place)
        return False

    def _note(self, words: str, place: _Place) -> None:
        self._notes.setdefault(f"{words} ({place.pointer[:120]})")

    # ------------------------------------------------------------ keywords that are intersected with the others

    def _in_place(self, key: str, value: Any, given: Mapping[str, Any], place: _Place) -> Any:
        if key == "$ref":
            name = self._definition(value, place)
            if place.merged or any(other not in (key, "type") for other in given):
                self.found_merged.add(name)
            return f"#/$defs/{name}"
        if key == "const":
            check_numbers(value, place.at(key).pointer)
            return value
        if key == "enum":
            if not isinstance(value, list) or not value:
                raise SchemaFault(join(place.pointer, key), "must be a list of at least one value")
            check_numbers(cast("list[Any]", value), place.at(key).pointer)
            return cast("list[Any]", value)
        merged = (
            place.merged or (len(value) > 1 and key == "allOf") or any(other not in (key, "type") for other in given)
        )
        return self._list(key, value, place, merged=merged)

    def _definition(self, reference: object, place: _Place) -> str:
        """The name of what a reference stands for; it is written later."""
        contents, resolver = self._references.look_up(place.resolver, reference, place.pointer)
        name = self._names.get(id(contents))
        if name is None:
            name = f"{self._prefix}{len(self._names)}"
            self._names[id(contents)] = name
            shown = reference if isinstance(reference, str) and reference.startswith("#") else place.pointer
            self._waiting.append((name, contents, _Place(resolver, shown, merged=name in self._merged)))
        return name

    def _tag_branches(self, branches: Sequence[Any], discriminator: Any) -> None:
        """Remember which property tells the branches of a `oneOf` apart, as OpenAPI and pydantic say it."""
        tag: Any = (
            cast("dict[str, Any]", discriminator).get("propertyName") if isinstance(discriminator, dict) else None
        )
        for branch in cast("Sequence[dict[str, Any]]", branches) if isinstance(tag, str) else ():
            if branch and "$ref" in branch:
                self._tags[branch["$ref"].removeprefix("#/$defs/"), tag] = None

    def _check_data(self, given: Mapping[str, Any], place: _Place) -> None:
        """The engine intersects objects of `const` and `enum` with other keywords, but not exactly."""
        others = place.merged or any(key not in ("const", "enum", "type") for key in given)
        for key in ("const", "enum"):
            if key in given and (others or ("const" in given and "enum" in given)) and has_object(given[key]):
                raise SchemaFault(
                    join(place.pointer, key),
                    "holds an object and stands beside other keywords; leave those out, or describe the object by "
                    "properties",
                )

    # ------------------------------------------------------------ the other keywords

    def _simple(self, key: str, value: Any, place: _Place, *, merged: bool) -> Any:
        pointer = join(place.pointer, key)
        if key in keywords.SCHEMA_LISTS or (key == "items" and isinstance(value, list)):
            return self._list(key, value, place)
        if key in keywords.SCHEMA_MAPS:
            if not isinstance(value, dict):
                raise SchemaFault(pointer, "must be an object of schemas")
            return {
                name: self._write(inner, place.at(key, name)) for name, inner in cast("dict[str, Any]", value).items()
            }
        if key in keywords.SCHEMAS:
            return self._write(value, place.at(key))
        return plain_value(key, value, pointer, draft_4=self._is_draft_4, merged=merged)

    def _list(self, key: str, value: Any, place: _Place, *, merged: bool = False) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise SchemaFault(join(place.pointer, key), "must be a list of at least one schema")
        items = cast("list[Any]", value)
        return [self._write(inner, place.at(key, index, merged=merged)) for index, inner in enumerate(items)]

    # ------------------------------------------------------------ objects

    def _other_names(self, simple: dict[str, Any], place: _Place, *, merged: bool) -> dict[str, Any]:
        """Make the engine hold the names that are not in `properties`, by a pattern (other_names.py).

        Names with a pattern it gets right where it does not combine the schema with others, or only with such that
        allow any name; what cannot be said otherwise is refused.
        """
        if not any(key in simple for key in keywords.OBJECT_KEYWORDS):
            return simple
        named = simple.get("properties", {})
        required = simple.get("required", ())
        patterns: dict[str, Any] = simple.pop("patternProperties", {})
        others = simple.pop("additionalProperties", True)
        least = simple.get("minProperties", 0)
        if least > len(set(required)) + 1:
            raise SchemaFault(
                join(place.pointer, "minProperties"),
                "can demand at most one property more than those in required of the same schema; name the others there",
            )
        if patterns and (others is not False or merged):
            if all(inner in (True, {}) for inner in patterns.values()) and others in (True, {}):
                patterns = {}  # they restrict nothing
            else:
                raise SchemaFault(
                    join(place.pointer, "patternProperties"),
                    "needs additionalProperties false beside it, and cannot stand in a schema that is combined with "
                    "others by allOf, anyOf, oneOf or $ref",
                )
        if patterns:
            for name in named:
                for pattern, inner in patterns.items():
                    if inner not in (True, {}) and self._matches(pattern, name):
                        named[name] = {"allOf": [named[name], inner]}
            return simple | {"patternProperties": patterns, "additionalProperties": False}
        if others not in (True, {}):
            self.found_restricted |= merged
            if others is False or merged or not (named or required):
                return simple | {"additionalProperties": others}
            return simple | {"patternProperties": {other_names(named): others}, "additionalProperties": False}
        if not (named or required) or (merged and self._restricted):
            return simple
        return simple | {"patternProperties": {ANY_NAME: True}, "additionalProperties": False}


_SIMPLE: Final = frozenset(
    (
        *keywords.SCHEMA_LISTS, *keywords.SCHEMA_MAPS, *keywords.SCHEMAS, *keywords.NUMBERS, *keywords.COUNTS,
        *keywords.LENGTHS, *("type", "required", "pattern", "format"),
    )
) - frozenset(keywords.IN_PLACE)  # fmt: skip
