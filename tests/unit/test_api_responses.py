"""Chunks and bodies are what OpenAI's official client parses, and carry our metrics beside."""

from __future__ import annotations

import json
from typing import get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import CompletionUsage, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from muse.api.metrics import ContextShares, MuseMetrics
from muse.api.responses import ChunkEncoder, completion_body, model_body, models_body, new_reply_id
from muse.protocol import FinishReason, ResetReason

METRICS = MuseMetrics(
    prompt_tokens=10,
    completion_tokens=5,
    reused_prompt_tokens=8,
    prefilled_prompt_tokens=2,
    session_reset_reason="exact_prefix",
    prefill_ms=1.23456,
    decode_tokens_per_second=99.99999,
    finish_reason="stop",
)
CONTRACT_KEYS = (
    *("prompt_tokens", "completion_tokens", "reused_prompt_tokens", "prefilled_prompt_tokens"),
    *("session_reset_reason", "session_reset_explanation", "prefill_ms", "prefill_tokens_per_second"),
    *("decode_ms", "decode_tokens_per_second"),
    *("queue_ms", "time_to_first_token_ms", "total_ms", "thinking_tokens", "thinking_ms", "thinking_unfinished"),
    *("earlier_tokens", "earlier_thinking_tokens", "earlier_thinking_ms"),
    *("max_tokens_cut_to", "vision_encoder_ms", "images_scaled"),
    *("draft_proposed", "draft_accepted", "resumed", "tool_warning", "tool_repairs", "schema_notes", "cancelled"),
    *("context", "finish_reason", "length_limit"),
)


def encoder() -> ChunkEncoder:
    return ChunkEncoder(reply_id="chatcmpl-1", model='m"{}', created=1700000000)


def chunk(data: bytes) -> ChatCompletionChunk:
    """Strict: the client itself would let wrong types pass."""
    return ChatCompletionChunk.model_validate_json(data, strict=True)


def test_stream_chunks_validate_in_order() -> None:
    """Role, content, finish, metrics, usage: all of one reply, all valid for the official types."""
    encode = encoder()
    role, content, finish, metrics, usage = map(
        chunk,
        (encode.role(), encode.content("hé"), encode.finish("length"), encode.metrics(METRICS), encode.usage(METRICS)),
    )
    assert {(c.id, c.created, c.model) for c in (role, content, finish, metrics, usage)} == {
        ("chatcmpl-1", 1700000000, 'm"{}')
    }
    assert role.choices[0].delta.role == "assistant"
    assert content.choices[0].delta.content == "hé"
    assert finish.choices[0].finish_reason == "length"
    assert metrics.choices[0].finish_reason is None
    assert metrics.choices[0].delta.content is None
    assert usage.choices == []
    assert isinstance(usage.usage, CompletionUsage)
    assert (usage.usage.prompt_tokens, usage.usage.completion_tokens, usage.usage.total_tokens) == (10, 5, 15)
    assert usage.usage.prompt_tokens_details is not None
    assert usage.usage.prompt_tokens_details.cached_tokens == 8


@settings(deadline=None)
@given(st.text(st.characters()))
def test_any_text_survives_a_content_chunk(text: str) -> None:
    """The text comes back exactly, and the bytes hold no line end of any kind that a reader might split at."""
    data = encoder().content(text)
    assert json.loads(data)["choices"][0]["delta"]["content"] == text
    assert len(data.decode("ascii").splitlines()) == 1


def test_metrics_chunk_has_every_key_of_the_contract() -> None:
    """In order, with null for what does not apply, and rounded."""
    metrics = json.loads(encoder().metrics(METRICS))["muse_metrics"]
    assert tuple(metrics) == CONTRACT_KEYS
    assert metrics["prefill_ms"] == 1.235
    assert metrics["queue_ms"] is None
    assert metrics["cancelled"] is False


def test_all_shares_of_the_context_are_the_tokens_of_prompt_and_answer() -> None:
    """What was thought is no part of the answer."""
    shares = ContextShares(length=100, template=0, system=1, history=2, images=3, tools=0, question=4, begun=0)
    told = attrs.evolve(METRICS, thinking_tokens=2, context=shares).to_dict()["context"]
    assert isinstance(told, dict)
    assert (told["thinking"], told["answer"]) == (2, 3)
    assert sum(told.values()) - told["length"] == METRICS.prompt_tokens + METRICS.completion_tokens


def test_plain_body_validates() -> None:
    """The body of a reply that was not streamed, with the same counts and metrics as the stream."""
    body = completion_body(reply_id="chatcmpl-1", model="m", created=5, text="hello", metrics=METRICS)
    completion = ChatCompletion.model_validate_json(json.dumps(body), strict=True)
    assert completion.choices[0].message.content == "hello"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 15
    assert body["muse_metrics"] == METRICS.to_dict()


@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_finish_reasons_are_words_that_clients_know(reason: FinishReason) -> None:
    """A cancelled answer says stop on the wire; the metrics keep the difference."""
    finish = chunk(encoder().finish(reason)).choices[0].finish_reason
    assert finish == {"stop": "stop", "length": "length", "cancelled": "stop"}[reason]


def test_models_list_validates() -> None:
    """GET /v1/models and one of its entries."""
    body = models_body(["a", "b"], created=5)
    assert body["object"] == "list"
    assert body["data"] == [model_body("a", created=5), model_body("b", created=5)]
    assert Model.model_validate(model_body("a", created=5), strict=True).id == "a"


def test_reply_ids_are_long_and_differ() -> None:
    """128 random bits: an id is also the right to cancel."""
    ids = {new_reply_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(id_.startswith("chatcmpl-") and len(id_) == 9 + 32 for id_ in ids)


@pytest.mark.parametrize("reason", get_args(ResetReason))
def test_every_reset_reason_has_a_sentence(reason: ResetReason) -> None:
    """The page shows them to people."""
    metrics = MuseMetrics(prompt_tokens=1, completion_tokens=1, session_reset_reason=reason, finish_reason="stop")
    explanation = metrics.to_dict()["session_reset_explanation"]
    assert isinstance(explanation, str)
    assert explanation.endswith(".")
