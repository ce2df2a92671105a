"""The codec between the main process and the one that renders chat templates (render_job.py).

What crosses the boundary is a conversation in and prompt parts out, each with the origin of its text. Bytes of images
and exact ids do not cross: the process gets numbers in their place, and `decode_parts` puts the things themselves
there. Knows nothing of Jinja.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

import attrs
import msgspec

from muse.api.images import Picture, PlacedImage
from muse.api.message import Message, Role
from muse.api.template_options import TemplateOptions
from muse.api.tools import Tool, ToolCall
from muse.chat.pictures import pictures_in
from muse.chat.splice import KnownAnswer, PromptPart
from muse.errors import EnvironmentFault, JsonScalar
from muse.protocol import IdsSegment, ImageSegment, Ready, TextSegment

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
    """number: of _IDS the message whose ids stand there, of _IMAGE which image of the conversation."""

    kind: int
    origin: int
    text: str
    number: int


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
    return msgspec.msgpack.encode(
        _Request(
            template=template,
            messages=[
                _Message(
                    role=message.role,
                    content=message.content,
                    name=message.name,
                    images=tuple(image.offset for image in message.images),
                    tool_calls=message.tool_calls,
                    tool_call_id=message.tool_call_id,
                )
                for message in messages
            ],
            tools=tuple(tools),
            options=json.dumps(options.values),
            reasoning_effort=options.reasoning_effort,
            now=now.isoformat(),
            zone_name=now.tzname() or "",
            known=[_Known(index, answer.header, answer.reasoning) for index, answer in known.items() if answer.ids],
            ids_with_images=ids_with_images,
        )
    )


def decode_parts(data: bytes, messages: Sequence[Message], known: Mapping[int, KnownAnswer]) -> tuple[PromptPart, ...]:
    """The prompt parts of this conversation. Raises ValueError or LookupError for what the job does not write."""
    pictures = [image.picture for _, image in pictures_in(messages)]

    def part_of(part: _Part) -> PromptPart:
        if part.kind == _IDS:
            answer = known[part.number]
            return PromptPart(segment=IdsSegment(ids=answer.ids), origin=part.origin, spelled=answer.spelled)
        if part.kind == _IMAGE:
            picture = pictures[part.number]
            return PromptPart(segment=ImageSegment(image=picture.base64, sha256=picture.sha256), origin=part.origin)
        return PromptPart(segment=TextSegment(text=part.text, special=part.kind == _SPECIAL_TEXT), origin=part.origin)

    return tuple(map(part_of, msgspec.msgpack.decode(data, type=list[_Part])))


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
        return msgspec.msgpack.encode([_encoded(part) for part in parts])
    except UnicodeEncodeError as fault:
        raise EnvironmentFault(
            "template_unsupported", "The model's chat template writes half of a surrogate pair, which is no text."
        ) from fault


def _encoded(part: PromptPart) -> _Part:
    match part.segment:
        case TextSegment(text=text, special=special):
            return _Part(_SPECIAL_TEXT if special else _TEXT, part.origin, text, 0)
        case IdsSegment(ids=ids):
            return _Part(_IDS, part.origin, "", ids[0])
        case ImageSegment(sha256=number):
            return _Part(_IMAGE, part.origin, "", int(number))
