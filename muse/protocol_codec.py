"""Worker protocol: messages to lines and back. What the messages mean is in protocol.py."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from typing import Any, Final, cast

import attrs
import cattrs
from cattrs.errors import CattrsError
from cattrs.strategies import configure_tagged_union

from muse.json_pieces import text_pieces, utf8
from muse.protocol import (
    Count,
    Generate,
    IdsSegment,
    ImageSegment,
    Segment,
    TextSegment,
    WorkerCommand,
    WorkerEvent,
)
from muse.sizes import PIECE_CHARS


class ProtocolError(ValueError):
    """A line that is not one of the protocol's messages. `known` false: JSON with an unknown tag, which a
    reader logs and skips; true: not JSON or wrong fields, after which the peer cannot be trusted."""

    def __init__(self, reason: str, *, known: bool) -> None:
        super().__init__(reason)
        self.known = known


def _exact(kind: type) -> Any:
    """Structure hook without coercion: a wrong JSON type is an error, a bool is no number."""

    def structure(value: Any, _type: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return structure


def _structure_ids(value: Any, _type: Any) -> tuple[int, ...]:
    items = cast("list[Any]", value)
    # One look at all types: a call for each of 131,072 ids would take 10 ms.
    if not isinstance(value, list) or not set(map(type, items)) <= {int}:
        raise TypeError("expected a list of integers")
    return tuple(items)


def _structure_segment(value: Any, _type: Any) -> Segment:
    if not isinstance(value, dict):
        raise TypeError("a prompt segment is an object")
    for key, kind in (("text", TextSegment), ("ids", IdsSegment), ("image", ImageSegment)):
        if key in value:
            return _converter.structure(value, kind)
    raise TypeError("a prompt segment has text, ids or image")


def _tag(cls: type) -> str:
    return cls.__name__.lower()


_converter = cattrs.Converter(detailed_validation=False)
for _kind in (str, int, float, bool):
    _converter.register_structure_hook(_kind, _exact(_kind))
_converter.register_structure_hook_func(lambda kind: kind == tuple[int, ...], _structure_ids)
_converter.register_structure_hook(Segment, _structure_segment)
configure_tagged_union(WorkerEvent, _converter, tag_generator=_tag, tag_name="event")
configure_tagged_union(WorkerCommand, _converter, tag_generator=_tag, tag_name="op")

_EVENT_TAGS: Final = frozenset(map(_tag, WorkerEvent.__args__))
_COMMAND_TAGS: Final = frozenset(map(_tag, WorkerCommand.__args__))


def _decode(line: bytes, union: Any, tag_name: str, tags: frozenset[str]) -> Any:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise ProtocolError(f"not JSON: {type(fault).__name__}", known=True) from fault
    if not isinstance(value, dict):
        raise ProtocolError("not an object", known=True)
    tag: Any = value.get(tag_name)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(tag, str):
        raise ProtocolError(f"no {tag_name}", known=True)
    if tag not in tags:
        raise ProtocolError(f"unknown {tag_name} {tag[:40]!r}", known=False)
    try:
        return _converter.structure(value, union)
    except (TypeError, ValueError, KeyError, AttributeError, CattrsError) as fault:
        raise ProtocolError(f"bad {tag}: {type(fault).__name__} {str(fault)[:200]}", known=True) from fault


_NO_SEGMENTS: Final = b'"prompt_segments":[]'
_PIECE_IDS: Final = 8192
"""Ids are written in pieces, too: so many take 1 to 2 ms."""
_ID_CHARS: Final = 100
"""An id takes as long as so many characters of a text."""
_BASE64: Final = string.ascii_letters.encode() + string.digits.encode() + b"+/="


def _encode(value: Any, union: Any) -> bytes:
    # ASCII escapes keep U+2028 and lone surrogates harmless for any reader that splits lines.
    return json.dumps(_converter.unstructure(value, union), separators=(",", ":")).encode("ascii") + b"\n"


def decode_event(line: bytes) -> WorkerEvent:
    """Decode one line from a worker. Raises ProtocolError."""
    return _decode(line, WorkerEvent, "event", _EVENT_TAGS)


def encode_event(event: WorkerEvent) -> bytes:
    """Encode one event, with its newline."""
    return _encode(event, WorkerEvent)


def decode_command(line: bytes) -> WorkerCommand:
    """Decode one line to a worker. Raises ProtocolError."""
    return _decode(line, WorkerCommand, "op", _COMMAND_TAGS)


def encode_command(command: WorkerCommand) -> bytes:
    """Encode one command, with its newline, as UTF-8.

    Long texts and many ids are encoded in pieces, so that in a thread it lets the interpreter lock go every few ms: 60
    MiB of text take 0.2 s, 131,072 ids 30 to 80 ms. `prompt_chars` tells whether that is worth a thread.
    """
    if not isinstance(command, Generate | Count):
        return _encode(command, WorkerCommand)
    # In JSON the mark cannot be part of a text, whose quotes are escaped.
    head, tail = _encode(attrs.evolve(command, prompt_segments=()), WorkerCommand).split(_NO_SEGMENTS)
    parts = [head, _NO_SEGMENTS[:-1]]
    for segment in command.prompt_segments:
        parts += [*_segment_parts(segment), b","]
    if command.prompt_segments:
        parts.pop()
    return b"".join([*parts, b"]", tail])


def prompt_chars(command: WorkerCommand) -> int:
    """Characters of a command's texts and images, and its ids as if they were text: what its encoding costs."""
    if not isinstance(command, Generate | Count):
        return 0
    return sum(map(_segment_chars, command.prompt_segments))


def _segment_chars(segment: Segment) -> int:
    match segment:
        case TextSegment(text=text):
            return len(text)
        case IdsSegment(ids=ids):
            return _ID_CHARS * len(ids)
        case ImageSegment(image=image):
            return len(image)


def _segment_parts(segment: Segment) -> list[bytes]:
    match segment:
        case TextSegment(text=text, special=special):
            return [b'{"text":', *_text_parts(text), b',"special":true}' if special else b',"special":false}']
        case IdsSegment(ids=ids):
            return [b'{"ids":[', b",".join(_id_pieces(ids)), b"]}"]
        case ImageSegment(image=image, sha256=sha256):
            return [b'{"image":', *_image_parts(image), b',"sha256":', *_text_parts(sha256), b"}"]


def _id_pieces(ids: Sequence[int]) -> list[bytes]:
    return [
        ",".join(map(str, ids[start : start + _PIECE_IDS])).encode("ascii") for start in range(0, len(ids), _PIECE_IDS)
    ]


def _text_parts(text: str) -> list[bytes]:
    return [*map(utf8, text_pieces(text))]


def _image_parts(image: str) -> list[bytes]:
    # Base64 is put in as it is, which is ten times as fast.
    pieces = [utf8(image[start : start + PIECE_CHARS]) for start in range(0, len(image), PIECE_CHARS)]
    if any(piece.translate(None, _BASE64) for piece in pieces):
        return _text_parts(image)
    return [b'"', *pieces, b'"']
