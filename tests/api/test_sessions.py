"""Named sessions over HTTP: what stays warm, what is shown, what is forgotten, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.server_process import HANG_GUARD_S, ServerProcess, read_until

Start = Callable[..., ServerProcess]
ECHO: dict[str, Any] = {"answers": [{"when": "slow", "tokens": {"repeat": ["la "], "count": 4000}, "token_ms": 3}]}


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def ask(server: ServerProcess, messages: list[dict[str, str]], **fields: Any) -> dict[str, Any]:
    """One whole answer; fails unless it is 200."""
    answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 24, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def test_a_second_turn_costs_only_its_own_tokens(muse_server: ServerProcess) -> None:
    """With the built-in model: the exact ids stand for the answer, so the whole first turn is a prefix; an
    anonymous request in between changes nothing."""
    messages = [said("user", "Tell me about lighthouses, please. " * 12)]
    first = ask(muse_server, messages, session_id="warm")
    ask(muse_server, [said("user", "Something else.")])
    messages += [said("assistant", text_of(first)), said("user", "And now?")]
    second = ask(muse_server, messages, session_id="warm")["muse_metrics"]
    before = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    assert second["session_reset_reason"] == "exact_prefix"
    assert second["reused_prompt_tokens"] in (before, before - 1)  # the last sampled one may not be evaluated yet
    assert second["prefilled_prompt_tokens"] == second["prompt_tokens"] - second["reused_prompt_tokens"]
    assert "read only what is new" in second["session_reset_explanation"]
    shown = muse_server.get("/v1/sessions/warm").json()
    assert (shown["turns"], shown["exact_turns"]) == (2, 2)
    assert shown["resident_tokens"] == second["prompt_tokens"] + second["completion_tokens"]


def test_an_edited_answer_is_text_and_keeps_what_is_before_it(muse_server: ServerProcess) -> None:
    """The first turn stays; the changed answer is read as the client wrote it, and later turns are exact again."""
    question = said("user", "Name a colour. " * 10)
    first = ask(muse_server, [question], session_id="edit")
    edited = [question, said("assistant", "Green, of course."), said("user", "Why?")]
    second = ask(muse_server, edited, session_id="edit")
    metrics = second["muse_metrics"]
    assert metrics["session_reset_reason"] == "rewound"
    assert metrics["reused_prompt_tokens"] >= first["usage"]["prompt_tokens"] - 4
    third = ask(muse_server, [*edited, said("assistant", text_of(second)), said("user", "Really?")], session_id="edit")
    assert third["muse_metrics"]["session_reset_reason"] == "exact_prefix"
    assert muse_server.get("/v1/sessions/edit").json()["exact_turns"] == 2


def test_regenerating_reads_nothing_but_the_end_again(muse_server: ServerProcess) -> None:
    """The same history once more: only its last token is evaluated."""
    messages = [said("user", "Name a colour. " * 10)]
    ask(muse_server, messages, session_id="again")
    metrics = ask(muse_server, messages, session_id="again")["muse_metrics"]
    assert metrics["session_reset_reason"] == "rewound"
    assert metrics["prefilled_prompt_tokens"] == 1


def test_a_session_is_shown_and_listed(scripted_server: Start) -> None:
    """The visible transcript with receipts, as a client may send it back; the one used last first."""
    server = scripted_server(ECHO)
    ask(server, [said("system", "Be brief."), said("user", "one")], session_id="a")
    ask(server, [said("user", "two")], session_id="b")
    shown = server.get("/v1/sessions/a").json()
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["system", "user", "assistant"]
    answer = shown["messages"][-1]
    assert (answer["content"], answer["finish_reason"]) == ("one", "stop")
    assert answer["muse_metrics"]["finish_reason"] == "stop"
    assert answer["reply_id"].startswith("chatcmpl-")
    assert shown["running"] is None
    assert [session["session_id"] for session in server.get("/v1/sessions").json()["data"]] == ["b", "a"]


def test_reset_and_close_forget(scripted_server: Start) -> None:
    """Both are fine with an unknown session, and say so when asked again; bad ids are refused."""
    server = scripted_server(ECHO)
    for method, path, said_so in (("POST", "/reset", "reset"), ("DELETE", "", "closed")):
        ask(server, [said("user", "one")], session_id="s")
        for _ in range(2):
            answer = httpx.request(method, f"{server.url}/v1/sessions/s{path}", json={}, timeout=HANG_GUARD_S)
            assert answer.json() == {said_so: True, "session_id": "s"}
            unknown = server.get("/v1/sessions/s")
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "session_not_found")
        assert ask(server, [said("user", "one")], session_id="s")["muse_metrics"]["session_reset_reason"] == "new"
    for odd in ("a/b", "x/reset", "%", "?#"):
        ask(server, [said("user", "one")], session_id=odd)
        path = f"/v1/sessions/{quote(odd, safe='')}"
        assert server.get(path).json()["session_id"] == odd
        assert server.post(f"{path}/reset", {}).json() == {"reset": True, "session_id": odd}
        assert server.get(path).status_code == 404
    assert server.get("/v1/sessions/a%20b").json()["error"]["code"] == "invalid_session_id"
    assert server.get("/v1/sessions/" + "x" * 129).json()["error"]["code"] == "invalid_session_id"


@pytest.mark.parametrize("name", ["X-ExecuTorch-Session-ID", "session_id", "x-session-affinity"])
def test_a_header_names_the_session_unless_the_body_does(scripted_server: Start, name: str) -> None:
    """In the order of the contract; a bad one is refused by its name."""
    server = scripted_server(ECHO)

    def post(headers: list[tuple[str, str]], **fields: Any) -> httpx.Response:
        body = {"messages": [said("user", "x")], **fields}
        return httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=HANG_GUARD_S)

    def listed() -> list[str]:
        return [session["session_id"] for session in server.get("/v1/sessions").json()["data"]]

    assert post([(name, "h")]).status_code == 200
    assert listed() == ["h"]
    assert post([(name, "h2")], session_id="body").status_code == 200
    assert listed() == ["body", "h"]
    refused = post([(name, "a b")]).json()["error"]
    assert (refused["code"], refused["param"]) == ("invalid_session_id", name)
    assert post([("x-session-affinity", "last"), ("X-ExecuTorch-Session-ID", "first")]).status_code == 200
    assert listed()[0] == "first"


def test_another_conversation_under_the_same_id(scripted_server: Start) -> None:
    """Nothing of the old one comes back; the session is the new one."""
    server = scripted_server(ECHO)
    ask(server, [said("user", "old")], session_id="s")
    foreign = [said("user", "new"), said("assistant", "never said here"), said("user", "newer")]
    answer = ask(server, foreign, session_id="s")
    assert text_of(answer) == "newer"
    assert answer["muse_metrics"]["session_reset_reason"] == "rewound"
    shown = server.get("/v1/sessions/s").json()
    assert [message["content"] for message in shown["messages"]] == ["new", "never said here", "newer", "newer"]
    assert (shown["turns"], shown["exact_turns"]) == (2, 1)


def test_a_request_that_fails_changes_no_history(scripted_server: Start) -> None:
    """A prompt that does not fit: the old history stands, and goes on warm."""
    server = scripted_server({**ECHO, "context_length": 200})
    first = ask(server, [said("user", "one")], session_id="s")
    before = server.get("/v1/sessions/s").json()
    too_long = server.post(
        "/v1/chat/completions", {"messages": [said("user", "long " * 100)], "session_id": "s", "stream": True}
    )
    assert too_long.status_code == 400
    assert server.get("/v1/sessions/s").json() == before
    follow_up = [said("user", "one"), said("assistant", text_of(first)), said("user", "two")]
    assert ask(server, follow_up, session_id="s")["muse_metrics"]["session_reset_reason"] == "exact_prefix"


def test_two_tabs_on_one_session_take_turns(scripted_server: Start) -> None:
    """The second waits for the first, and sees its turn in the history if it hands it back."""
    server = scripted_server(ECHO)
    done: list[dict[str, Any]] = []
    with server.stream_chat("slow", session_id="s", max_tokens=300) as first:
        lines = first.iter_lines()
        read_until(lines, "la ")
        shown = server.get("/v1/sessions/s").json()
        assert shown["running"] is not None
        assert [message["content"] for message in shown["messages"]] == ["slow"]
        other = threading.Thread(target=lambda: done.append(ask(server, [said("user", "me too")], session_id="s")))
        other.start()
        server.wait_until(lambda state: state["requests"]["queued"] == 1)
        read_until(lines, "[DONE]")
    other.join(HANG_GUARD_S)
    assert text_of(done[0]) == "me too"
    assert [message["content"] for message in server.get("/v1/sessions/s").json()["messages"]] == ["me too"] * 2


def test_closing_a_session_ends_its_turns(scripted_server: Start) -> None:
    """The running one is cancelled, the waiting one too; then nothing is left."""
    server = scripted_server(ECHO)
    waiting: list[dict[str, Any]] = []
    with server.stream_chat("slow", session_id="s") as running:
        lines = running.iter_lines()
        read_until(lines, "la ")
        other = threading.Thread(target=lambda: waiting.append(ask(server, [said("user", "x")], session_id="s")))
        other.start()
        server.wait_until(lambda state: state["requests"]["queued"] == 1)
        closed = httpx.delete(f"{server.url}/v1/sessions/s", timeout=HANG_GUARD_S)
        assert closed.status_code == 200
        rest = read_until(lines, "[DONE]")
    other.join(HANG_GUARD_S)
    assert any('"cancelled":true' in line for line in rest)
    assert waiting[0]["muse_metrics"]["cancelled"] is True
    assert server.get("/v1/sessions/s").status_code == 404
    assert server.get("/v1/sessions").json()["data"] == []


def test_the_session_used_longest_ago_is_forgotten_first(scripted_server: Start) -> None:
    """64 are kept; the 65th costs the first, which is then as good as new."""
    server = scripted_server(ECHO)
    for number in range(65):
        ask(server, [said("user", "x")], session_id=f"s{number}")
    assert len(server.get("/v1/sessions").json()["data"]) == 64
    assert server.get("/v1/sessions/s0").status_code == 404
    assert server.get("/v1/sessions/s1").status_code == 200


def test_a_dead_worker_costs_warmth_but_no_history(scripted_server: Start) -> None:
    """After a restart the ids are sent again, and the turn after that is warm again."""
    server = scripted_server(ECHO)
    messages = [said("user", "one")]
    for _ in range(2):
        messages += [said("assistant", text_of(ask(server, messages, session_id="s"))), said("user", "more")]
    epoch = server.wait_ready()["worker"]["epoch"]
    assert server.post("/api/worker/restart", {}).status_code == 200
    server.wait_until(lambda state: state["worker"]["epoch"] > epoch and state["worker"]["state"] == "ready")
    assert server.get("/v1/sessions/s").json()["resident_tokens"] == 0
    cold = ask(server, messages, session_id="s")
    assert cold["muse_metrics"]["session_reset_reason"] == "new"
    messages += [said("assistant", text_of(cold)), said("user", "and more")]
    assert ask(server, messages, session_id="s")["muse_metrics"]["session_reset_reason"] == "exact_prefix"
    assert server.get("/v1/sessions/s").json()["exact_turns"] == 4


def test_a_request_that_waits_is_shown_and_can_be_ended_by_its_id(scripted_server: Start) -> None:
    """While the model loads or others run: the session shows it, and the stream's header names the reply."""
    server = scripted_server({**ECHO, "load_ms": 6000}, ready=False)
    with server.stream_chat("early", session_id="s", muse={"detached": True}) as waiting:
        shown = server.get("/v1/sessions/s").json()
        assert (shown["messages"], shown["running"]) == ([], None)
        (request,) = shown["waiting"]
        assert request == {"reply_id": waiting.headers["muse-reply-id"], "messages": [said("user", "early")]}
        assert server.post("/api/cancel", {"reply_id": request["reply_id"]}).json() == {"cancelled": True}
        assert any('"cancelled":true' in line for line in waiting.iter_lines())
    assert server.get("/v1/sessions/s").status_code == 404


