"""The official `openai` client against a real server with the real built-in model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.server_process import ServerProcess

pytestmark = pytest.mark.thorough

USER = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture(scope="module")
def question() -> dict[str, Any]:
    """What is asked, as the client takes it. Other engines ask what their model knows."""
    return {"messages": USER}


@pytest.fixture
def client(muse_server: ServerProcess) -> Iterator[OpenAI]:
    """A client without retries, so that a test sees the first answer."""
    with OpenAI(base_url=f"{muse_server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def test_models_lists_the_loaded_model(client: OpenAI) -> None:
    """One model, and it can be fetched by its id."""
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id


def test_a_whole_answer_with_usage_and_metrics(client: OpenAI, question: dict[str, Any]) -> None:
    """Text, finish reason, usage that adds up, and our receipt in the same body."""
    answer = client.chat.completions.create(model=client.models.list().data[0].id, **question, max_tokens=24)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 24
    metrics = answer.model_extra["muse_metrics"]
    assert metrics["prompt_tokens"] == answer.usage.prompt_tokens
    assert metrics["completion_tokens"] == answer.usage.completion_tokens
    assert metrics["time_to_first_token_ms"] > 0


def test_an_answer_in_the_form_of_a_schema(client: OpenAI, question: dict[str, Any]) -> None:
    """response_format as official clients send it, and a schema that the engine cannot follow by name."""
    schema: dict[str, Any] = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    schema["additionalProperties"] = False
    form = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema, "strict": True}}
    answer = client.chat.completions.create(model=None, **question, max_tokens=60, response_format=form)
    assert isinstance(json.loads(answer.choices[0].message.content)["ok"], bool)
    form["json_schema"]["schema"] = {"type": "nonsense"}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=None, **question, max_tokens=60, response_format=form)
    assert caught.value.param == "response_format.json_schema.schema"


def test_a_stream_equals_the_whole_answer(client: OpenAI, question: dict[str, Any]) -> None:
    """Greedy: the same text in pieces; role first, one finish, our metrics chunk reads as an ordinary chunk."""
    whole = client.chat.completions.create(model=None, **question, max_tokens=24)
    chunks = list(
        client.chat.completions.create(
            model=None, **question, max_tokens=24, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    (metrics,) = [chunk.model_extra["muse_metrics"] for chunk in chunks if chunk.model_extra]
    assert metrics["completion_tokens"] == chunks[-1].usage.completion_tokens
    assert chunks[-1].choices == []
    assert len({chunk.id for chunk in chunks}) == 1


def test_without_include_usage_no_chunk_has_usage(client: OpenAI, question: dict[str, Any]) -> None:
    """Only who asks gets the extra chunk."""
    stream = client.chat.completions.create(model=None, **question, max_tokens=4, stream=True)
    chunks = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_the_same_seed_gives_the_same_answer(client: OpenAI) -> None:
    """Sampling arrives at the engine: a seed repeats, temperature varies between seeds."""

    def ask(seed: int) -> str | None:
        answer = client.chat.completions.create(
            model=None, messages=USER, max_tokens=24, temperature=1.2, top_p=0.95, seed=seed,
            extra_body={"top_k": 50, "min_p": 0.01},
        )  # fmt: skip
        return answer.choices[0].message.content

    assert ask(7) == ask(7)
    assert len({ask(seed) for seed in range(5)}) > 1


def test_stop_strings_end_the_answer(client: OpenAI, question: dict[str, Any]) -> None:
    """Everything before the stop string, and finish_reason stop."""
    whole = client.chat.completions.create(model=None, **question, max_tokens=24).choices[0].message.content
    assert whole is not None
    stop = whole[6:11]
    answer = client.chat.completions.create(model=None, **question, max_tokens=24, stop=[stop])
    assert answer.choices[0].message.content == whole[: whole.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_closing_the_stream_frees_the_engine(client: OpenAI, muse_server: ServerProcess) -> None:
    """A client that leaves cancels its generation: the worker is idle without finishing it."""
    stream = client.chat.completions.create(
        model=None, messages=[{"role": "user", "content": "Write a very long story."}], max_tokens=1500, stream=True
    )
    received = 0
    for chunk in stream:
        received += bool(chunk.choices and chunk.choices[0].delta.content)
        if received == 3:
            break
    stream.close()
    muse_server.wait_idle()
    answer = client.chat.completions.create(model=None, messages=USER, max_tokens=1)
    assert answer.model_extra["muse_metrics"]["queue_ms"] < answer.model_extra["muse_metrics"]["total_ms"]


def test_errors_arrive_as_the_clients_own_classes(client: OpenAI) -> None:
    """400 with param, 404 for another model."""
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=None, messages=USER, temperature=3)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=USER)
    assert missing.value.code == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_does_not_fit_is_a_400_with_counts(client: OpenAI, stream: bool) -> None:
    """Before any stream byte, also for streams; nothing is cut."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=None, messages=[{"role": "user", "content": "word " * 9000}], stream=stream
        )
    assert caught.value.code == "context_length_exceeded"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["prompt_tokens"] > caught.value.body["context_length"]
