"""Messages of a conversation: their checked form, and how the JSON form becomes it.

The product keeps text only for now: pictures and tools are refused by name. `developer` is the newer
name of `system` and becomes it, because chat templates know only the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, cast

import attrs

from muse.api.fields import Offenders, invalid_type, invalid_value, member, read_object, read_text
from muse.errors import ClientFault

Role = Literal["system", "user", "assistant"]

MAX_MESSAGES: Final = 32_768
"""A message costs a template at least four tokens, and the longest context that we serve has 131,072."""

_MAX_NAME_CHARS: Final = 64
"""OpenAI's limit."""

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TOOL_ROLES: Final = ("tool", "function")
_TOOLS_REASON: Final = "needs tools, which this server does not take yet"

# Official clients echo an answer with all its fields. Each of these says nothing while it is null or empty.
_SILENT_WHEN_EMPTY: Final[Mapping[str, str]] = {
    "tool_calls": _TOOLS_REASON,
    "tool_call_id": _TOOLS_REASON,
    "function_call": _TOOLS_REASON,
    "refusal": "is not supported",
    "annotations": "is not supported",
    "audio": "is not supported: this server takes text only",
    "reasoning_content": "is not supported yet: reasoning is no part of later prompts",
}
_PART_REASONS: Final[Mapping[str, str]] = {
    "image_url": "is a picture, which this build does not take yet",
    "input_audio": "is audio: this server takes text only",
    "file": "is a file: this server takes text only",
    "refusal": "is a refusal: send its text as a text part",
}


@attrs.define(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. content: all of its text (may be empty), text parts joined with nothing between them.
    name: who speaks, 1 to 64 characters."""

    role: Role
    content: str
    name: str | None = None


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
    return tuple(_parse_message(item, f"messages[{index}]", offenders) for index, item in enumerate(items))


def _parse_message(value: object, path: str, offenders: Offenders) -> Message:
    fields = read_object(value, path)
    role = _parse_role(fields, path, offenders)
    content = _parse_content(fields.get("content"), role, f"{path}.content", offenders)
    name = fields.get("name")
    if name is not None:
        name = read_text(name, f"{path}.name")
        if not 1 <= len(name) <= _MAX_NAME_CHARS:
            raise invalid_value(f"{path}.name", f"must have 1 to {_MAX_NAME_CHARS} characters")
    for key, extra in fields.items():
        if key in _SILENT_WHEN_EMPTY:
            if extra is not None and extra != []:
                offenders.add_unsupported(member(path, key), _SILENT_WHEN_EMPTY[key])
        elif key not in ("role", "content", "name"):
            offenders.add_unknown(member(path, key))
    return Message(role=role, content=content, name=name)


def _parse_role(fields: Mapping[str, object], path: str, offenders: Offenders) -> Role:
    if "role" not in fields:
        raise ClientFault("missing_required_parameter", f"'{path}.role' is missing.", param=f"{path}.role")
    role = read_text(fields["role"], f"{path}.role")
    if role in _TOOL_ROLES:
        offenders.add_unsupported(f"{path}.role", _TOOLS_REASON)
        return "user"
    if role not in _ROLES:
        raise invalid_value(f"{path}.role", "must be one of system, developer, user, assistant")
    return _ROLES[role]


def _parse_content(value: object, role: Role, path: str, offenders: Offenders) -> str:
    if value is None:
        # An assistant turn may have had nothing to say; a client that says nothing has made a mistake.
        if role == "assistant":
            return ""
        raise invalid_type(path, "a string or a list of parts")
    if isinstance(value, str):
        return read_text(value, path)
    if not isinstance(value, list):
        raise invalid_type(path, "a string or a list of parts")
    parts = cast("list[object]", value)
    if not parts:
        raise invalid_value(path, "must hold at least one part")
    return "".join(_parse_part(part, f"{path}[{index}]", offenders) for index, part in enumerate(parts))


def _parse_part(value: object, path: str, offenders: Offenders) -> str:
    fields = read_object(value, path)
    kind = read_text(fields.get("type"), f"{path}.type")
    if kind in _PART_REASONS:
        offenders.add_unsupported(path, _PART_REASONS[kind])
        return ""
    if kind != "text":
        raise invalid_value(f"{path}.type", "must be text")
    for key in fields:
        if key not in ("type", "text"):
            offenders.add_unknown(member(path, key))
    return read_text(fields.get("text"), f"{path}.text")
