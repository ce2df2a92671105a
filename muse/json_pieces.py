"""JSON written in pieces, each of which takes a few ms at most.

One call that writes a long text, or many values, keeps the interpreter lock as long as it takes: the event loop stands
still, whichever thread makes the call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Final, cast

from muse.sizes import PIECE_CHARS

_FEW: Final = 256
_SHORT: Final = PIECE_CHARS // _FEW
"""So many values of so many characters are one piece."""
_SCALARS: Final = (int, float, bool, type(None))
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_pieces(value: object) -> Iterator[str]:
    """The JSON text of strings, numbers, true, false, null, and of dicts, lists and tuples of these, without blanks."""
    match value:
        case str():
            yield from text_pieces(value)
        case dict():
            items = cast("dict[str, object]", value)
            if _is_small(items) and _is_small(items.values()):
                yield _encode(items)
                return
            mark = "{"
            for key, inner in items.items():
                yield mark
                yield from text_pieces(key)
                yield ":"
                yield from json_pieces(inner)
                mark = ","
            yield "}"
        case list() | tuple():
            inners = cast("Sequence[object]", value)
            if _is_small(inners):
                yield _encode(inners)
                return
            mark = "["
            for inner in inners:
                yield mark
                yield from json_pieces(inner)
                mark = ","
            yield "]"
        case _:
            yield _encode(value)


def _is_small(values: Collection[object]) -> bool:
    return len(values) <= _FEW and all(
        len(value) <= _SHORT if isinstance(value, str) else type(value) in _SCALARS for value in values
    )


def text_pieces(text: str) -> Iterator[str]:
    """A text as JSON string."""
    yield '"'
    for start in range(0, len(text), PIECE_CHARS):
        yield encode_basestring(text[start : start + PIECE_CHARS])[1:-1]
    yield '"'


def utf8(piece: str) -> bytes:
    """A piece of JSON as bytes: half a surrogate pair, which UTF-8 does not have, as its escape."""
    return piece.encode("utf-8", "backslashreplace")


def json_bytes(value: object) -> bytes:
    """All pieces as UTF-8. Joining many bytes lets the lock go."""
    return b"".join(map(utf8, json_pieces(value)))


def json_text(value: object, *, most_chars: int) -> str | None:
    """All pieces as text; None if that has more characters."""
    pieces: list[str] = []
    size = 0
    for piece in json_pieces(value):
        size += len(piece)
        if size > most_chars:
            return None
        pieces.append(piece)
    return "".join(pieces)
