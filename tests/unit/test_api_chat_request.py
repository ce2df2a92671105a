"""Any JSON value becomes a ChatRequest or a ClientFault that names the field; nothing is dropped silently."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.api import images
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request, parse_session_id
from muse.api.message import MAX_MESSAGES, Message, content_of
from muse.errors import ClientFault
from muse.protocol import Sampling
from tests.picture_files import STILL, data_url

DEFAULTS = SamplingDefaults(temperature=0.7, top_p=0.9, top_k=40, min_p=0.05, seed=None, max_tokens=512)
USER = {"role": "user", "content": "hi"}


def parse(**fields: Any) -> ChatRequest:
    return parse_chat_request({"messages": [USER], **fields}, DEFAULTS)


def refuse(body: object) -> ClientFault:
    with pytest.raises(ClientFault) as caught:
        parse_chat_request(body, DEFAULTS)
    assert caught.value.status == 400
    return caught.value


def refuse_field(name: str, value: object) -> ClientFault:
    return refuse({"messages": [USER], name: value})


def refuse_message(message: object) -> ClientFault:
    return refuse({"messages": [USER, USER, message]})


def test_smallest_request_takes_the_defaults() -> None:
    """What a request does not say comes from the server."""
    assert parse() == ChatRequest(
        messages=(Message(role="user", content="hi"),),
        model=None,
        stream=False,
        include_usage=False,
        sampling=Sampling(temperature=0.7, top_p=0.9, top_k=40, min_p=0.05, seed=None),
        max_tokens=512,
        stop=(),
        session_id=None,
    )


def test_every_honoured_field_arrives() -> None:
    """Each field that is taken ends in the request, exactly."""
    request = parse(
        model="m",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        temperature=0,
        top_p=1,
        top_k=0,
        min_p=0.5,
        seed=2**63 - 1,
        stop=["\n\n", "END"],
        max_tokens=7,
        session_id="a!~" * 42 + "xy",
    )
    assert request.model == "m"
    assert request.stream
    assert request.include_usage
    assert request.sampling == Sampling(temperature=0.0, top_p=1.0, top_k=0, min_p=0.5, seed=2**63 - 1)
    assert isinstance(request.sampling.temperature, float)
    assert request.stop == ("\n\n", "END")
    assert request.max_tokens == 7
    assert request.session_id == "a!~" * 42 + "xy"


HONOURED_BUT_OPTIONAL = (
    *("model", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
    *("max_tokens", "max_completion_tokens", "session_id", "muse", "chat_template_kwargs", "reasoning_effort"),
)
NEUTRAL = {
    "n": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0.0,
    "logit_bias": {},
    "logprobs": False,
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "modalities": ["text"],
    "muse": {},
    "chat_template_kwargs": {},
}
NULL_ONLY = (*("top_logprobs", "functions", "function_call", "user", "store", "metadata", "service_tier"),)


@pytest.mark.parametrize("name", [*HONOURED_BUT_OPTIONAL, *NEUTRAL, *NULL_ONLY])
def test_null_means_absent(name: str) -> None:
    """null in a known field is the same as leaving it out."""
    assert parse(**{name: None}) == parse()


@pytest.mark.parametrize("name", NEUTRAL)
def test_a_value_that_asks_for_nothing_passes(name: str) -> None:
    """Clients that always send all their fields are served as long as they ask for nothing more."""
    assert parse(**{name: NEUTRAL[name]}) == parse()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("n", True),
        ("n", "1"),
        ("frequency_penalty", 0.1),
        ("presence_penalty", False),
        ("logit_bias", {"5": 1}),
        ("logprobs", True),
        ("logprobs", 0),
        ("top_logprobs", 0),
        ("user", "me"),
        ("store", False),
        ("metadata", {}),
        ("service_tier", "auto"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name: str, value: object) -> None:
    """A known field with a value that asks for something is refused by its name."""
    fault = refuse_field(name, value)
    assert fault.code == "unsupported_parameter"
    assert fault.param == name
    assert f"'{name}'" in fault.detail


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA, "description": "d", "strict": None}}, SCHEMA),
    ],
)
def test_a_response_format_becomes_a_schema(value: object, schema: object) -> None:
    """OpenAI's three types."""
    given = parse(response_format=value).json_schema
    assert (None if given is None else json.loads(given)) == schema


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json", "response_format"),
        ({}, "response_format.type"),
        ({"type": "grammar"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": True}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}, "response_format.json_schema.strict"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "name": 1}}, "response_format.json_schema.name"),
        ({"type": "json_schema", "json_schema": {"schema": {}, "x": 1}}, "response_format.json_schema.x"),
        ({"type": "json_object", "schema": {}}, "response_format.schema"),
        ({"type": "json_object", "json_schema": {}}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"schema": {"const": "x" * 70_000}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_wrong_response_format_is_named(value: object, param: str) -> None:
    """The path of what is wrong."""
    assert refuse_field("response_format", value).param == param


def test_a_continued_reply_takes_no_other_form() -> None:
    """It has its own."""
    body = {"muse": {"continue": "chatcmpl-1"}, "response_format": {"type": "json_object"}}
    assert refuse(body).param == "response_format"


def test_one_answer_names_every_unknown_field() -> None:
    """All fields that are not taken stand in one message; param is the first, the code is its code."""
    fault = refuse(
        {
            "temprature": None,
            "messages": [{**USER, "extra": 1}, {"role": "user", "content": [{"type": "text", "text": "", "x": 1}]}],
            "store": True,
            "muse": {"attached": True},
            "stream_options": {"include_obfuscation": True},
        }
    )
    assert fault.code == "unknown_parameter"
    assert fault.param == "temprature"
    for path in (
        *("temprature", "messages[0].extra", "messages[1].content[0].x", "store", "muse.attached"),
        "stream_options.include_obfuscation",
    ):
        assert f"'{path}'" in fault.detail


def test_a_flood_of_unknown_fields_gives_a_short_answer() -> None:
    """Neither many nor long nor odd names make the answer long or unprintable."""
    fault = refuse({"messages": [USER], **{f"{i}\n\ud800" + "x" * 5000: 1 for i in range(1000)}})
    assert len(fault.detail) < 5000
    assert fault.detail.isprintable()
    assert fault.detail.isascii()
    assert "980 more" in fault.detail


def test_a_wrong_value_is_reported_before_unknown_fields() -> None:
    """The order of checks is the upstream server's."""
    fault = refuse({"messages": [USER], "whatever": 1, "temperature": 3})
    assert (fault.code, fault.param) == ("invalid_value", "temperature")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("messages", "hi", "invalid_type"),
        ("messages", {}, "invalid_type"),
        ("messages", [], "invalid_value"),
        ("messages", [USER] * (MAX_MESSAGES + 1), "invalid_value"),
        ("model", 5, "invalid_type"),
        ("model", "\ud800", "invalid_value"),
        ("stream", 1, "invalid_type"),
        ("stream", "true", "invalid_type"),
        ("stream_options", [], "invalid_type"),
        ("temperature", "1", "invalid_type"),
        ("temperature", True, "invalid_type"),
        ("temperature", -0.1, "invalid_value"),
        ("temperature", 2.1, "invalid_value"),
        ("temperature", 10**400, "invalid_value"),
        ("temperature", math.nan, "invalid_value"),
        ("temperature", math.inf, "invalid_value"),
        ("top_p", 0, "invalid_value"),
        ("top_p", 1.1, "invalid_value"),
        ("top_p", [], "invalid_type"),
        ("top_k", -1, "invalid_value"),
        ("top_k", 2**31, "invalid_value"),
        ("top_k", 4.0, "invalid_type"),
        ("top_k", False, "invalid_type"),
        ("min_p", 1, "invalid_value"),
        ("min_p", -0.5, "invalid_value"),
        ("seed", -1, "invalid_value"),
        ("seed", 2**63, "invalid_value"),
        ("seed", 1.5, "invalid_type"),
        ("stop", "", "invalid_value"),
        ("stop", "x" * 1001, "invalid_value"),
        ("stop", 5, "invalid_type"),
        ("stop", {}, "invalid_type"),
        ("stop", ["x"] * 17, "invalid_value"),
        ("max_tokens", 0, "invalid_value"),
        ("max_tokens", -5, "invalid_value"),
        ("max_tokens", 1.0, "invalid_type"),
        ("max_completion_tokens", 0, "invalid_value"),
        ("session_id", "", "invalid_session_id"),
        ("session_id", "a b", "invalid_session_id"),
        ("session_id", "é", "invalid_session_id"),
        ("session_id", "x" * 129, "invalid_session_id"),
        ("session_id", 7, "invalid_session_id"),
        ("muse", [], "invalid_type"),
        ("chat_template_kwargs", "x", "invalid_type"),
    ],
)
def test_wrong_values_name_their_field(name: str, value: object, code: str) -> None:
    """A value of the wrong type or outside its range is a 400 with its path."""
    fault = refuse_field(name, value)
    assert (fault.code, fault.param) == (code, name)


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("stream_options", {"include_usage": 1}, "stream_options.include_usage"),
        ("stop", ["a", ""], "stop[1]"),
        ("stop", ["a", None], "stop[1]"),
        ("messages", [USER, 5], "messages[1]"),
    ],
)
def test_inner_values_name_their_path(name: str, value: object, path: str) -> None:
    """The path leads to the very value."""
    assert refuse_field(name, value).param == path


