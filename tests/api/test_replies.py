"""Replies that outlive their client: numbered events, reading again, several readers, going on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server_process import ServerProcess, read_until

Start = Callable[..., ServerProcess]
DETACHED = {"muse": {"detached": True}}
SLOW: dict[str, Any] = {"when": "slow", "tokens": [f"w{number} " for number in range(400)], "token_ms": 3}
TEXT = "".join(SLOW["tokens"])
THINK = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{# </think> #}"
)
THINKING: dict[str, Any] = {
    "chat_template": THINK,
    "answers": [{"tokens": ["<think>", *(f"t{number} " for number in range(500)), "</think>", "Yes."], "token_ms": 4}],
}


def events(lines: Iterator[str]) -> list[tuple[int | None, Any]]:
    """All numbered data events of a stream: (id, chunk)."""
    found: list[tuple[int | None, Any]] = []
    number: int | None = None
    for line in lines:
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: {"):
            found.append((number, json.loads(line[6:])))
            number = None
    return found


def text_of(chunks: list[tuple[int | None, Any]], field: str = "content") -> str:
    return "".join(chunk["choices"][0]["delta"].get(field, "") for _, chunk in chunks if chunk.get("choices"))


def test_a_detached_reply_is_read_on_where_the_connection_was_lost(scripted_server: Start) -> None:
    """The first client reads a part and goes; `after=<last id>` gives the rest, and nothing twice."""
    server = scripted_server({"answers": [SLOW]})
    seen, last_id = "", 0
    with server.stream_chat("slow", **DETACHED) as answer:
        lines = answer.iter_lines()
        first = json.loads(read_until(lines, "assistant")[-1][6:])
        for line in lines:
            if line.startswith("id: "):
                last_id = int(line[4:])
            elif line.startswith("data: {"):
                seen += json.loads(line[6:])["choices"][0]["delta"].get("content", "")
                if len(seen) > 100:
                    break
    assert last_id == len(seen)
    rest = events(iter(server.get(f"/api/replies/{first['id']}?after={last_id}").text.splitlines()))
    assert seen + text_of(rest) == TEXT
    assert {chunk["id"] for _, chunk in rest} == {first["id"]}
    assert [chunk["muse_metrics"]["cancelled"] for _, chunk in rest if "muse_metrics" in chunk] == [False]
    again = events(iter(server.get(f"/api/replies/{first['id']}").text.splitlines()))
    assert text_of(again) == TEXT
    assert again[0][1]["choices"][0]["delta"]["role"] == "assistant"


def test_several_readers_get_the_same(scripted_server: Start) -> None:
    """Two readers from different positions while the answer is being given."""
    server = scripted_server({"answers": [SLOW]})
    with server.stream_chat("slow", **DETACHED) as answer:
        lines = answer.iter_lines()
        reply_id = json.loads(read_until(lines, "w20 ")[-1][6:])["id"]
        second = events(iter(server.get(f"/api/replies/{reply_id}?after=10").text.splitlines()))
        first = events(lines)
    assert text_of(second) == TEXT[10:]
    assert TEXT.endswith(text_of(first))


def test_a_detached_reply_without_readers_can_still_be_cancelled(scripted_server: Start) -> None:
    """By its id; then it is finished, and says so to whoever reads it."""
    server = scripted_server({"answers": [{**SLOW, "token_ms": 50}]})
    with server.stream_chat("slow", **DETACHED) as answer:
        reply_id = json.loads(read_until(answer.iter_lines(), "w2 ")[-1][6:])["id"]
    assert server.get("/api/runtime").json()["requests"]["running"] == 1
    assert server.post("/api/cancel", {"reply_id": reply_id}).json() == {"cancelled": True}
    chunks = events(iter(server.get(f"/api/replies/{reply_id}").text.splitlines()))
    assert [chunk["muse_metrics"]["cancelled"] for _, chunk in chunks if "muse_metrics" in chunk] == [True]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/replies/chatcmpl-none", 404), ("/api/replies/x?after=-1", 400), ("/api/replies/x?after=y", 400),
     ("/api/replies/x?before=1", 400), ("/api/replies/x?reasoning=maybe", 400),
     ("/api/replies/x?after=1&after=2", 400)],
)  # fmt: skip
def test_wrong_readings_are_explained(scripted_server: Start, path: str, status: int) -> None:
    """Unknown replies and wrong positions."""
    answer = scripted_server({}).get(path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_a_cut_answer_is_continued(scripted_server: Start) -> None:
    """`muse.continue`: the new reply goes on behind the last token; both together are the whole answer."""
    server = scripted_server({"answers": [{"tokens": SLOW["tokens"]}]})
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100, "session_id": "s"}
    cut = server.post("/v1/chat/completions", body).json()
    assert cut["choices"][0]["finish_reason"] == "length"
    more = server.post("/v1/chat/completions", {"muse": {"continue": cut["id"]}, "max_tokens": 100}).json()
    end = server.post("/v1/chat/completions", {"muse": {"continue": more["id"]}}).json()
    texts = [answer["choices"][0]["message"]["content"] for answer in (cut, more, end)]
    assert "".join(texts) == TEXT
    assert [answer["usage"]["completion_tokens"] for answer in (cut, more, end)] == [100, 100, 200]
    assert end["choices"][0]["finish_reason"] == "stop"
    refused = server.post("/v1/chat/completions", {"muse": {"continue": end["id"]}})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "reply_complete")
    gone = server.post("/v1/chat/completions", {"muse": {"continue": "chatcmpl-gone"}})
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "reply_not_found")


def test_answer_now_closes_the_reasoning(scripted_server: Start) -> None:
    """The same stream goes on: reasoning ends where it was, the answer follows."""
    server = scripted_server(THINKING)
    with server.stream_chat(chat_template_kwargs={"return_reasoning": True}) as answer:
        lines = answer.iter_lines()
        reply_id = json.loads(read_until(lines, "t20")[-1][6:])["id"]
        assert server.post(f"/api/replies/{reply_id}/answer-now", {}).json() == {"answering": True}
        chunks = events(lines)
    assert not text_of(chunks, "reasoning_content").endswith("t499")
    assert text_of(chunks)
    (metrics,) = [chunk["muse_metrics"] for _, chunk in chunks if "muse_metrics" in chunk]
    assert 20 <= metrics["thinking_tokens"] < 500
    assert metrics["finish_reason"] == "stop"
    assert server.post(f"/api/replies/{reply_id}/answer-now", {}).json() == {"answering": False}


def test_a_budget_for_thinking_closes_the_reasoning(scripted_server: Start) -> None:
    """max_thinking_tokens: about so many, then the answer; without return_reasoning none of it is shown."""
    server = scripted_server(THINKING)
    body = {"messages": [{"role": "user", "content": "hi"}], "muse": {"max_thinking_tokens": 10}}
    answer = server.post("/v1/chat/completions", body).json()
    assert answer["choices"][0]["message"]["content"]
    assert "reasoning_content" not in answer["choices"][0]["message"]
    assert 10 <= answer["muse_metrics"]["thinking_tokens"] < 100


def test_thinking_that_uses_the_whole_budget_says_so(scripted_server: Start) -> None:
    """finish_reason length, no answer text, and the receipt shows where the tokens went."""
    server = scripted_server(THINKING)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    answer = server.post("/v1/chat/completions", body).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == ""
    assert answer["muse_metrics"]["thinking_tokens"] == 50
