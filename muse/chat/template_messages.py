"""A conversation and its tools as the variables that chat templates read.

Templates know Hugging Face's form: `tools` as OpenAI writes them, `tool_calls` with parsed arguments, results as
messages of role `tool`. A ChatML template that knows nothing of tools gets them in the form of Hermes: signatures in
the system message, calls as `<tool_call>` and results as `<tool_response>` in the texts.

Where everything comes from is marked (origins.py): names of functions cannot spell a control token and count as the
template's own, as long as they are none themselves; all else that a client wrote stays a client's text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from muse.api.message import Message
from muse.api.tools import Tool
from muse.chat.marked_text import JsonText, data, from_source, join_marked, runs_of, scaffold
from muse.chat.origins import calls_of, content_of, name_of, words_of
from muse.chat.pictures import marked_parts
from muse.chat.template_operations import to_json
from muse.errors import ClientFault
from muse.json_text import read_object_text
from muse.strict_json import decode_json, replace_surrogates

Variables = dict[str, object]
IsWord = Callable[[str], bool]
"""Whether a text is a plain word that is no control token."""

_ROLE_OF_RESULTS: Final = "user"


def native_messages(messages: Sequence[Message], is_word: IsWord, split: frozenset[int]) -> list[Variables]:
    """For a template that knows tools. split: messages whose content and calls are to be two messages, since the
    template has room for one of them only."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    rendered: list[Variables] = []
    for index, message in enumerate(messages):
        shown = _text_message(index, message)
        if message.role == "tool":
            name = message.name or names.get(message.tool_call_id or "", "")
            shown["name"] = scaffold(name) if is_word(name) else from_source(name, name_of(index))
            shown["tool_call_id"] = from_source(message.tool_call_id or "", name_of(index))
        if message.tool_calls:
            calls = [_native_call(index, call.id, call.name, call.arguments, is_word) for call in message.tool_calls]
            if index in split:
                rendered.append(shown)
                shown = _text_message(index, attrs.evolve(message, content=""))
            shown["tool_calls"] = calls
        rendered.append(shown)
    return rendered


def native_tools(tools: Sequence[Tool], is_word: IsWord) -> list[Variables] | None:
    """The `tools` of a template that knows them; None, as templates expect it, when there are none."""
    return [
        {
            "type": "function",
            "function": {
                "name": scaffold(tool.name) if is_word(tool.name) else data(tool.name),
                "description": data(tool.description),
                "parameters": _marked(tool.schema, data),
            },
        }
        for tool in tools
    ] or None


def hermes_messages(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Variables]:
    """For a ChatML template that knows no tools: everything about them is text. Without pictures."""
    rendered: list[Variables] = []
    instructions = _hermes_instructions(tools) if tools else None
    if instructions is not None and not (messages and messages[0].role == "system"):
        rendered.append({"role": scaffold("system"), "content": instructions})
        instructions = None
    before: Message | None = None
    for index, message in enumerate(messages):
        shown = _text_message(index, message)
        if instructions is not None:
            shown["content"] = join_marked((cast("str", shown["content"]), data("\n\n"), instructions))
            instructions = None
        if message.role == "tool":
            result = join_marked((data("<tool_response>\n"), cast("str", shown["content"]), data("\n</tool_response>")))
            if before is not None and before.role == "tool":
                # One message for all results of a turn.
                rendered[-1]["content"] = join_marked((cast("str", rendered[-1]["content"]), data("\n"), result))
                continue
            shown["role"], shown["content"] = scaffold(_ROLE_OF_RESULTS), result
        elif message.tool_calls:
            shown["content"] = _hermes_calls(index, message)
        rendered.append(shown)
        before = message
    return rendered


def _text_message(index: int, message: Message) -> Variables:
    # Roles are a closed list of ours, and templates build control tokens out of them.
    shown: Variables = {"role": scaffold(message.role), "content": from_source(message.content, content_of(index))}
    if message.images:
        shown["content"] = marked_parts(index, message)
    if message.name is not None and message.role != "tool":
        shown["name"] = from_source(message.name, name_of(index))
    return shown


def _native_call(index: int, call_id: str, name: str, arguments: str, is_word: IsWord) -> Variables:
    def mark(text: str) -> str:
        return from_source(text, calls_of(index))

    word = from_source(name, words_of(index)) if is_word(name) else mark(name)
    function = {"name": word, "arguments": _arguments(arguments, mark)}
    return {"id": mark(call_id), "type": "function", "function": function}


def _arguments(text: str, mark: Callable[[str], str]) -> dict[str, Any]:
    """The arguments of a call as a value. A member that the strict reader refuses stays JSON text; of two with one name
    the second counts, as with any reader."""
    try:
        return _marked(decode_json(text.encode()), mark)
    except ClientFault:
        return {mark(name): _member(value, mark) for name, value in read_object_text(text).members}


def _member(text: str, mark: Callable[[str], str]) -> Any:
    try:
        return _marked(decode_json(text.encode()), mark)
    except ClientFault:
        if text.startswith('"'):  # with half of a surrogate pair, which is no text
            return mark(replace_surrogates(json.loads(text)))
        return JsonText(text, runs_of(mark(text)))


def _marked(value: Any, mark: Callable[[str], str]) -> Any:
    """A JSON value with all of its texts marked."""
    if isinstance(value, str):
        return mark(value)
    if isinstance(value, Mapping):
        return {mark(key): _marked(inner, mark) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_marked(inner, mark) for inner in cast("list[Any]", value)]
    return value


def _hermes_instructions(tools: Sequence[Tool]) -> str:
    signatures = "\n".join(
        _json({"name": tool.name, "description": tool.description, "parameters": tool.schema}) for tool in tools
    )
    return data(
        "You can call these functions, one JSON schema a line:\n"
        f"<tools>\n{signatures}\n</tools>\n"
        "To call one, write its name and its arguments as JSON between these tags, once for each call:\n"
        '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>\n'
        "The results come back between <tool_response> tags. Answer in words when no function is needed."
    )


def _hermes_calls(index: int, message: Message) -> str:
    text = "\n".join(
        f"<tool_call>\n{_json({'name': call.name, 'arguments': _arguments(call.arguments, str)})}\n</tool_call>"
        for call in message.tool_calls
    )
    between = "\n" if message.content else ""
    return join_marked((from_source(message.content, content_of(index)), from_source(between + text, calls_of(index))))


def _json(value: object) -> str:
    return to_json(value, ensure_ascii=False)
