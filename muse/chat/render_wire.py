"""The codec between the main process and the one that renders chat templates (render_job.py).

What crosses the boundary is a conversation in and prompt parts out, each with the origin of its text. Bytes of images
and exact ids do not cross: the process gets numbers in their place, and `decode_parts` puts the things themselves
there. Knows nothing of Jinja.

The main process encodes and decodes in pieces, each of which takes a few ms at most: one call for all of a long
conversation would keep the interpreter lock, and with it the event loop.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final, cast

import attrs
import msgspec

from muse.api.images import Picture, PlacedImage
from muse.api.message import Message, Role, call_chars
from muse.api.template_options import TemplateOptions
from muse.api.tools import Tool, ToolCall
from muse.chat.pictures import pictures_in
from muse.chat.splice import KnownAnswer, PromptPart
from muse.errors import EnvironmentFault, JsonScalar
from muse.protocol import IdsSegment, ImageSegment, Ready, TextSegment
from muse.sizes import PIECE_CHARS

_TEXT: Final = 0
_SPECIAL_TEXT: Final = 1
_IDS: Final = 2
_IMAGE: Final = 3


class WireTemplate(msgspec.Struct, frozen=True, array_like=True):
    """A model's template, None for ours, and the spellings of its tokens."""

    source: str | None
    bos_token: str
    eos_token: str
    special_tokens: tuple[str, ...]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """images: before which characters of the content they stand."""

    role: Role
    content: str
    name: str | None
    images: tuple[int, ...]
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None


class _Known(msgspec.Struct, frozen=True, array_like=True):
    """A known answer without its ids."""

    message: int
    header: str
    reasoning: str


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """template: as `encode_template` gives it. options: values as JSON, whose numbers may be of any size. now: ISO
    8601. ids_with_images: whether the engine takes exact ids beside images."""

    template: bytes
    messages: list[_Message]
    tools: tuple[Tool, ...]
    options: str
    reasoning_effort: str | None
    now: str
    zone_name: str
    known: list[_Known]
    ids_with_images: bool


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """number: of _IDS the message whose ids stand there, of _IMAGE which image of the conversation. goes_on: the rest
    of the text is in the next one."""

    kind: int
    origin: int
    text: str
    number: int
    goes_on: bool = False


_BATCH: Final = 1024
"""Parts that are decoded at a time."""
_encode: Final = msgspec.msgpack.Encoder().encode
_HEAD: Final = struct.Struct("!BI")
"""Of a long value in msgpack: its kind, and bytes of text, elements, or pairs."""
_STR32, _ARRAY32, _MAP32 = 0xDB, 0xDD, 0xDF


# ---------------------------------------------------------------- the main process's side


def encode_template(model: Ready) -> bytes:
    """A model's template and tokens. Raises EnvironmentFault `template_invalid` for what is no text."""
    template = WireTemplate(model.chat_template, model.bos_token, model.eos_token, model.special_tokens)
    try:
        return msgspec.msgpack.encode(template)
    except UnicodeEncodeError as fault:
        raise EnvironmentFault(
            "template_invalid", "The model's chat template cannot be used: it holds half of a surrogate pair."
        ) from fault


def encode_request(
    template: bytes,
    messages: Sequence[Message],
    now: datetime,
    options: TemplateOptions,
    tools: Sequence[Tool],
    known: Mapping[int, KnownAnswer],
    *,
    ids_with_images: bool,
) -> bytes:
    """The arguments of ChatTemplate.render_parts, and what the engine supports."""
    return b"".join(  # lets the lock go
        _pieces(
            _Request(
                template=template,
                messages=_wired(messages),
                tools=tuple(tools),
                options=json.dumps(options.values),
                reasoning_effort=options.reasoning_effort,
                now=now.isoformat(),
                zone_name=now.tzname() or "",
                known=[_Known(index, answer.header, answer.reasoning) for index, answer in known.items() if answer.ids],
                ids_with_images=ids_with_images,
            )
        )
    )


def _wired(messages: Sequence[Message]) -> list[_Message]:
    return [
        _Message(
            role=message.role,
            content=message.content,
            name=message.name,
            images=tuple(image.offset for image in message.images),
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
        )
        for message in messages
    ]


def _pieces(value: object) -> Iterator[bytes]:
    """What one call of the encoder would give."""
    match value:
        case str() if len(value) > PIECE_CHARS:
            texts = [value[start : start + PIECE_CHARS].encode() for start in range(0, len(value), PIECE_CHARS)]
            yield _HEAD.pack(_STR32, sum(map(len, texts)))
            yield from texts
        case _Message(content=content, tool_calls=calls) if len(content) + call_chars(calls) <= PIECE_CHARS:
            yield _encode(value)
        case list() | tuple():
            yield from _array(cast("Sequence[object]", value))
        case msgspec.Struct():
            yield from _array([getattr(value, name) for name in value.__struct_fields__])
        case Tool() | ToolCall():
            fields = attrs.asdict(value, recurse=False)
            yield _HEAD.pack(_MAP32, len(fields))
            for name, inner in fields.items():
                yield _encode(name)
                yield from _pieces(inner)
        case _:
            yield _encode(value)


