"""Any JSON value becomes a ChatRequest or a ClientFault that names the field; nothing is dropped silently."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.api.chat_request import ChatRequest, parse_chat_request
from muse.api.message import Message
from muse.errors import ClientFault
from muse.protocol import Sampling
from tests.unit.chat_bodies import DEFAULTS, SAMPLING, USER, parse, refuse, refuse_field


def test_smallest_request_takes_the_defaults() -> None:
    """What a request does not say comes from the server."""
    assert parse() == ChatRequest(
        messages=(Message(role="user", content="hi"),),
        model=None,
        stream=False,
        include_usage=False,
        sampling=SAMPLING,
        max_tokens=512,
        stop=(),
        session_id=None,
    )


def test_every_honoured_field_arrives() -> None:
    """Each field that is taken ends in the request, exactly."""
    sampling: dict[str, Any] = {
        "temperature": 0,
        "top_p": 1,
        "top_k": 0,
        "min_p": 0.5,
        "repeat_penalty": 2,
        "presence_penalty": -2,
        "frequency_penalty": 2.0,
        "seed": 2**63 - 1,
    }
    request = parse(
        model="m",
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        **sampling,
        stop=["\n\n", "END"],
        max_tokens=7,
        session_id="a!~" * 42 + "xy",
    )
    assert request.model == "m"
    assert request.stream
    assert request.include_usage
    assert request.sampling == Sampling(**sampling)
    assert isinstance(request.sampling.temperature, float)
    assert request.stop == ("\n\n", "END")
    assert request.max_tokens == 7
    assert request.session_id == "a!~" * 42 + "xy"


HONOURED_BUT_OPTIONAL = (
    *("model", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
    *("repeat_penalty", "presence_penalty", "frequency_penalty"),
    *("max_tokens", "max_completion_tokens", "session_id", "muse", "chat_template_kwargs", "reasoning_effort"),
)
NEUTRAL = {
    "n": 1,
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


def test_the_newer_name_of_max_tokens_wins() -> None:
    """max_completion_tokens wins, but both are checked; a huge budget is cut to what any engine can hold."""
    assert parse(max_tokens=5, max_completion_tokens=6).max_tokens == 6
    assert refuse({"messages": [USER], "max_tokens": 0, "max_completion_tokens": 6}).param == "max_tokens"
    assert parse(max_tokens=10**100).max_tokens == 2**31 - 1


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