@pytest.mark.parametrize(
    ("message", "code", "path"),
    [
        ({"content": "x"}, "missing_required_parameter", "messages[2].role"),
        ({"role": "wizard", "content": "x"}, "invalid_value", "messages[2].role"),
        ({"role": None, "content": "x"}, "invalid_type", "messages[2].role"),
        ({"role": "function", "content": "x", "name": "a"}, "unsupported_parameter", "messages[2].role"),
        ({"role": "user"}, "invalid_type", "messages[2].content"),
        ({"role": "user", "content": None}, "invalid_type", "messages[2].content"),
        ({"role": "system", "content": None}, "invalid_type", "messages[2].content"),
        ({"role": "user", "content": 5}, "invalid_type", "messages[2].content"),
        ({"role": "user", "content": "a\udfffb"}, "invalid_value", "messages[2].content"),
        ({"role": "user", "content": []}, "invalid_value", "messages[2].content"),
        ({"role": "user", "content": ["x"]}, "invalid_type", "messages[2].content[0]"),
        ({"role": "user", "content": [{}]}, "invalid_type", "messages[2].content[0].type"),
        ({"role": "user", "content": [{"type": "song"}]}, "invalid_value", "messages[2].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "invalid_type", "messages[2].content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "invalid_type", "messages[2].content[0].text"),
        ({"role": "user", "content": "x", "name": ""}, "invalid_value", "messages[2].name"),
        ({"role": "user", "content": "x", "name": "n" * 65}, "invalid_value", "messages[2].name"),
        ({"role": "user", "content": "x", "name": 5}, "invalid_type", "messages[2].name"),
        ({"role": "user", "content": "x", "tool_calls": [{}]}, "unsupported_parameter", "messages[2].tool_calls"),
        ({"role": "user", "content": "x", "nmae": "y"}, "unknown_parameter", "messages[2].nmae"),
    ],
)
def test_wrong_messages_name_their_path(message: object, code: str, path: str) -> None:
    """Faults in messages are found at their exact place."""
    fault = refuse_message(message)
    assert (fault.code, fault.param) == (code, path)


