"""`tools`, `tool_choice` and `parallel_tool_calls`: what a request offers, and how the model is to use it.

Names follow OpenAI's rule, and may be dotted besides, since Muse Glimmer groups tools by what stands before the
first dot (contracts/harmony-format.md section 2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

import attrs

from muse.api.fields import Offenders, invalid_type, invalid_value, member, read_bool, read_object, read_text
from muse.api.tools import Tool
from muse.errors import ClientFault
from muse.json_pieces import json_text

MAX_TOOLS: Final = 128
"""OpenAI's limit."""
MAX_DESCRIPTION_CHARS: Final = 64 * 1024
MAX_SCHEMA_CHARS: Final = 256 * 1024
MAX_TOOLS_CHARS: Final = 2 * 1024 * 1024
"""Descriptions and parameters of all tools: more than the longest context. They are held as long as the reply is."""

_NAME: Final = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NAME_RULE: Final = "must have 1 to 64 letters, digits, underscores and hyphens, in parts that dots separate"
_CHOICES: Final[tuple[Literal["none", "auto", "required"], ...]] = ("none", "auto", "required")
_RECIPIENTS: Final = ("self", "user")
_NAMED_STRICT: Final = 10
_NO_PARAMETERS: Final[Mapping[str, object]] = {"type": "object", "properties": {}}


@attrs.frozen(kw_only=True)
class ToolUse:
    """tools: those the model may call; none: it gets no tools. forced: names of which one must be called now, empty:
    as the model likes. parallel: it may make several calls in one answer. strict: names of those whose calls the client
    wants to follow their schema."""

    tools: tuple[Tool, ...] = ()
    forced: tuple[str, ...] = ()
    parallel: bool = True
    strict: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is asked for and not enforced: only forced calls are constrained."""
        if self.forced or not self.strict:
            return ()
        more = f" and {len(self.strict) - _NAMED_STRICT} more" if len(self.strict) > _NAMED_STRICT else ""
        named = ", ".join(self.strict[:_NAMED_STRICT]) + more
        return (f"strict is not enforced for {named}: only calls that tool_choice demands are constrained",)

    @property
    def chars(self) -> int:
        """What the tools cost to keep, in characters."""
        return sum(len(tool.description) + len(tool.parameters) for tool in self.tools)


NO_TOOLS: Final = ToolUse()


def parse_tool_use(present: Mapping[str, object], offenders: Offenders) -> ToolUse:
    """Check the three fields of a request's body (null ones left out). With tool_choice `none` the model does not
    get the tools at all. Raises ClientFault."""
    strict: list[str] = []
    tools = _parse_tools(present.get("tools", []), offenders, strict)
    choice, named = _parse_choice(present.get("tool_choice", "auto"), offenders)
    parallel = read_bool(present.get("parallel_tool_calls", True), "parallel_tool_calls")
    names = tuple(tool.name for tool in tools)
    if choice in ("required", "named") and not tools:
        raise invalid_value("tool_choice", "asks for a call, but there are no tools")
    if named is not None and named not in names:
        raise invalid_value("tool_choice.function.name", "is none of the tools")
    if choice == "none" or not tools:
        return NO_TOOLS
    forced = names if choice == "required" else (named,) if named is not None else ()
    return ToolUse(tools=tools, forced=forced, parallel=parallel, strict=tuple(strict))


def read_function_name(value: object, path: str) -> str:
    """A name by the rule above. Raises ClientFault."""
    name = read_text(value, path)
    if not _NAME.fullmatch(name):
        raise invalid_value(path, _NAME_RULE)
    return name


def _parse_tools(value: object, offenders: Offenders, strict: list[str]) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise invalid_type("tools", "a list of tools")
    items = cast("Sequence[object]", value)
    if len(items) > MAX_TOOLS:
        raise invalid_value("tools", f"must hold at most {MAX_TOOLS} tools")
    tools = tuple(_parse_tool(item, f"tools[{index}]", offenders, strict) for index, item in enumerate(items))
    if sum(len(tool.description) + len(tool.parameters) for tool in tools) > MAX_TOOLS_CHARS:
        raise invalid_value("tools", f"must have at most {MAX_TOOLS_CHARS} characters together")
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise invalid_value(f"tools[{index}].function.name", "is the name of another tool already")
        seen.add(tool.name)
    return tools


def _parse_tool(value: object, path: str, offenders: Offenders, strict: list[str]) -> Tool:
    fields = read_object(value, path)
    kind = read_text(fields.get("type"), f"{path}.type")
    if kind != "function":
        raise invalid_value(f"{path}.type", "must be function")
    for key in fields:
        if key not in ("type", "function"):
            offenders.add_unknown(member(path, key))
    path = f"{path}.function"
    function = read_object(fields.get("function"), path)
    for key in function:
        if key not in ("name", "description", "parameters", "strict"):
            offenders.add_unknown(member(path, key))
    name = read_function_name(function.get("name"), f"{path}.name")
    if function.get("strict") is not None and read_bool(function["strict"], f"{path}.strict"):
        strict.append(name)
    if name in _RECIPIENTS:
        raise invalid_value(f"{path}.name", "means the model itself or the user in the model's language")
    return Tool(
        name=name,
        description=_read_description(function.get("description"), f"{path}.description"),
        parameters=_read_parameters(function.get("parameters"), f"{path}.parameters"),
    )


def _read_description(value: object, path: str) -> str:
    if value is None:
        return ""
    text = read_text(value, path)
    if len(text) > MAX_DESCRIPTION_CHARS:
        raise invalid_value(path, f"must have at most {MAX_DESCRIPTION_CHARS} characters")
    return text


def _read_parameters(value: object, path: str) -> str:
    schema = dict({} if value is None else read_object(value, path)) or dict(_NO_PARAMETERS)
    if schema.setdefault("type", "object") != "object":
        raise invalid_value(f"{path}.type", "must be object")
    text = json_text(schema, most_chars=MAX_SCHEMA_CHARS)
    if text is None:
        raise invalid_value(path, f"must have at most {MAX_SCHEMA_CHARS} characters")
    return read_text(text, path)


def _parse_choice(
    value: object, offenders: Offenders
) -> tuple[Literal["none", "auto", "required", "named"], str | None]:
    for word in _CHOICES:
        if value == word:
            return word, None
    if isinstance(value, str):
        raise invalid_value("tool_choice", "must be none, auto, required, or a function to call")
    fields = read_object(value, "tool_choice")
    kind = read_text(fields.get("type"), "tool_choice.type")
    if kind != "function":
        raise ClientFault(
            "unsupported_parameter",
            "'tool_choice.type' must be function: nothing else is supported.",
            param="tool_choice.type",
        )
    for key in fields:
        if key not in ("type", "function"):
            offenders.add_unknown(member("tool_choice", key))
    function = read_object(fields.get("function"), "tool_choice.function")
    for key in function:
        if key != "name":
            offenders.add_unknown(member("tool_choice.function", key))
    return "named", read_text(function.get("name"), "tool_choice.function.name")
