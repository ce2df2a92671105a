"""Messages of a conversation: their checked form, and how the JSON form becomes it.

Content is text and pictures. `developer` is the newer name of `system` and becomes it, because chat templates know
only the latter. What our own answers show beside their text (`reasoning_content`, metrics) is taken back and kept to be
shown again, and is no part of a prompt: what the model thought is there only inside the exact ids of its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, cast

import attrs

from muse.api.fields import Offenders, invalid_type, invalid_value, member, read_object, read_text
from muse.api.images import Picture, PictureReader, PlacedImage
from muse.api.message_details import DETAILS, read_detail, written_details
from muse.api.tool_messages import parse_tool_calls, read_call_id
from muse.api.tools import ToolCall
from muse.errors import ClientFault
from muse.sizes import MAX_MESSAGES, MAX_NAME_CHARS

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

# Official clients echo an answer with all its fields. Each of these says nothing while it is null or empty.
_SILENT_WHEN_EMPTY: Final[Mapping[str, str]] = {
    "function_call": "is not supported: send tool_calls",
    "refusal": "is not supported",
    "annotations": "is not supported",
    "audio": "is not supported: this server takes text and pictures",
    "tool_calls": "belongs to messages of the assistant",
    "tool_call_id": "belongs to messages of role tool",
    **dict.fromkeys((*DETAILS, "parsed"), "belongs to messages of the assistant"),
}
_PART_REASONS: Final[Mapping[str, str]] = {
    "input_audio": "is audio: this server takes text and pictures",
    "file": "is a file: this server takes text and pictures",
    "refusal": "is a refusal: send its text as a text part",
}
_SHOWN_PICTURES: Final = ("user", "tool")
"""Roles whose messages may hold pictures: no template shows the model those of others."""


@attrs.define(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. content: all of its text (may be empty), text parts joined with nothing between them.
    name: who speaks, 1 to 64 characters. images: its pictures, from left to right. tool_calls: what an assistant asked
    for. tool_call_id: of a `tool` message, which of these calls it answers. details: what is shown beside an answer, as
    JSON text, empty if nothing is (message_details.py)."""

    role: Role
    content: str
    name: str | None = None
    images: tuple[PlacedImage, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    details: str = attrs.field(default="", eq=False, repr=False)


def pictures_of(messages: Iterable[Message]) -> frozenset[Picture]:
    """All pictures of a conversation."""
    return frozenset(image.picture for message in messages for image in message.images)


MESSAGE_CHARS: Final = 256
"""What a message or a call costs beside its texts, as if it were text."""


def text_chars(messages: Iterable[Message]) -> int:
    """What a conversation costs in memory and in work, in characters, without its images."""
    return sum(
        MESSAGE_CHARS + len(message.content) + len(message.details) + call_chars(message.tool_calls)
        for message in messages
    )


def call_chars(calls: Iterable[ToolCall]) -> int:
    """The same of calls."""
    return sum(MESSAGE_CHARS + len(call.arguments) for call in calls)


def request_chars(messages: Sequence[Message]) -> int:
    """The same of a conversation with its images, in base64."""
    return text_chars(messages) + sum(len(image.picture.base64) for message in messages for image in message.images)


def content_parts(message: Message) -> Iterator[str | Picture]:
    """The content from left to right: texts, none of them empty, and pictures."""
    position = 0
    for image in message.images:
        if image.offset > position:
            yield message.content[position : image.offset]
        yield image.picture
        position = image.offset
    if position < len(message.content):
        yield message.content[position:]


def content_of(message: Message) -> str | list[dict[str, object]]:
    """The content in OpenAI's form: a string, or parts where there are pictures."""
    if not message.images:
        return message.content
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": part.data_url}}
        for part in content_parts(message)
    ]


def parse_messages(value: object, offenders: Offenders) -> tuple[Message, ...]:
    """Check the `messages` of a request: 1 to MAX_MESSAGES. Raises ClientFault for wrong values; what is
    known but not taken goes to `offenders`, and the result then counts for nothing."""
    if not isinstance(value, list):
        raise invalid_type("messages", "a list of messages")
    items = cast("list[object]", value)
    if not items:
        raise invalid_value("messages", "must hold at least one message")
    if len(items) > MAX_MESSAGES:
        raise invalid_value("messages", f"must hold at most {MAX_MESSAGES} messages")
    pictures = PictureReader()
    messages = tuple(
        _parse_message(item, f"messages[{index}]", offenders, pictures) for index, item in enumerate(items)
    )
    return _with_ordered_results(messages)


