"""A JSON object as text: where its members stand, whatever their values are.

Constrained decoding may write any JSON: numbers beyond doubles or of thousands of digits, a name twice, lists inside
lists without end, halves of surrogate pairs. `muse.strict_json` reads none of these. Here nothing becomes a value, so
nothing can overflow, and nesting is no recursion. Linear in the text.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal

import attrs

from muse.strict_json import replace_surrogates

_STRING: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_WORD: Final = r"true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_SPACE: Final = r"[ \t\r\n]*+"
_TOKEN: Final = re.compile(rf"{_SPACE}(?:({_STRING}){_SPACE}:|({_STRING}|{_WORD})|([\[\]{{}},]))")
_NAME: Final = 1
_PLAIN: Final = 2
"""A value without parts."""
_END: Final = re.compile(rf"{_SPACE}\Z")
_CLOSES: Final = {"[": "]", "{": "}"}
_Due = Literal["value", "first value", "name", "first name", "comma"]
"""What may come; or the end of what is open, but for `value` and `name`."""


@attrs.frozen
class ObjectText:
    """members: name and value of each, in their order, a name maybe twice; the value as JSON text. values: members and
    elements at any depth."""

    members: tuple[tuple[str, str], ...]
    values: int


def read_object_text(text: str, *, most_values: int | None = None) -> ObjectText:
    """Read one JSON object (RFC 8259). Raises ValueError for anything else, also for a text that is cut off, and as
    soon as there are more than `most_values`."""
    found: list[tuple[str, str]] = []
    closing: list[str] = []  # of what is open
    values = begin = position = 0
    name = ""
    due: _Due = "value"
    while closing or due == "value":
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError("no JSON")
        kind, position = token.lastindex or 0, token.end()
        word = token[kind]
        if kind == _NAME and due in ("name", "first name"):
            name, due = word if len(closing) == 1 else name, "value"
            continue
        if word == "," and due == "comma":
            due = "name" if closing[-1] == "}" else "value"
            continue
        if due in ("value", "first value") and (kind == _PLAIN or word in _CLOSES):
            if not closing and word != "{":
                raise ValueError("no object")
            values += 1
            if most_values is not None and values - 1 > most_values:
                raise ValueError("too many values")
            begin = token.start(kind) if len(closing) == 1 else begin
            if kind != _PLAIN:
                closing.append(_CLOSES[word])
                due = "first value" if word == "[" else "first name"
                continue
        elif [word] == closing[-1:] and due in ("first value", "first name", "comma"):
            closing.pop()
        else:
            raise ValueError("no JSON")
        due = "comma"
        if len(closing) == 1:
            found.append((replace_surrogates(json.loads(name)), text[begin:position]))
    if not _END.match(text, position):
        raise ValueError("more than an object")
    return ObjectText(tuple(found), values - 1)
