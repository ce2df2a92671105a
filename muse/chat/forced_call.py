"""A call that must be made (`tool_choice` required, or a certain function).

The engine's grammar holds the answer to one JSON object, the name of a tool and arguments by its schema, whatever
form the model has for calls of its own. So the call is always valid, and the model gets no thoughts before it. What
comes out is not what the model would have written, so its ids are not kept: later prompts have the call as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from muse.api.chat_request import ChatRequest
from muse.api.tools import Tool
from muse.chat import harmony
from muse.chat.channel_types import CUT_OFF, BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.protocol import Segment, TextSegment


def form_of(request: ChatRequest) -> str | None:
    """The JSON schema, as text, that the answer is held to, None if it is free."""
    use = request.tool_use
    return call_schema(use.tools, use.forced) if use.forced else request.json_schema


def call_schema(tools: Sequence[Tool], forced: Sequence[str]) -> str:
    """The JSON schema of one call of one of the forced tools, as text."""
    wanted = [tool for tool in tools if tool.name in forced]
    if len(wanted) == 1:
        return json.dumps(_schema_of(wanted[0], "#/properties/arguments"))
    branches = [_schema_of(tool, f"#/anyOf/{index}/properties/arguments") for index, tool in enumerate(wanted)]
    return json.dumps({"anyOf": branches})


def _schema_of(tool: Tool, place: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": _moved(tool.schema, place)},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> Any:
    """The schema with its references to itself as they are when it stands at `place` of a larger one."""
    if isinstance(schema, list):
        return [_moved(inner, place) for inner in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    moved = {key: _moved(inner, place) for key, inner in cast("Mapping[str, Any]", schema).items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = place + reference.removeprefix("#")
    return moved


def call_prefix(parser: ChannelParser, forced: Sequence[str]) -> tuple[Segment, ...]:
    """What stands between the prompt and the object. parser: that of an ordinary answer, as it is before the first
    token; it knows whether the prompt has opened a thought."""
    if isinstance(parser, harmony.HarmonyParser):
        recipient = forced[0] if len(forced) == 1 else "tool"
        return (TextSegment(text=f" to={recipient}{harmony.MESSAGE}", special=True),)
    return (*(parser.close_reasoning() or ()), TextSegment(text="<tool_call>\n", special=True))


def answer_prefix(parser: ChannelParser) -> tuple[Segment, ...]:
    """What stands between the prompt and an answer that is constrained to JSON: the model would write it itself before
    an answer to the user. parser: as above."""
    if isinstance(parser, harmony.HarmonyParser):
        return (TextSegment(text=f" to=user{harmony.MESSAGE}", special=True),)
    return parser.close_reasoning() or ()


class ForcedCallParser:
    """Reads the one object. Nothing is certain before its end."""

    def __init__(self) -> None:
        self._text = ""

    @property
    def channel(self) -> Channel:
        return "answer"

    @property
    def turn_over(self) -> bool:
        return False

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        if kind != "control":
            self._text += text
        return []

    def flush(self) -> list[Event]:
        if not self._text:
            return []
        try:
            call: Any = json.loads(self._text)
            found = FoundCall(name=call["name"], arguments=json.dumps(call["arguments"], ensure_ascii=False))
        except (ValueError, TypeError, KeyError, RecursionError):
            # Kept, for it may go on.
            return [BrokenCall(text=self._text, name=None, reason=CUT_OFF)]
        self._text = ""
        return [found]

    def close_reasoning(self) -> None:
        return

    def answer_call(self, name: str, text: str) -> None:
        return

    def copy(self) -> ForcedCallParser:
        copied = ForcedCallParser()
        copied._text = self._text
        return copied