def picture_part(kind: str = "png", **fields: Any) -> dict[str, Any]:
    """A part of a message with a picture."""
    url = data_url(STILL[kind](), kind)
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_pictures_are_placed_in_the_text() -> None:
    """Each before the character that follows it; the message can be written out again."""
    content = [picture_part("jpeg"), text_part("one"), text_part(" two"), picture_part(detail="auto"), picture_part()]
    (message,) = parse(messages=[{"role": "user", "content": content}]).messages
    assert message.content == "one two"
    assert [(image.offset, image.picture.kind) for image in message.images] == [(0, "jpeg"), (7, "png"), (7, "png")]
    again = {"role": "user", "content": content_of(message)}
    assert again["content"] == [picture_part("jpeg"), text_part("one two"), picture_part(), picture_part()]
    assert parse(messages=[again]).messages == (message,)


def test_a_picture_alone_is_a_message() -> None:
    """Of the user or of a tool."""
    call = {"id": "c", "type": "function", "function": {"name": "camera", "arguments": "{}"}}
    messages = parse(
        messages=[
            {"role": "user", "content": [picture_part()]},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": [picture_part()]},
        ]
    ).messages
    assert [len(message.images) for message in messages] == [1, 0, 1]


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_a_picture_of_another_role_is_refused_with_its_place(role: str) -> None:
    """No template shows those to the model."""
    fault = refuse_message({"role": role, "content": [text_part("?"), picture_part()]})
    assert (fault.code, fault.param) == ("unsupported_parameter", "messages[2].content[1]")
    assert "user" in fault.detail


