"""Messages of a request: what is taken of them, pictures among it, and where a fault is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ParsedChatCompletion

from muse.api import images
from muse.api.message import Message, content_of, request_chars
from muse.api.metrics import MuseMetrics
from muse.api.responses import completion_body
from muse.api.tools import ToolCall
from muse.errors import ClientFault
from tests.picture_files import STILL, data_url
from tests.unit.chat_bodies import USER, parse, refuse


def refuse_message(message: object) -> ClientFault:
    return refuse({"messages": [USER, USER, message]})


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


def test_what_the_official_clients_helpers_add_passes() -> None:
    """`parse()` and `stream()` put what they read beside the texts; the texts are what counts."""
    function = {"name": "f", "arguments": '{"a": 1}'}
    for parsed in (None, {"a": 1}, 5):
        call = {"id": "c", "type": "function", "function": {**function, "parsed_arguments": parsed}, "index": 0}
        echo = {"role": "assistant", "content": '{"a": 1}', "parsed": parsed, "refusal": None, "tool_calls": [call]}
        (_, taken) = parse(messages=[USER, echo]).messages
        assert taken == Message(
            role="assistant", content='{"a": 1}', tool_calls=(ToolCall(id="c", name="f", arguments='{"a": 1}'),)
        )
    parse(messages=[{**USER, "parsed": None}])


def test_what_the_official_client_makes_of_our_answers_comes_back() -> None:
    """Every field of its models, whether set or not."""
    metrics = MuseMetrics(prompt_tokens=1, completion_tokens=1, finish_reason="tool_calls")
    call = ToolCall(id="c", name="f", arguments='{"a": 1}')
    body = completion_body(reply_id="r", model="m", created=1, text="x", reasoning="hm", calls=[call], metrics=metrics)
    whole = ChatCompletion.model_validate(body).choices[0].message
    read = ParsedChatCompletion[Any].model_validate(body).choices[0].message
    for dumped in (whole.model_dump(), whole.model_dump(exclude_none=True), read.model_dump()):
        taken = parse(messages=[USER, dumped]).messages[1]
        assert (taken.content, taken.tool_calls) == ("x", (call,))
        assert json.loads(taken.details) == {"reasoning_content": "hm"}


def test_what_is_shown_beside_an_answer_counts_for_its_request() -> None:
    """A long reasoning that came back is held as long as its text is."""
    said = {"role": "assistant", "content": "x", "reasoning_content": "hm" * 1000}
    assert request_chars(parse(messages=[USER, said]).messages) > 2000


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
