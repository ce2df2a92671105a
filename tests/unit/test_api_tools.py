"""Tools, choices, calls and results in a request: what is taken, and what is refused by its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.api import tool_messages
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.tool_fields import MAX_DESCRIPTION_CHARS, MAX_TOOLS_CHARS, NO_TOOLS
from muse.api.tool_messages import same_calls
from muse.api.tools import ToolCall
from muse.errors import ClientFault

USER = {"role": "user", "content": "Weather in Rome?"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather.get",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK: dict[str, Any] = {"type": "function", "function": {"name": "clock"}}
CALL: dict[str, Any] = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "weather.get", "arguments": '{"city": "Rome"}'},
}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TWICE = {**ASKED, "tool_calls": [CALL, {**CALL, "id": "call-2"}]}
TOLD = {"role": "tool", "tool_call_id": "call-1", "content": "sunny"}


def parse(**fields: object) -> ChatRequest:
    return parse_chat_request({"messages": [USER], **fields}, SamplingDefaults())


def refused(**fields: object) -> tuple[str, str | None]:
    with pytest.raises(ClientFault) as caught:
        parse(**fields)
    return caught.value.code, caught.value.param


def with_function(**fields: object) -> list[object]:
    return [{"type": "function", "function": {**WEATHER["function"], **fields}}]


def test_all_tools_together_have_a_limit() -> None:
    """Each may be large, but not all of them: a reply keeps its tools for minutes."""
    half = MAX_TOOLS_CHARS // MAX_DESCRIPTION_CHARS // 2
    schema = {"type": "object", "title": "t" * (MAX_DESCRIPTION_CHARS - 200)}
    tools = [
        {
            "type": "function",
            "function": {"name": f"f{n}", "description": "d" * MAX_DESCRIPTION_CHARS, "parameters": schema},
        }
        for n in range(half)
    ]
    assert len(parse(tools=tools).tool_use.tools) == half
    assert refused(tools=[*tools, {"type": "function", "function": {**tools[0]["function"], "name": "more"}}]) == (
        "invalid_value",
        "tools",
    )


def test_tools_are_taken_with_defaults_for_what_is_missing() -> None:
    """A tool without description or parameters is one without either, as templates need both."""
    weather, clock = parse(tools=[WEATHER, CLOCK]).tool_use.tools
    assert (weather.name, weather.description) == ("weather.get", "Weather of a city")
    assert weather.schema == WEATHER["function"]["parameters"]
    assert (clock.description, clock.schema) == ("", {"type": "object", "properties": {}})
    assert list(weather.schema["properties"]) == ["city"]
    assert parse(tools=with_function(parameters={})).tool_use.tools[0].schema == clock.schema


def test_without_tools_nothing_is_offered() -> None:
    """No tools, an empty list, null and `none` are the same to the model."""
    for fields in ({}, {"tools": []}, {"tools": None}, {"tools": [WEATHER], "tool_choice": "none"}):
        assert parse(**fields).tool_use == NO_TOOLS
    assert parse(tool_choice="none").tool_use == parse(tool_choice="auto").tool_use == NO_TOOLS


def test_choices() -> None:
    """Any, one of them, a certain one; several at once or not."""
    tools = [WEATHER, CLOCK]
    assert parse(tools=tools).tool_use.forced == parse(tools=tools, tool_choice="auto").tool_use.forced == ()
    assert parse(tools=tools, tool_choice="required").tool_use.forced == ("weather.get", "clock")
    named = {"type": "function", "function": {"name": "clock"}}
    assert parse(tools=tools, tool_choice=named).tool_use.forced == ("clock",)
    assert parse(tools=tools).tool_use.parallel
    assert not parse(tools=tools, parallel_tool_calls=False).tool_use.parallel
    assert parse(tools=tools, muse={"tool_repair": True}).tool_repair


def test_strict_is_taken_and_noted_where_it_is_not_enforced() -> None:
    """Forced calls are constrained in any case; others are the model's own."""
    tools = [
        {"type": "function", "function": {"name": f"f{n}", "strict": [True, False, None][n % 3]}} for n in range(36)
    ]
    use = parse(tools=tools).tool_use
    assert use.strict == tuple(f"f{n}" for n in range(0, 36, 3))
    (note,) = use.notes
    assert note.startswith("strict is not enforced for f0, f3, ")
    assert "f27 and 2 more" in note
    assert parse(tools=tools, tool_choice="required").tool_use.notes == ()
    assert parse(tools=tools[1:3]).tool_use.notes == parse(tools=tools, tool_choice="none").tool_use.notes == ()


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"tools": {}}, "invalid_type", "tools"),
        ({"tools": ["x"]}, "invalid_type", "tools[0]"),
        ({"tools": [{"type": "retrieval"}]}, "invalid_value", "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "invalid_type", "tools[0].function"),
        ({"tools": [WEATHER] * 2}, "invalid_value", "tools[1].function.name"),
        ({"tools": [CLOCK] * 129}, "invalid_value", "tools"),
        ({"tools": with_function(name="a b")}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(name="a..b")}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(name="<|eot|>")}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(name="x" * 65)}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(name="user")}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(name="self")}, "invalid_value", "tools[0].function.name"),
        ({"tools": with_function(description=7)}, "invalid_type", "tools[0].function.description"),
        ({"tools": with_function(parameters=[])}, "invalid_type", "tools[0].function.parameters"),
        ({"tools": with_function(parameters={"type": "array"})}, "invalid_value", "tools[0].function.parameters.type"),
        ({"tools": with_function(strict="yes")}, "invalid_type", "tools[0].function.strict"),
        ({"tools": with_function(color="red")}, "unknown_parameter", "tools[0].function.color"),
        ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": "always"}, "invalid_value", "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "allowed_tools"}}, "unsupported_parameter", "tool_choice.type"),
        (
            {"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "weather.get"}}},
            "invalid_value",
            "tool_choice.function.name",
        ),
        ({"tools": [CLOCK], "parallel_tool_calls": "no"}, "invalid_type", "parallel_tool_calls"),
        ({"tools": [CLOCK], "response_format": {"type": "json_object"}}, "invalid_value", "response_format"),
        ({"tools": [CLOCK], "muse": {"tool_repair": 2}}, "invalid_type", "muse.tool_repair"),
        ({"functions": [CLOCK["function"]]}, "unsupported_parameter", "functions"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], code: str, param: str) -> None:
    """The path of the value that is wrong, and never a call that cannot be held to."""
    assert refused(**fields) == (code, param)