def test_a_bad_picture_is_refused_with_its_place() -> None:
    """The whole path, and the reason."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    fault = refuse_message({"role": "user", "content": [text_part("?"), part]})
    assert (fault.code, fault.param) == ("invalid_image", "messages[2].content[1].image_url.url")
    fault = refuse_message({"role": "user", "content": [{**picture_part(), "text": "?"}]})
    assert (fault.code, fault.param) == ("unknown_parameter", "messages[2].content[0].text")


def test_pictures_of_all_messages_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a client sends again with every turn as well."""
    monkeypatch.setattr(images, "MAX_REQUEST_BYTES", 2 * len(STILL["png"]()))
    message = {"role": "user", "content": [picture_part()]}
    assert len(parse(messages=[message, message]).messages) == 2
    fault = refuse({"messages": [message, message, message]})
    assert (fault.code, fault.param) == ("invalid_image", "messages[2].content[0].image_url.url")


def test_developer_becomes_system_and_parts_are_joined() -> None:
    """Templates know only `system`; text parts are one text, with nothing added between them."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]
    request = parse(messages=[{"role": "developer", "content": parts}, {"role": "user", "content": "", "name": "Ann"}])
    assert request.messages == (Message(role="system", content="a b"), Message(role="user", content="", name="Ann"))


def test_an_echoed_answer_of_the_official_client_passes() -> None:
    """`message.model_dump()` of an answer carries every field, most of them null."""
    echo = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "reasoning_content": None,
    }
    assert parse(messages=[USER, echo]).messages[1] == Message(role="assistant", content="")


def test_the_newer_name_of_max_tokens_wins() -> None:
    """max_completion_tokens wins, but both are checked; a huge budget is cut to what any engine can hold."""
    assert parse(max_tokens=5, max_completion_tokens=6).max_tokens == 6
    assert refuse({"messages": [USER], "max_tokens": 0, "max_completion_tokens": 6}).param == "max_tokens"
    assert parse(max_tokens=10**100).max_tokens == 2**31 - 1


@pytest.mark.parametrize("body", [None, [], "x", 5, True])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    """Without fields there is no path."""
    fault = refuse(body)
    assert (fault.code, fault.param) == ("invalid_type", None)


def test_missing_messages_are_named() -> None:
    """The only required field."""
    assert refuse({}).code == "missing_required_parameter"
    assert refuse({"messages": None}).param == "messages"


def test_session_id_of_another_field_keeps_its_path() -> None:
    """Other routes check their ids with the same rule."""
    with pytest.raises(ClientFault) as caught:
        parse_session_id("\n", "path.id")
    assert caught.value.param == "path.id"


def test_faults_do_not_repeat_the_clients_text() -> None:
    """Values may be private: faults name places and rules only."""
    secret = "hunter2"
    for body in (
        {"messages": [{"role": secret, "content": "x"}]},
        {"messages": [{"role": "user", "content": secret + "\ud800"}]},
        {"messages": [{"role": "user", "content": [{"type": secret}]}]},
        {"messages": [USER], "session_id": secret + " "},
        {"messages": [USER], "tool_choice": secret},
        {"messages": secret},
    ):
        assert secret not in refuse(body).detail


# ---------------------------------------------------------------- any JSON at all

names = st.sampled_from(
    [
        *HONOURED_BUT_OPTIONAL,
        *NEUTRAL,
        *NULL_ONLY,
        *("messages", "role", "content", "name", "type", "text", "include_usage", "tool_calls", "detached"),
        *("function", "id", "arguments", "tool_call_id", "parameters", "description", "strict", "tool_repair"),
    ]
)
text = st.one_of(
    st.text(st.characters(), max_size=8),  # with lone surrogates
    st.sampled_from(["user", "system", "assistant", "developer", "tool", "text", "image_url"]),
)
scalar = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text)
json_value = st.recursive(
    scalar,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(names, text), inner, max_size=5)),
    max_leaves=8,
)
message = st.fixed_dictionaries({}, optional={"role": json_value, "content": json_value, "name": json_value})
body = st.one_of(
    json_value,
    st.dictionaries(names, json_value, max_size=4).flatmap(
        lambda fields: st.lists(st.one_of(st.just(USER), message), max_size=3).map(
            lambda messages: {**fields, "messages": messages}
        )
    ),
)


@settings(deadline=None, max_examples=200)
@given(body)
def test_any_json_gives_a_request_or_a_fault(value: object) -> None:
    """Never another exception; a fault can always be written as an answer."""
    try:
        request = parse_chat_request(value, DEFAULTS)
    except ClientFault as caught:
        fault = caught
    else:
        assert request.messages
        assert 0 <= request.sampling.temperature <= 2
        return
    assert fault.status == 400
    assert fault.param or not isinstance(value, dict)
    f"{fault.detail}{fault.param}".encode()
