"""Wrong requests: every fault names the field and its path, briefly, and tells nothing of what the client wrote."""

from __future__ import annotations

import math

import pytest

from muse.api.chat_request import parse_session_id
from muse.errors import ClientFault
from muse.sizes import MAX_MESSAGES
from tests.unit.chat_bodies import USER, refuse, refuse_field


@pytest.mark.parametrize("body", [None, [], "x", 5, True])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    """Without fields there is no path."""
    fault = refuse(body)
    assert (fault.code, fault.param) == ("invalid_type", None)


def test_missing_messages_are_named() -> None:
    """The only required field."""
    assert refuse({}).code == "missing_required_parameter"
    assert refuse({"messages": None}).param == "messages"


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
        ("repeat_penalty", 0, "invalid_value"),
        ("repeat_penalty", 0.09, "invalid_value"),
        ("repeat_penalty", 2.1, "invalid_value"),
        ("repeat_penalty", True, "invalid_type"),
        ("presence_penalty", -2.1, "invalid_value"),
        ("presence_penalty", False, "invalid_type"),
        ("frequency_penalty", 2.1, "invalid_value"),
        ("frequency_penalty", math.nan, "invalid_value"),
        ("frequency_penalty", "0", "invalid_type"),
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