def test_a_reply_that_is_continued_has_its_own_tools() -> None:
    """Others could only contradict them."""
    body = {"muse": {"continue": "chatcmpl-1"}, "tools": [CLOCK]}
    with pytest.raises(ClientFault) as caught:
        parse_chat_request(body, SamplingDefaults())
    assert caught.value.param == "tools"
    with pytest.raises(ClientFault) as caught:
        parse_chat_request({"muse": {"continue": "chatcmpl-1", "tool_repair": True}}, SamplingDefaults())
    assert caught.value.param == "muse.tool_repair"


def test_calls_and_results_are_read() -> None:
    """As clients hand them back, with the index that streams have, and `null` for no words."""
    call = {**CALL, "index": 0}
    messages = parse(messages=[USER, {**ASKED, "tool_calls": [call]}, TOLD]).messages
    assert messages[1].tool_calls == (ToolCall(id="call-1", name="weather.get", arguments='{"city": "Rome"}'),)
    assert (messages[1].content, messages[2].role, messages[2].tool_call_id) == ("", "tool", "call-1")
    assert messages[2].content == "sunny"
    empty = {**CALL, "function": {"name": "clock", "arguments": ""}}
    assert parse(messages=[USER, {**ASKED, "tool_calls": [empty]}]).messages[1].tool_calls[0].arguments == "{}"
    assert parse(messages=[USER, {"role": "assistant", "content": "x", "tool_calls": []}]).messages[1].tool_calls == ()


def test_results_stand_in_the_order_of_their_calls() -> None:
    """Templates tell them apart by nothing else; ids are a client's to keep in order."""
    second = {**TOLD, "tool_call_id": "call-2", "content": "rainy"}
    for results in ([TOLD, second], [second, TOLD]):
        messages = parse(messages=[USER, TWICE, *results, USER]).messages
        assert [message.content for message in messages[2:4]] == ["sunny", "rainy"]
    assert len(parse(messages=[USER, TWICE]).messages) == 2  # a history may end there


