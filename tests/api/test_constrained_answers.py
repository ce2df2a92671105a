"""JSON answers of Muse Glimmer's template over HTTP: their header, their ids, and what goes on from them."""

from __future__ import annotations

import json
from typing import Any

from tests.api.test_prompts import ask
from tests.server_process import ServerProcess
from tests.worker.nano import DATE

FORM: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "animal",
        "schema": {
            "type": "object",
            "properties": {
                "animal": {"enum": ["fox", "dög"]},
                "text": {"type": "string", "maxLength": 30},
                "legs": {"type": "integer", "minimum": 0, "maximum": 1000},
            },
            "required": ["animal", "text", "legs"],
            "additionalProperties": False,
        },
    },
}
OPTIONS = {"chat_template_kwargs": {"current_date": DATE, "return_reasoning": True}, "max_tokens": 200}
HEADER = "<|start|>assistant to=user<|message|>"
QUESTION: dict[str, Any] = {"role": "user", "content": "Describe an animal in JSON."}


def test_a_json_answer_has_its_header(nano_server: ServerProcess) -> None:
    """The model was trained to write it before an answer to the user; the prompt ends with it, and the answer is all
    text. A free answer has none."""
    held, seen = ask(nano_server, [QUESTION], response_format=FORM, **OPTIONS)
    message = held["choices"][0]["message"]
    assert set(json.loads(message["content"])) == {"animal", "text", "legs"}
    assert not message.get("reasoning_content")
    assert seen["segments"][-1]["kind"] == "scaffold"
    assert seen["segments"][-1]["text"].endswith(HEADER)
    _, free = ask(nano_server, [QUESTION], **OPTIONS)
    assert free["segments"][-1]["text"].endswith("<|start|>assistant")


def test_a_further_turn_reuses_a_json_answer(nano_server: ServerProcess) -> None:
    """Its ids stand where the template has the same header: free or constrained, what follows begins behind them."""
    messages = [QUESTION]
    before: dict[str, Any] | None = None
    for fields in ({"response_format": FORM}, {}, {"response_format": FORM}):
        answer, _ = ask(nano_server, messages, session_id="json", **fields, **OPTIONS)
        metrics = answer["muse_metrics"]
        if before is not None:
            assert metrics["session_reset_reason"] == "exact_prefix"
            assert metrics["reused_prompt_tokens"] >= before["prompt_tokens"] + before["completion_tokens"] - 1
        before = metrics
        said = {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}
        messages = [*messages, said, {"role": "user", "content": "And another one?"}]


def test_a_cut_json_answer_is_continued(nano_server: ServerProcess) -> None:
    """In its form, also inside a character's tokens; the session knows it as one answer."""
    for limit in (1, 9, 10, 20):
        session = f"cut-{limit}"
        fields = {**OPTIONS, "max_tokens": limit}
        first, _ = ask(nano_server, [QUESTION], response_format=FORM, session_id=session, **fields)
        assert first["choices"][0]["finish_reason"] == "length"
        body = {"muse": {"continue": first["id"]}, "temperature": 0, "max_tokens": 200}
        rest = nano_server.post("/v1/chat/completions", body).json()
        assert rest["choices"][0]["finish_reason"] == "stop"
        text = "".join(answer["choices"][0]["message"]["content"] for answer in (first, rest))
        assert set(json.loads(text)) == {"animal", "text", "legs"}
        messages = [QUESTION, {"role": "assistant", "content": text}, {"role": "user", "content": "And?"}]
        after, _ = ask(nano_server, messages, session_id=session, **OPTIONS)
        assert after["muse_metrics"]["session_reset_reason"] == "exact_prefix"
