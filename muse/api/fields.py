"""Checks of single JSON values, and the list of fields that a request must not carry.

Every failed check is a ClientFault 400 whose `param` is the exact path of the value
(`messages[2].content`). No fault repeats a value of the client: values may be private and long.
tests/unit/test_api_chat_request.py proves that any JSON value ends in a result or in such a fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeGuard

import attrs

from muse.errors import ClientFault
from muse.strict_json import is_text

_NAMED_OFFENDERS: Final = 20
"""Offending fields named in one message; enough for any real client, and it bounds the answer."""

_NAME_CHARS: Final = 60
"""A field name is the client's text: longer ones are cut in messages."""


def is_number(value: object) -> TypeGuard[int | float]:
    """True for JSON numbers; Python's bool is an int, JSON's is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def member(path: str, name: str) -> str:
    """Path of a member: `stream_options.include_usage`. Odd names are quoted and cut, as they are the client's."""
    shown = name if name.isidentifier() and name.isascii() and len(name) <= _NAME_CHARS else _quoted(name)
    return f"{path}.{shown}" if path else shown


def _quoted(name: str) -> str:
    # json.dumps escapes control characters, surrogates and everything beyond ASCII.
    return json.dumps(name[:_NAME_CHARS] + ("..." if len(name) > _NAME_CHARS else ""))


def invalid_type(path: str, wanted: str) -> ClientFault:
    return ClientFault("invalid_type", f"'{path}' must be {wanted}.", param=path)


def invalid_value(path: str, rule: str) -> ClientFault:
    return ClientFault("invalid_value", f"'{path}' {rule}.", param=path)


def read_object(value: object, path: str) -> Mapping[str, object]:
    """A JSON object. Raises ClientFault."""
    if not isinstance(value, dict):
        raise invalid_type(path, "an object")
    return value  # pyright: ignore[reportUnknownVariableType] - JSON objects have string keys


def read_bool(value: object, path: str) -> bool:
    """true or false, and nothing that merely looks like it. Raises ClientFault."""
    if not isinstance(value, bool):
        raise invalid_type(path, "true or false")
    return value


def read_text(value: object, path: str) -> str:
    """A string that can be written as UTF-8: JSON can spell half of a surrogate pair. Raises ClientFault."""
    if not isinstance(value, str):
        raise invalid_type(path, "a string")
    if not is_text(value):
        raise invalid_value(path, "holds half of a surrogate pair, which is no text")
    return value


def read_integer(value: object, path: str, *, lowest: int, highest: int | None = None) -> int:
    """A whole number in lowest..highest (both included). Raises ClientFault."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid_type(path, "an integer")
    if value < lowest or (highest is not None and value > highest):
        raise invalid_value(path, f"must be at least {lowest}" + (f" and at most {highest}" if highest else ""))
    return value


@attrs.define(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """Allowed numbers: low..high, each end included or not."""

    low: float
    high: float
    with_low: bool = True
    with_high: bool = True

    def __contains__(self, value: int | float) -> bool:
        # NaN fails every comparison and is therefore outside.
        above = value >= self.low if self.with_low else value > self.low
        return above and (value <= self.high if self.with_high else value < self.high)

    def __str__(self) -> str:
        return (
            f"{'at least' if self.with_low else 'above'} {self.low:g} and "
            f"{'at most' if self.with_high else 'below'} {self.high:g}"
        )


def read_number(value: object, path: str, allowed: NumberRange) -> float:
    """A number within the range. Raises ClientFault."""
    if not is_number(value):
        raise invalid_type(path, "a number")
    if value not in allowed:
        raise invalid_value(path, f"must be {allowed}")
    return float(value)


class Offenders:
    """Fields of one request that this server does not take. They are gathered, so that one answer names
    all of them; `param` is the first. Wrong values are reported before them, as upstream does."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str]] = []
        self.unread_chars = 0
        """Characters of call arguments that the strict reader refused."""

    def add_unknown(self, path: str) -> None:
        """A name that means nothing here."""
        self._found.append((path, "unknown_parameter", f"'{path}' is unknown"))

    def add_unsupported(self, path: str, reason: str) -> None:
        """A known name that this server, or its model, cannot honour. reason: the rest of the sentence."""
        self._found.append((path, "unsupported_parameter", f"'{path}' {reason}"))

    def raise_if_any(self) -> None:
        """Raises ClientFault that names every offender (beyond 20: how many more)."""
        if not self._found:
            return
        path, code, _ = self._found[0]
        named = "; ".join(detail for _, _, detail in self._found[:_NAMED_OFFENDERS])
        more = len(self._found) - _NAMED_OFFENDERS
        tail = f"; and {more} more" if more > 0 else ""
        raise ClientFault(code, f"This server does not take these fields: {named}{tail}.", param=path)