def test_a_continued_answer_is_shown_from_its_beginning(scripted_server: Start) -> None:
    """While it waits and while it runs: the cut answer stands last, and the reply that goes on with it is named."""
    server = scripted_server({**ECHO, "slots": 1})
    cut = ask(server, [said("user", "slow")], session_id="s", max_tokens=3)
    with server.stream_chat("slow") as other:
        lines = other.iter_lines()  # closes the stream when it is dropped
        assert next(lines)
        body = {"muse": {"continue": cut["id"], "detached": True}, "stream": True}
        with httpx.stream("POST", server.url + "/v1/chat/completions", json=body, timeout=HANG_GUARD_S) as rest:
            reply_id = rest.headers["muse-reply-id"]
            begun = {**said("assistant", "la la la "), "reply_id": cut["id"]}
            (waiting,) = server.get("/v1/sessions/s").json()["waiting"]
            assert waiting == {"reply_id": reply_id, "messages": [said("user", "slow"), begun]}
            other.close()
            read_until(rest.iter_lines(), "la ")
            shown = server.get("/v1/sessions/s").json()
            assert (shown["running"], shown["messages"]) == (reply_id, [said("user", "slow"), begun])
            assert server.post("/api/cancel", {"reply_id": reply_id}).json() == {"cancelled": True}
    server.wait_idle()
    whole = server.get("/v1/sessions/s").json()["messages"][-1]
    assert whole["reply_id"] == reply_id
    assert whole["content"].startswith("la la la la ")