def test_reasoning_that_comes_back_is_taken_and_left_out() -> None:
    """Clients echo whole messages; it is part of later prompts only inside the exact ids."""
    echoed = {"role": "assistant", "content": "x", "reasoning_content": "hm", "refusal": None, "annotations": []}
    assert (
        parse(messages=[USER, echoed]).messages
        == parse(messages=[USER, {"role": "assistant", "content": "x"}]).messages
    )
    assert refused(messages=[{**USER, "reasoning_content": "hm"}]) == (
        "unsupported_parameter",
        "messages[0].reasoning_content",
    )


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        ([TOLD], "invalid_value", "messages[0].tool_call_id"),
        ([USER, ASKED, USER, TOLD], "invalid_value", "messages[1].tool_calls[0]"),
        ([USER, TWICE, TOLD], "invalid_value", "messages[1].tool_calls[1]"),
        ([USER, TWICE, TOLD, USER], "invalid_value", "messages[1].tool_calls[1]"),
        ([USER, ASKED, TOLD, TOLD], "invalid_value", "messages[3].tool_call_id"),
        ([USER, ASKED, {**TOLD, "name": "clock"}], "invalid_value", "messages[2].name"),
        ([USER, ASKED, {"role": "tool", "content": "x"}], "missing_required_parameter", "messages[2].tool_call_id"),
        ([USER, ASKED, {**TOLD, "content": None}], "invalid_type", "messages[2].content"),
        ([USER, {**ASKED, "tool_calls": {}}], "invalid_type", "messages[1].tool_calls"),
        ([USER, {**ASKED, "tool_calls": [CALL, CALL]}], "invalid_value", "messages[1].tool_calls[1].id"),
        ([USER, {**ASKED, "tool_calls": [{**CALL, "id": ""}]}], "invalid_value", "messages[1].tool_calls[0].id"),
        ([USER, {**ASKED, "tool_calls": [{**CALL, "type": "x"}]}], "invalid_value", "messages[1].tool_calls[0].type"),
        ([USER, {**ASKED, "tool_calls": [{**CALL, "x": 1}]}], "unknown_parameter", "messages[1].tool_calls[0].x"),
    ],
)
def test_wrong_calls_and_results_are_named(messages: list[object], code: str, param: str) -> None:
    """A result without its call, a call without what it needs."""
    assert refused(messages=messages) == (code, param)


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("form", ["members", "nested"])
def test_the_values_of_calls_are_counted(monkeypatch: pytest.MonkeyPatch, calls: int, form: str) -> None:
    """So many in one message, at any depth, and no more."""
    monkeypatch.setattr(tool_messages, "MAX_ARGUMENT_VALUES", 1000)

    def call(number: int, values: int) -> dict[str, object]:
        inner = {f"k{index}": index for index in range(values)}
        arguments = inner if form == "members" else {"a": [*range(values - 2), {"b": 1}]}
        return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}

    def message(values: int) -> dict[str, object]:
        return {**ASKED, "tool_calls": [call(number, values // calls) for number in range(calls)]}

    results = [{**TOLD, "tool_call_id": f"c{number}"} for number in range(calls)]
    most = 1000 - (calls if form == "nested" else 0)
    assert len(parse(messages=[USER, message(most), *results]).messages[1].tool_calls) == calls
    beyond = message(most + 2 * calls)
    assert refused(messages=[USER, beyond, *results]) == ("invalid_value", "messages[1].tool_calls")


def test_what_only_the_slow_reader_takes_is_bounded_in_a_whole_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """In characters over all messages, and in values; what the strict reader takes does not count."""
    nested = '{"a":' + "[" * 100 + "]" * 100 + "}"
    monkeypatch.setattr(tool_messages, "MAX_UNREAD_CHARS", 3 * len(nested))

    def messages(count: int, arguments: str) -> list[object]:
        call = {**CALL, "function": {"name": "clock", "arguments": arguments}}
        return [USER, *([{**ASKED, "tool_calls": [call]}, TOLD] * count)]

    assert len(parse(messages=messages(3, nested)).messages) == 7
    assert refused(messages=messages(4, nested)) == (
        "invalid_value",
        "messages[7].tool_calls[0].function.arguments",
    )
    plain = json.dumps({"a": "x" * len(nested)})
    assert len(parse(messages=messages(5, plain)).messages) == 11
    monkeypatch.setattr(tool_messages, "MAX_ARGUMENT_VALUES", 99)
    assert refused(messages=messages(1, nested))[0] == "invalid_value"


@pytest.mark.parametrize(
    "arguments",
    ["{", "[]", "7", '"x"', "null", '{"a": NaN}', '{"a": 1, "a": 2', '{"a": "\\x"}', '{"a": 01}', '{"a": 1}}'],
)
def test_arguments_must_be_an_object(arguments: str) -> None:
    """Templates read them, and what they cannot read would end in words about the template."""
    call = {**CALL, "function": {"name": "clock", "arguments": arguments}}
    path = "messages[1].tool_calls[0].function.arguments"
    assert refused(messages=[USER, {**ASKED, "tool_calls": [call]}]) == ("invalid_value", path)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ('{"b":"x","a":1}', True),
        ('{"a":1.0,"b":"x"}', False),
        ('{"a":true,"b":"x"}', False),
        ('{"a":1}', False),
        (json.dumps({"a": 1, "b": "x"}, indent=2), True),
    ],
)
def test_calls_are_the_same_by_what_they_say(other: str, is_same: bool) -> None:
    """However their arguments are written, and whatever their ids are."""
    one = ToolCall(id="1", name="f", arguments='{"a": 1, "b": "x"}')
    assert same_calls([one], [ToolCall(id="2", name="f", arguments=other)]) == is_same
    assert not same_calls([one], [ToolCall(id="1", name="g", arguments=other)])
    assert not same_calls([one], [])
