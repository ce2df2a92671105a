"""Calls of tools and their results inside a conversation: `tool_calls` of an assistant, messages of role `tool`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from muse.api.fields import Offenders, invalid_type, invalid_value, member, read_object, read_text
from muse.api.tool_fields import read_function_name
from muse.api.tools import ToolCall
from muse.errors import ClientFault
from muse.json_text import read_object_text
from muse.sizes import MAX_ARGUMENT_VALUES, MAX_CALLS, MAX_ID_CHARS, MAX_UNREAD_CHARS
from muse.strict_json import decode_json


def parse_tool_calls(value: object, path: str, offenders: Offenders) -> tuple[ToolCall, ...]:
    """The `tool_calls` of an assistant's message. Raises ClientFault."""
    if not isinstance(value, list):
        raise invalid_type(path, "a list of calls")
    items = cast("Sequence[object]", value)
    if len(items) > MAX_CALLS:
        raise invalid_value(path, f"must hold at most {MAX_CALLS} calls")
    parsed = [_parse_call(item, f"{path}[{index}]", offenders) for index, item in enumerate(items)]
    calls = tuple(call for call, _ in parsed)
    seen: set[str] = set()
    for index, call in enumerate(calls):
        if call.id in seen:
            raise invalid_value(f"{path}[{index}].id", "is the id of another call already")
        seen.add(call.id)
    if sum(values for _, values in parsed) > MAX_ARGUMENT_VALUES:
        raise invalid_value(path, f"must hold at most {MAX_ARGUMENT_VALUES} values in the arguments of its calls")
    return calls


def read_call_id(value: object, path: str) -> str:
    """An id of a call: any text of 1 to 256 characters. Raises ClientFault."""
    call_id = read_text(value, path)
    if not 1 <= len(call_id) <= MAX_ID_CHARS:
        raise invalid_value(path, f"must have 1 to {MAX_ID_CHARS} characters")
    return call_id


def _parse_call(value: object, path: str, offenders: Offenders) -> tuple[ToolCall, int]:
    """The call, and how many values its arguments have."""
    fields = read_object(value, path)
    if read_text(fields.get("type", "function"), f"{path}.type") != "function":
        raise invalid_value(f"{path}.type", "must be function")
    for key in fields:
        # Clients that put a stream together keep the index of each call.
        if key not in ("id", "type", "function", "index"):
            offenders.add_unknown(member(path, key))
    function = read_object(fields.get("function"), f"{path}.function")
    for key in function:
        # The official client's helpers put what they read of the arguments beside them.
        if key not in ("name", "arguments", "parsed_arguments"):
            offenders.add_unknown(member(f"{path}.function", key))
    arguments, values = _read_arguments(function.get("arguments"), f"{path}.function.arguments", offenders)
    call = ToolCall(
        id=read_call_id(fields.get("id"), f"{path}.id"),
        name=read_function_name(function.get("name"), f"{path}.function.name"),
        arguments=arguments,
    )
    return call, values


def _read_arguments(value: object, path: str, offenders: Offenders) -> tuple[str, int]:
    """A JSON object as text, unchanged, and how many values it has. What constrained decoding may write is taken, also
    where the strict reader refuses it: slowly, so as much of it in a request as a context could hold."""
    text = read_text(value, path)
    if not text.strip():
        return "{}", 0
    try:
        arguments = decode_json(text.encode())
    except ClientFault as fault:
        offenders.unread_chars += len(text)
        if offenders.unread_chars <= MAX_UNREAD_CHARS:
            with suppress(ValueError):
                return text, read_object_text(text, most_values=MAX_ARGUMENT_VALUES).values
        raise invalid_value(
            path, f"must be the text of a JSON object, as this server reads it: {fault.detail.removesuffix('.')}"
        ) from fault
    if not isinstance(arguments, dict):
        raise invalid_value(path, "must be the text of a JSON object")
    return text, _count_values(arguments)


def _count_values(arguments: object) -> int:
    """Members and elements at any depth."""
    inner: Sequence[object] = ()
    if isinstance(arguments, dict):
        inner = tuple(cast("dict[str, object]", arguments).values())
    elif isinstance(arguments, list):
        inner = cast("list[object]", arguments)
    return len(inner) + sum(map(_count_values, inner))


def same_calls(one: Sequence[ToolCall], other: Sequence[ToolCall]) -> bool:
    """The same calls, whatever their ids are and however their arguments are written."""
    return len(one) == len(other) and all(
        a.name == b.name and (a.arguments == b.arguments or _canonical(a.arguments) == _canonical(b.arguments))
        for a, b in zip(one, other, strict=True)
    )


def key_of_calls(calls: Sequence[ToolCall]) -> tuple[tuple[str, str], ...]:
    """Equal for those that are the same calls (`same_calls`)."""
    return tuple((call.name, _canonical(call.arguments)) for call in calls)


def _canonical(arguments: str) -> str:
    try:
        # As text: in Python 1, 1.0 and true are equal.
        return json.dumps(decode_json(arguments.encode()), sort_keys=True)
    except ClientFault:
        return arguments  # what the strict reader refuses is the same only letter by letter