def test_a_history_can_be_changed_without_a_request(scripted_server: Start) -> None:
    """An edited answer is the session's at once; the ids before it stay. Not while an answer is being given."""
    server = scripted_server(ECHO)
    first = [said("user", "one"), said("assistant", "one")]
    ask(server, first[:1], session_id="s")
    ask(server, [*first, said("user", "two")], session_id="s")
    url = f"{server.url}/v1/sessions/s"
    edited = [*first, said("user", "two"), said("assistant", "TWO")]
    assert httpx.put(url, json={"messages": edited}, timeout=HANG_GUARD_S).json() == {"session_id": "s", "messages": 4}
    shown = server.get("/v1/sessions/s").json()
    assert [message["content"] for message in shown["messages"]] == ["one", "one", "two", "TWO"]
    assert (shown["turns"], shown["exact_turns"]) == (2, 1)
    again = ask(server, [*edited, said("user", "three")], session_id="s")["muse_metrics"]
    assert again["session_reset_reason"] == "rewound"
    for body in ({}, {"messages": edited, "x": 1}, {"messages": [said("nobody", "x")]}, []):
        assert httpx.put(url, json=body, timeout=HANG_GUARD_S).status_code == 400
    with server.stream_chat("slow", session_id="s") as running:
        lines = running.iter_lines()
        read_until(lines, "la ")
        busy = httpx.put(url, json={"messages": edited}, timeout=HANG_GUARD_S)
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")