def _array(values: Sequence[object]) -> Iterator[bytes]:
    yield _HEAD.pack(_ARRAY32, len(values))
    for value in values:
        yield from _pieces(value)


def decode_parts(
    data: bytes | bytearray, messages: Sequence[Message], known: Mapping[int, KnownAnswer]
) -> tuple[PromptPart, ...]:
    """The prompt parts of this conversation. Raises ValueError or LookupError for what the job does not write."""
    pictures = [image.picture for _, image in pictures_in(messages)]

    def part_of(part: _Part, text: str) -> PromptPart:
        if part.kind == _IDS:
            answer = known[part.number]
            return PromptPart(segment=IdsSegment(ids=answer.ids), origin=part.origin, spelled=answer.spelled)
        if part.kind == _IMAGE:
            picture = pictures[part.number]
            return PromptPart(segment=ImageSegment(image=picture.base64, sha256=picture.sha256), origin=part.origin)
        return PromptPart(segment=TextSegment(text=text, special=part.kind == _SPECIAL_TEXT), origin=part.origin)

    parts: list[PromptPart] = []
    texts: list[str] = []
    for batch in msgspec.msgpack.decode(data, type=list[msgspec.Raw]):
        for part in msgspec.msgpack.decode(batch, type=list[_Part]):
            texts.append(part.text)
            if not part.goes_on:
                parts.append(part_of(part, "".join(texts)))
                texts.clear()
    if texts:
        raise ValueError("the end of a text is missing")
    return tuple(parts)


# ---------------------------------------------------------------- the isolated process's side


@attrs.frozen(kw_only=True)
class Rendering:
    """A request as the process has it. template: as `encode_template` gave it. known: numbers of messages stand for
    their ids; those of images stand for their identity."""

    template: bytes
    messages: tuple[Message, ...]
    now: datetime
    options: TemplateOptions
    tools: tuple[Tool, ...]
    known: Mapping[int, KnownAnswer]
    ids_with_images: bool


def decode_template(data: bytes) -> WireTemplate:
    """What `encode_template` was given."""
    return msgspec.msgpack.decode(data, type=WireTemplate)


def decode_request(data: bytes) -> Rendering:
    """What `encode_request` was given."""
    request = msgspec.msgpack.decode(data, type=_Request)
    now = datetime.fromisoformat(request.now)
    values: list[tuple[str, JsonScalar]] = [(name, value) for name, value in json.loads(request.options)]
    return Rendering(
        template=request.template,
        messages=_messages_of(request),
        now=now.replace(tzinfo=timezone(now.utcoffset() or timedelta(), request.zone_name)),
        options=TemplateOptions(values=tuple(values), reasoning_effort=request.reasoning_effort),
        tools=request.tools,
        known={
            answer.message: KnownAnswer(ids=(answer.message,), header=answer.header, reasoning=answer.reasoning)
            for answer in request.known
        },
        ids_with_images=request.ids_with_images,
    )


def _messages_of(request: _Request) -> tuple[Message, ...]:
    count = 0

    def placed(offset: int) -> PlacedImage:
        nonlocal count
        # Templates see neither bytes nor size.
        picture = Picture(base64="", sha256=str(count), kind="png", width=1, height=1)
        count += 1
        return PlacedImage(offset=offset, picture=picture)

    return tuple(
        Message(
            role=message.role,
            content=message.content,
            name=message.name,
            images=tuple(map(placed, message.images)),
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
        )
        for message in request.messages
    )


def encode_parts(parts: Sequence[PromptPart]) -> bytes:
    """The prompt parts of a decoded request. Raises EnvironmentFault `template_unsupported` for what is no text."""
    try:
        return _encode(list(_batches(parts)))
    except UnicodeEncodeError as fault:
        raise EnvironmentFault(
            "template_unsupported", "The model's chat template writes half of a surrogate pair, which is no text."
        ) from fault


def _batches(parts: Sequence[PromptPart]) -> Iterator[list[_Part]]:
    """Of at most _BATCH parts and about PIECE_CHARS characters."""
    batch: list[_Part] = []
    chars = 0
    for part in parts:
        for encoded in _encoded(part):
            batch.append(encoded)
            chars += len(encoded.text)
            if len(batch) == _BATCH or chars >= PIECE_CHARS:
                yield batch
                batch, chars = [], 0
    yield batch


def _encoded(part: PromptPart) -> Iterator[_Part]:
    match part.segment:
        case TextSegment(text=text, special=special):
            kind = _SPECIAL_TEXT if special else _TEXT
            last = max(0, len(text) - 1) // PIECE_CHARS * PIECE_CHARS
            for start in range(0, last, PIECE_CHARS):
                yield _Part(kind, part.origin, text[start : start + PIECE_CHARS], 0, goes_on=True)
            yield _Part(kind, part.origin, text[last:], 0)
        case IdsSegment(ids=ids):
            yield _Part(_IDS, part.origin, "", ids[0])
        case ImageSegment(sha256=number):
            yield _Part(_IMAGE, part.origin, "", int(number))
