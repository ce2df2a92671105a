"""Tools through the whole stack: muse-nano calls what it knows by heart, the built-in model what it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import OpenAI

from tests.server_process import ServerProcess
from tests.worker.nano import DATE, DIALOGUES, TOOL_DIALOGUES, turns

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "set_timer",
            "description": "Start a timer",
            "parameters": {
                "type": "object",
                "properties": {
                    "minutes": {"type": "integer", "minimum": 1, "maximum": 60},
                    "sound": {"$ref": "#/$defs/sound"},
                },
                "required": ["minutes", "sound"],
                "additionalProperties": False,
                "$defs": {"sound": {"enum": ["bell", "horn"]}},
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "clock", "parameters": {"type": "object", "additionalProperties": False}},
    },
]


@contextmanager
def client_of(server: ServerProcess) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def known_calls(message: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]


def called(message: Any) -> list[tuple[str, Any]]:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]


@pytest.mark.parametrize("name", TOOL_DIALOGUES)
def test_the_model_calls_and_reads_the_result(any_nano_server: ServerProcess, name: str) -> None:
    """With the official client, which hands its own objects back: calls, thoughts, and the turn after the results,
    whose prompt is what the model already holds."""
    with client_of(any_nano_server) as client:
        extra = {
            "session_id": f"tools-{name}",
            "chat_template_kwargs": {**DIALOGUES[name]["options"], "current_date": DATE, "return_reasoning": True},
        }
        messages: list[Any] = []
        for number, turn in enumerate(turns(name)):
            calls = messages[-1].tool_calls if number else []
            given = iter(call.id for call in calls or [])
            messages += [
                {**message, "tool_call_id": next(given)} if message["role"] == "tool" else message
                for message in turn["messages"]
            ]
            answer = client.chat.completions.create(
                model="muse-nano-F16",
                messages=messages,
                tools=DIALOGUES[name]["tools"],
                temperature=0,
                extra_body=extra,
            )
            known, message = turn["answer"], answer.choices[0].message
            assert called(message) == known_calls(known["message"])
            assert message.content == known["message"]["content"]
            assert message.model_extra is not None
            assert message.model_extra["reasoning_content"] == "\n\n".join(known["reasoning"])
            assert answer.choices[0].finish_reason == ("tool_calls" if known_calls(known["message"]) else "stop")
            assert answer.usage is not None
            assert answer.usage.prompt_tokens == len(turn["prompt_ids"])
            assert answer.usage.completion_tokens == len(known["ids"])
            assert answer.model_extra is not None
            if number:
                assert answer.model_extra["muse_metrics"]["session_reset_reason"] == "exact_prefix"
            messages.append(message)


def test_a_stream_has_each_call_whole_and_in_order(any_nano_server: ServerProcess) -> None:
    """As deltas with an index, behind the thoughts, before the end; the same calls as without a stream."""
    name = "two-calls"
    (first, *_) = turns(name)
    calls, ends = [], []
    with client_of(any_nano_server) as client:
        stream = client.chat.completions.create(
            model="muse-nano-F16",
            messages=first["messages"],
            tools=DIALOGUES[name]["tools"],
            temperature=0,
            stream=True,
            extra_body={"chat_template_kwargs": {"current_date": DATE}},
        )
        for chunk in stream:
            for choice in chunk.choices:
                calls += choice.delta.tool_calls or []
                ends += [choice.finish_reason] if choice.finish_reason else []
    assert [call.index for call in calls] == [0, 1]
    assert all(call.id and call.type == "function" for call in calls)
    found = [(call.function.name, json.loads(call.function.arguments or "")) for call in calls if call.function]
    assert found == known_calls(first["answer"]["message"])
    assert ends == ["tool_calls"]


@pytest.mark.model
def test_a_call_can_be_forced_with_any_model(muse_server: ServerProcess) -> None:
    """Required, or by name: the built-in model knows no tools, but the call is made and follows its schema."""
    with client_of(muse_server) as client:
        (model,) = client.models.list().data
        question: Any = [{"role": "user", "content": "Wake me in ten minutes."}]
        named: Any = {"type": "function", "function": {"name": "set_timer"}}
        offered: Any = TOOLS
        for choice in (named, "required"):
            answer = client.chat.completions.create(
                model=model.id, messages=question, tools=offered, tool_choice=choice, temperature=0
            )
            ((name, arguments),) = called(answer.choices[0].message)
            assert answer.choices[0].finish_reason == "tool_calls"
            assert name in ("set_timer", "clock")
            if name == "set_timer":
                assert set(arguments) == {"minutes", "sound"}
                assert 1 <= arguments["minutes"] <= 60
                assert arguments["sound"] in ("bell", "horn")
            else:
                assert choice == "required"
                assert arguments == {}


@pytest.mark.model
def test_a_schema_that_cannot_be_followed_is_named(muse_server: ServerProcess) -> None:
    """A forced call by a schema that the engine cannot hold to is a 400, not a free answer."""
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": False}, "required": ["x"]}},
    }
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "tool_choice": "required"}
    answer = muse_server.post("/v1/chat/completions", body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_schema", "tools[0].function.parameters")
    assert "tool 'f'" in error["message"]


@pytest.mark.model
def test_results_reach_a_model_that_knows_no_tools(muse_server: ServerProcess) -> None:
    """Its prompt grows by signatures, call and result, and it answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What time is it?"}]
    bare = muse_server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8}).json()
    call = {"id": "call-1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": "It is twelve o'clock."},
    ]
    body = {"messages": messages, "tools": TOOLS, "max_tokens": 8, "temperature": 0}
    answer = muse_server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    assert answer.json()["usage"]["prompt_tokens"] > bare["usage"]["prompt_tokens"] + 100
