"""JSON from strangers, decoded so that nothing later can be surprised by it.

`json.loads` takes more than RFC 8259 and lets through what breaks later: NaN, duplicate keys, escaped lone
surrogates (which cannot be encoded again), integers that cost quadratic time, floats that overflow to infinity,
nesting that raises RecursionError, which is no ValueError. All of it is a ClientFault `invalid_json` here.

The good path stays in C: the scanner of the standard library, with hooks that only look. A hook that sees
something bad leaves a marker in the value; only then is the value walked, to name the path.

The scanner keeps the interpreter lock. So what could make it do so for long (many values, many escapes) is counted and
refused before, by passes that let the lock go every few ms; the bytes are decoded in pieces. What is left is the length
of one text: with 64 MiB of anything the other threads stood still for at most 60 ms on an idle machine, and for about
140 ms with one text of 48 MiB at load 13.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn, TypeAlias, cast

import attrs

from muse.errors import ClientFault
from muse.sizes import JSON_ESCAPES, JSON_VALUES, PIECE_CHARS

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"

MAX_SHOWN: Final = 60
"""Characters of a path or key that a message repeats."""
_INSIDE_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
# Never backtracks, so it is linear on any input.
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD]")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def decode_json(data: bytes | bytearray, *, max_depth: int = 64, max_int_digits: int = 64) -> JsonValue:
    """Decode one JSON text in UTF-8, without a byte order mark.

    Args:
        data: the whole text.
        max_depth: lists and objects inside each other; `[]` is 1.
        max_int_digits: digits of an integer, sign not counted.

    Raises:
        ClientFault: `invalid_json`, also beyond JSON_VALUES and JSON_ESCAPES. `param` is the path
            (`messages[2].content`) where one can be named; otherwise the message says line and column.
    """
    if data.count(b"\\") > JSON_ESCAPES:
        _refuse(f"has more than {JSON_ESCAPES:,} escapes")
    if _too_many_values(data):
        _refuse(f"has more than {JSON_VALUES:,} values")
    text = _decode_text(data)
    hooks = _Hooks(max_int_digits)
    decoder = json.JSONDecoder(
        object_pairs_hook=hooks.make_object,
        parse_int=hooks.make_int,
        parse_float=hooks.make_float,
        parse_constant=hooks.make_constant,
    )
    try:
        value: JsonValue = decoder.decode(text)
    except json.JSONDecodeError as error:
        _refuse(f"is not valid: {error.msg} (line {error.lineno}, column {error.colno})")
    except RecursionError:
        _refuse(f"is nested deeper than {max_depth} levels")
    if hooks.found:
        _refuse_marked(value)
    if _deeper_than(value, max_depth):
        _refuse(f"is nested deeper than {max_depth} levels")
    # UTF-8 cannot hold half a pair, so only an escape can have made one.
    if "\\" in text and _ESCAPED_SURROGATE.search(data) and not _has_only_text(value):
        _refuse_surrogate(value)
    return value


class _Bad:
    """Stands in a decoded value where something was refused."""

    def __init__(self, what: str) -> None:
        self.what = what


class _Hooks:
    """Called by the scanner for each object and number."""

    def __init__(self, max_int_digits: int) -> None:
        self.found = False
        self._max_int_digits = max_int_digits

    def make_object(self, pairs: list[tuple[str, object]]) -> object:
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        self.found = True
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        return _Bad(f"has the key {_shown(twice)} twice")

    def make_int(self, digits: str) -> object:
        if len(digits.removeprefix("-")) <= self._max_int_digits:
            return int(digits)
        self.found = True
        return _Bad(f"is a number of more than {self._max_int_digits} digits")

    def make_float(self, digits: str) -> object:
        number = float(digits)
        if math.isfinite(number):
            return number
        self.found = True
        return _Bad("is a number too large for a double")

    def make_constant(self, name: str) -> object:
        self.found = True
        return _Bad(f"is {name}, which is not JSON")


def _decode_text(data: bytes | bytearray) -> str:
    if not data or data.isspace():
        _refuse("is empty")
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        pieces = [decoder.decode(view[start : start + PIECE_CHARS]) for start in range(0, len(data), PIECE_CHARS)]
        pieces.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError:
        _refuse(f"is not UTF-8 (byte {_first_bad_byte(data)})")
    text = "".join(pieces)
    if text.startswith("\ufeff"):
        _refuse("begins with a byte order mark")
    return text


def _first_bad_byte(data: bytes | bytearray) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError("the text is UTF-8 after all")


def _too_many_values(data: bytes | bytearray) -> bool:
    # Most long bodies hold few commas; only the others pay for a look at what stands inside their strings.
    return _count_marks(data, 0, len(data)) > JSON_VALUES and _marks_outside_strings(data, JSON_VALUES) > JSON_VALUES


def _marks_outside_strings(data: bytes | bytearray, enough: int) -> int:
    """Count them, but no further than `enough`. Strings that nothing separates count as well."""
    marks = 0
    position = 0
    while marks <= enough:
        quote = data.find(b'"', position)
        marks += 1 + _count_marks(data, position, quote if quote >= 0 else len(data))
        if quote < 0:
            return marks - 1
        position = _behind_string(data, quote + 1)
    return marks


def _behind_string(data: bytes | bytearray, position: int) -> int:
    """Where the string that begins before `position` is over."""
    while position < len(data):
        # Piece by piece, and never so that a backslash is the last byte of one.
        found = _INSIDE_STRING.match(data, position, position + PIECE_CHARS)
        assert found is not None, "it matches nothing at least"
        end = found.end()
        if data[end : end + 1] == b'"':
            return end + 1
        if end == position:
            return len(data)  # a backslash, and the end
        position = end
    return position


def _count_marks(data: bytes | bytearray, start: int, end: int) -> int:
    return data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)


def _deeper_than(value: JsonValue, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return bool(level)


def _has_only_text(value: JsonValue) -> bool:
    waiting: list[JsonValue] = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            if not is_text(found):
                return False
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            if not all(map(is_text, found)):
                return False
            waiting += found.values()
    return True


def _refuse(what: str, path: str = "") -> NoReturn:
    raise ClientFault("invalid_json", f"{path or 'The JSON body'} {what}.", param=path or None)


def _refuse_marked(value: object) -> NoReturn:
    for step, found in _walk(value):
        if isinstance(found, _Bad):
            _refuse(found.what, _path(step))
    raise AssertionError("a hook left no marker")


def _refuse_surrogate(value: object) -> NoReturn:
    for step, found in _walk(value):
        if isinstance(found, str) and not is_text(found):
            _refuse("holds half of a surrogate pair, which is no character", _path(step))
        if isinstance(found, dict):
            for key in cast("dict[str, object]", found):
                if not is_text(key):
                    _refuse(f"has the key {_shown(key)} with half of a surrogate pair", _path(step))
    raise AssertionError("nothing in the value holds a lone surrogate")


@attrs.frozen
class _Step:
    """Where a value stands: in which parent, under which key or index. Cheap to make, written out only once."""

    parent: _Step | None
    key: str | int


def _walk(value: object) -> Iterator[tuple[_Step | None, object]]:
    """Every value with its place, parents first, in document order."""
    waiting: list[tuple[_Step | None, object]] = [(None, value)]
    while waiting:
        step, found = waiting.pop()
        yield step, found
        children: Iterable[tuple[str | int, object]] = ()
        if isinstance(found, list):
            children = enumerate(cast("list[object]", found))
        elif isinstance(found, dict):
            children = cast("dict[str, object]", found).items()
        waiting += [(_Step(step, key), child) for key, child in reversed(tuple(children))]


def _path(step: _Step | None) -> str:
    parts: list[str] = []
    while step is not None:
        key = step.key
        if isinstance(key, int):
            parts.append(f"[{key}]")
        else:
            parts.append(f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{_shown(key)}]")
        step = step.parent
    return _short("".join(reversed(parts)).removeprefix("."))


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8: JSON can spell half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        for start in range(0, len(text), PIECE_CHARS):
            text[start : start + PIECE_CHARS].encode()
    except UnicodeEncodeError:
        return False
    return True


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each half of a surrogate pair; halves that belong together become a
    character."""
    return text if is_text(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _shown(key: str) -> str:
    return _short(json.dumps(key))


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."