def put(server: ServerProcess, session_id: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.put(f"{server.url}/v1/sessions/{session_id}", json=body, timeout=HANG_GUARD_S)


def test_a_shown_session_can_be_handed_back(scripted_server: Start) -> None:
    """By PUT and by a request, as it is: every field is taken, and all is shown as before."""
    server = scripted_server(ECHO)
    messages = [said("user", "one")]
    for text in ("two", "three"):
        messages += [said("assistant", text_of(ask(server, messages, session_id="a"))), said("user", text)]
    ask(server, messages, session_id="a")
    shown = server.get("/v1/sessions/a").json()
    assert put(server, "a", shown).status_code == 200
    again = server.get("/v1/sessions/a").json()
    assert again["messages"] == shown["messages"]
    assert again["exact_turns"] == 3
    # A session that never was here, such as after a restart: nothing is exact, and all is shown.
    assert put(server, "b", {"messages": shown["messages"]}).status_code == 200
    other = server.get("/v1/sessions/b").json()
    assert (other["messages"], other["exact_turns"]) == (shown["messages"], 0)
    ask(server, [*shown["messages"], said("user", "four")], session_id="c")
    assert server.get("/v1/sessions/c").json()["messages"][:-2] == shown["messages"]
    # Told again without its details, an unchanged answer keeps them.
    bare = [{key: message[key] for key in ("role", "content")} for message in shown["messages"]]
    assert put(server, "b", {"messages": bare}).status_code == 200
    assert server.get("/v1/sessions/b").json()["messages"] == shown["messages"]


def test_an_edit_leaves_what_is_shown_beside_other_answers(scripted_server: Start) -> None:
    """The edited answer is the client's; those behind it are text for the model, and shown as they were. One that was
    taken out takes nothing with it."""
    server = scripted_server(ECHO)
    messages = [said("user", "one")]
    for text in ("two", "three", "four"):
        messages += [said("assistant", text_of(ask(server, messages, session_id="a"))), said("user", text)]
    ask(server, messages, session_id="a")
    shown = server.get("/v1/sessions/a").json()["messages"]
    bare = [{key: message[key] for key in ("role", "content")} for message in shown]
    bare[1]["content"] = "edited"
    assert put(server, "a", {"messages": bare}).status_code == 200
    edited = server.get("/v1/sessions/a").json()
    assert edited["messages"] == [shown[0], bare[1], *shown[2:]]
    assert edited["exact_turns"] == 0
    del bare[2:4]
    assert put(server, "a", {"messages": bare}).status_code == 200
    assert server.get("/v1/sessions/a").json()["messages"] == [shown[0], bare[1], *shown[4:]]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": [{"role": "user", "content": "x"}], "mesages": []}, "mesages"),
        ({"messages": [{"role": "user", "content": "x", "reply_id": "r"}]}, "messages[0].reply_id"),
        ({"messages": [{"role": "assistant", "content": "x", "muse_metrics": 1}]}, "messages[0].muse_metrics"),
        ({"messages": [{"role": "assistant", "content": "x", "reply_id": "r" * 257}]}, "messages[0].reply_id"),
        ({"messages": [{"role": "assistant", "content": "x", "error": {"a": "b" * 70_000}}]}, "messages[0]"),
    ],
)
def test_a_wrong_history_is_named(nano_server: ServerProcess, body: dict[str, Any], param: str) -> None:
    """By the path of what is wrong in it."""
    answer = put(nano_server, "wrong", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert nano_server.get("/v1/sessions/wrong").status_code == 404


def test_what_was_deleted_is_shown_nowhere(scripted_server: Start) -> None:
    """By no way over HTTP, and the session does not come back."""
    server = scripted_server(ECHO)
    for method, path in (("DELETE", ""), ("POST", "/reset")):
        answer = ask(server, [said("user", "one two three")], session_id="s", max_tokens=1)
        url = f"{server.url}/v1/sessions/s{path}"
        assert httpx.request(method, url, json={}, timeout=HANG_GUARD_S).status_code == 200
        for shown in (f"/api/replies/{answer['id']}", f"/api/replies/{answer['id']}/prompt", "/v1/sessions/s"):
            assert server.get(shown).status_code == 404
        more = server.post("/v1/chat/completions", {"muse": {"continue": answer["id"]}})
        assert (more.status_code, more.json()["error"]["code"]) == (404, "reply_not_found")
        assert server.get("/v1/sessions").json()["data"] == []
