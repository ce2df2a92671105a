"""Values of keywords in which no schemas stand: their types, and the limits of the engine."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, cast

from muse.structured import keywords
from muse.structured.faults import SchemaFault, join

LARGEST_EXACT: Final = 2**53
"""Beyond it the engine's numbers, doubles, leave integers out."""
MAX_COUNT: Final = 1_000
"""Of elements and properties that a schema may demand or limit: a grammar repeats its parts so often."""
MAX_MULTIPLE: Final = 10_000
"""Of the digits of `multipleOf`: the engine makes a state for each remainder, 1.2 million take it 25 s."""
MAX_MERGED_MULTIPLE: Final = 100
"""The same where several are combined: the engine then has as many states as their product."""


def plain_value(key: str, value: Any, pointer: str, *, draft_4: bool, merged: bool) -> Any:
    """The value of a keyword without schemas in it, as the engine gets it. draft_4: of JSON Schema. merged: the engine
    intersects it with others. Raises SchemaFault."""
    if key in keywords.NUMBERS:
        if isinstance(value, bool) and draft_4 and key.startswith("exclusive"):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaFault(pointer, "must be a number")
        check_numbers(value, pointer)
        if key == "multipleOf":
            if value <= 0:
                raise SchemaFault(pointer, "must be above 0")
            number = Decimal(repr(value)).normalize()
            _, digits, exponent = number.as_tuple()
            size = int("".join(map(str, digits))) * 10 ** max(int(exponent), 0)
            most = MAX_MERGED_MULTIPLE if merged else MAX_MULTIPLE
            if size > most:
                beside = " beside other keywords that it is combined with" if merged else ""
                raise SchemaFault(pointer, f"has too many digits for the engine; up to {most} go{beside}")
    elif key in keywords.COUNTS or key in keywords.LENGTHS:
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
            raise SchemaFault(pointer, "must be an integer of at least 0")
        if key in keywords.COUNTS and value > MAX_COUNT:
            raise SchemaFault(pointer, f"must be at most {MAX_COUNT}")
        return int(value)
    elif key == "type":
        names = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not names or not all(name in keywords.TYPES for name in names if isinstance(name, str)):
            raise SchemaFault(pointer, f"must be one or several of {', '.join(keywords.TYPES)}")
        if not all(isinstance(name, str) for name in names):
            raise SchemaFault(pointer, "must be a string or a list of strings")
    elif key == "required":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[Any]", value)):
            raise SchemaFault(pointer, "must be a list of strings")
    elif not isinstance(value, str):
        raise SchemaFault(pointer, "must be a string")
    return cast("Any", value)


def check_numbers(value: Any, pointer: str) -> None:
    """Numbers of data must be exact in the engine. Raises SchemaFault."""
    if isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            check_numbers(item, f"{pointer}/{index}")
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            check_numbers(item, join(pointer, key))
    elif isinstance(value, int | float) and abs(value) > LARGEST_EXACT:
        raise SchemaFault(
            pointer, f"is {value!r}: the engine rounds numbers beyond 2^53 ({LARGEST_EXACT}); use a string for them"
        )


def has_object(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_object, cast("list[Any]", value)))
    return isinstance(value, dict)