def _with_ordered_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The results of calls in the order of the calls, since templates tell them apart by nothing else.

    Each result must answer a call of the assistant's message before it, once; and once there is one, or anything else
    follows, every call must have its own. Raises ClientFault.
    """
    ordered: list[Message] = []
    calls: Mapping[str, ToolCall] = {}
    results: dict[str, Message] = {}
    asked_at = 0

    def settle() -> None:
        for number, call_id in enumerate(calls):
            if call_id not in results:
                path = f"messages[{asked_at}].tool_calls[{number}]"
                raise invalid_value(path, "has no result: a message of role tool must follow for each call")
        ordered.extend(map(results.__getitem__, calls))

    for index, message in enumerate(messages):
        if message.role == "tool":
            _check_result(message, f"messages[{index}]", calls, results)
            assert message.tool_call_id is not None
            results[message.tool_call_id] = message
        else:
            settle()
            calls, results, asked_at = {call.id: call for call in message.tool_calls}, {}, index
            ordered.append(message)
    if results:
        settle()
    return tuple(ordered)


def _check_result(message: Message, path: str, calls: Mapping[str, ToolCall], results: Mapping[str, Message]) -> None:
    call = calls.get(message.tool_call_id or "")
    if call is None or call.id in results:
        raise invalid_value(f"{path}.tool_call_id", "answers no open call of the assistant's message before it")
    if message.name not in (None, call.name):
        raise invalid_value(f"{path}.name", "is not the name of the function whose call it answers")


def _parse_message(value: object, path: str, offenders: Offenders, pictures: PictureReader) -> Message:
    fields = read_object(value, path)
    role = _parse_role(fields, path, offenders)
    content, images = _parse_content(fields.get("content"), role, f"{path}.content", offenders, pictures)
    name = fields.get("name")
    if name is not None:
        name = read_text(name, f"{path}.name")
        if not 1 <= len(name) <= MAX_NAME_CHARS:
            raise invalid_value(f"{path}.name", f"must have 1 to {MAX_NAME_CHARS} characters")
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    details: dict[str, object] = {}
    for key, extra in fields.items():
        if key in ("role", "content", "name") or (key in _SILENT_WHEN_EMPTY and extra is None):
            continue
        if key == "tool_calls" and role == "assistant":
            calls = parse_tool_calls(extra, member(path, key), offenders)
        elif key == "tool_call_id" and role == "tool":
            call_id = read_call_id(extra, member(path, key))
        elif key in DETAILS and role == "assistant":
            details[key] = read_detail(key, extra, member(path, key))
        elif key == "parsed" and role == "assistant":
            continue  # the official client's helpers put what they read of the content beside it
        elif key in _SILENT_WHEN_EMPTY:
            if extra != []:
                offenders.add_unsupported(member(path, key), _SILENT_WHEN_EMPTY[key])
        else:
            offenders.add_unknown(member(path, key))
    if role == "tool" and call_id is None:
        raise ClientFault(
            "missing_required_parameter", f"'{path}.tool_call_id' is missing.", param=f"{path}.tool_call_id"
        )
    return Message(
        role=role,
        content=content,
        name=name,
        images=images,
        tool_calls=calls,
        tool_call_id=call_id,
        details=written_details(details, path),
    )


def _parse_role(fields: Mapping[str, object], path: str, offenders: Offenders) -> Role:
    if "role" not in fields:
        raise ClientFault("missing_required_parameter", f"'{path}.role' is missing.", param=f"{path}.role")
    role = read_text(fields["role"], f"{path}.role")
    if role == "function":
        offenders.add_unsupported(f"{path}.role", "is not supported: send a message of role tool")
        return "user"
    if role not in _ROLES:
        raise invalid_value(f"{path}.role", "must be one of system, developer, user, assistant, tool")
    return _ROLES[role]


def _parse_content(
    value: object, role: Role, path: str, offenders: Offenders, pictures: PictureReader
) -> tuple[str, tuple[PlacedImage, ...]]:
    if value is None:
        # An assistant turn may have had nothing to say; a client that says nothing has made a mistake.
        if role == "assistant":
            return "", ()
        raise invalid_type(path, "a string or a list of parts")
    if isinstance(value, str):
        return read_text(value, path), ()
    if not isinstance(value, list):
        raise invalid_type(path, "a string or a list of parts")
    parts = cast("list[object]", value)
    if not parts:
        raise invalid_value(path, "must hold at least one part")
    texts: list[str] = []
    images: list[PlacedImage] = []
    length = 0
    for index, part in enumerate(parts):
        part_path = f"{path}[{index}]"
        fields = read_object(part, part_path)
        kind = read_text(fields.get("type"), f"{part_path}.type")
        if kind in _PART_REASONS:
            offenders.add_unsupported(part_path, _PART_REASONS[kind])
            continue
        if kind not in ("text", "image_url"):
            raise invalid_value(f"{part_path}.type", "must be text or image_url")
        for key in fields:
            if key not in ("type", kind):
                offenders.add_unknown(member(part_path, key))
        if kind == "text":
            texts.append(read_text(fields.get("text"), f"{part_path}.text"))
            length += len(texts[-1])
        elif role not in _SHOWN_PICTURES:
            offenders.add_unsupported(part_path, "is a picture: those belong to messages of the user or of tools")
        else:
            picture = pictures.read_part(fields.get(kind), f"{part_path}.{kind}", offenders)
            images.append(PlacedImage(offset=length, picture=picture))
    return "".join(texts), tuple(images)
