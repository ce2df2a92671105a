"""Bodies and stream chunks of /v1, in the form that OpenAI's official Python client parses.

Chunks come out as compact JSON in ASCII: an SSE reader that splits lines at U+2028 or U+0085 (Python's
`splitlines` does) then cannot tear one apart. Framing (`data: `) is the front's work.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from muse.api.metrics import AnswerEnd, MuseMetrics
from muse.api.tools import ToolCall

# OpenAI has no word for an answer that was stopped by hand; muse_metrics keeps the difference.
_WIRE_FINISH: Final[Mapping[AnswerEnd, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "cancelled": "stop",
}

_OWNER: Final = "muse"


def new_call_id() -> str:
    """A fresh id of a tool call."""
    return f"call_{secrets.token_hex(12)}"


def call_dict(call: ToolCall) -> dict[str, object]:
    """A call as messages hold it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def new_reply_id() -> str:
    """A fresh id, 128 random bits: whoever knows it may cancel the reply."""
    return f"chatcmpl-{secrets.token_hex(16)}"


class ChunkEncoder:
    """Writes the chunks of one reply. Everything that stays the same within a reply is rendered once, so
    that a content chunk costs one string escape."""

    def __init__(self, *, reply_id: str, model: str, created: int) -> None:
        self._head: dict[str, object] = {
            "id": reply_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        before, self._after_text = self._choice({"content": ""}, None).split(b'"content":""')
        self._before_content = before + b'"content":'
        self._before_reasoning = before + b'"reasoning_content":'

    def role(self) -> bytes:
        """First chunk: the assistant begins."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def content(self, text: str) -> bytes:
        """A piece of the visible answer."""
        return self._before_content + json.dumps(text).encode("ascii") + self._after_text

    def reasoning(self, text: str) -> bytes:
        """A piece of the reasoning, in the field that other servers use for it too."""
        return self._before_reasoning + json.dumps(text).encode("ascii") + self._after_text

    def tool_call(self, index: int, call: ToolCall) -> bytes:
        """A whole call, once it is certain. index: its place among the calls of this answer, from 0."""
        return self._choice({"tool_calls": [{"index": index, **call_dict(call)}]}, None)

    def finish(self, reason: AnswerEnd) -> bytes:
        """Last chunk with a choice that matters: why the answer ended."""
        return self._choice({}, _WIRE_FINISH[reason])

    def metrics(self, metrics: MuseMetrics) -> bytes:
        """`muse_metrics` in a chunk that says nothing else, so that any client reads over it."""
        return self._choice({}, None, {"muse_metrics": metrics.to_dict()})

    def usage(self, metrics: MuseMetrics) -> bytes:
        """Token counts for clients that asked with stream_options.include_usage: no choices."""
        return _compact({**self._head, "choices": [], "usage": usage_dict(metrics)})

    def _choice(
        self, delta: Mapping[str, object], finish: str | None, extra: Mapping[str, object] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _compact({**self._head, "choices": [choice], **(extra or {})})


def completion_body(
    *,
    reply_id: str,
    model: str,
    created: int,
    text: str,
    metrics: MuseMetrics,
    reasoning: str | None = None,
    calls: Sequence[ToolCall] = (),
) -> dict[str, object]:
    """Body of a reply that was not streamed. Same counts and same metrics as the stream's last chunks.
    reasoning null: not asked for, so not mentioned."""
    message: dict[str, object] = {"role": "assistant", "content": None if calls and not text else text}
    if calls:
        message["tool_calls"] = [call_dict(call) for call in calls]
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": _WIRE_FINISH[metrics.finish_reason],
    }
    return {
        "id": reply_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": usage_dict(metrics),
        "muse_metrics": metrics.to_dict(),
    }


def usage_dict(metrics: MuseMetrics) -> dict[str, object]:
    """OpenAI's usage object. cached_tokens: the part of the prompt that the model still held."""
    return {
        "prompt_tokens": metrics.prompt_tokens,
        "completion_tokens": metrics.completion_tokens,
        "total_tokens": metrics.prompt_tokens + metrics.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": metrics.reused_prompt_tokens},
    }


def model_body(model_id: str, *, created: int) -> dict[str, object]:
    """One model, as GET /v1/models/{id} answers it. created: unix seconds."""
    return {"id": model_id, "object": "model", "created": created, "owned_by": _OWNER}


def models_body(model_ids: Sequence[str], *, created: int) -> dict[str, object]:
    """The models that answer now, as GET /v1/models lists them."""
    return {"object": "list", "data": [model_body(model_id, created=created) for model_id in model_ids]}


def _compact(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
