"""Rendering of chat templates as isolated jobs (muse/isolated): both sides' codec, and the jobs themselves.

What crosses the boundary is a conversation in and prompt parts out, each with the origin of its text. Bytes of images
and exact ids do not cross: the process gets numbers in their place, and `decode_parts` puts the things themselves
there.

JOBS: `compile` takes the bytes of `encode_template`, `render` those of `encode_request`. Both raise what ChatTemplate
raises. A compiled template is kept in the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

import msgspec

from muse.api.images import Picture, PlacedImage
from muse.api.message import Message, Role
from muse.api.template_options import TemplateOptions
from muse.api.tools import Tool, ToolCall
from muse.chat.pictures import pictures_in
from muse.chat.splice import KnownAnswer, PromptPart
from muse.chat.template import ChatTemplate
from muse.errors import EnvironmentFault, JsonScalar
from muse.protocol import IdsSegment, ImageSegment, Ready, TextSegment

_TEXT: Final = 0
_SPECIAL_TEXT: Final = 1
_IDS: Final = 2
_IMAGE: Final = 3


class _Template(msgspec.Struct, frozen=True, array_like=True):
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
    template = _Template(model.chat_template, model.bos_token, model.eos_token, model.special_tokens)
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


@lru_cache(maxsize=4)
def _template_of(encoded: bytes) -> ChatTemplate:
    """The template, compiled once: a large one takes up to 0.3 s."""
    template = msgspec.msgpack.decode(encoded, type=_Template)
    if template.source is None:
        return ChatTemplate.fallback(special_tokens=template.special_tokens)
    return ChatTemplate.compile(
        template.source,
        bos_token=template.bos_token,
        eos_token=template.eos_token,
        special_tokens=template.special_tokens,
    )


def _compile(payload: bytes) -> bytes:
    _template_of(payload)
    return b""


def _render(payload: bytes) -> bytes:
    request = msgspec.msgpack.decode(payload, type=_Request)
    template = _template_of(request.template)
    messages = _messages_of(request)
    known = {
        # The number of the message stands for its ids.
        answer.message: KnownAnswer(ids=(answer.message,), header=answer.header, reasoning=answer.reasoning)
        for answer in request.known
    }
    if any(message.images for message in messages) and not request.ids_with_images:
        # Ids will be spelled out, and all of the prompt read as one text.
        template.check_spellings(messages)
        known = {index: answer for index, answer in known.items() if template.spelled_in(answer.reasoning) is None}
    values: list[tuple[str, JsonScalar]] = [(name, value) for name, value in json.loads(request.options)]
    options = TemplateOptions(values=tuple(values), reasoning_effort=request.reasoning_effort)
    parts = template.render_parts(messages, _date_of(request), options, request.tools, known)
    try:
        return msgspec.msgpack.encode([_encoded(part) for part in parts])
    except UnicodeEncodeError as fault:
        raise EnvironmentFault(
            "template_unsupported", "The model's chat template writes half of a surrogate pair, which is no text."
        ) from fault


def _messages_of(request: _Request) -> tuple[Message, ...]:
    count = 0

    def placed(offset: int) -> PlacedImage:
        nonlocal count
        # The number of the image stands for its identity; templates see neither bytes nor size.
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


def _date_of(request: _Request) -> datetime:
    now = datetime.fromisoformat(request.now)
    return now.replace(tzinfo=timezone(now.utcoffset() or timedelta(), request.zone_name))


def _encoded(part: PromptPart) -> _Part:
    match part.segment:
        case TextSegment(text=text, special=special):
            return _Part(_SPECIAL_TEXT if special else _TEXT, part.origin, text, 0)
        case IdsSegment(ids=ids):
            return _Part(_IDS, part.origin, "", ids[0])
        case ImageSegment(sha256=number):
            return _Part(_IMAGE, part.origin, "", int(number))


JOBS: Final = {"compile": _compile, "render": _render}
