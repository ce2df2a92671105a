"""Invariant: a session id works in every route, or is refused in every route with the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from muse.api.chat_request import parse_session_id
from muse.errors import ClientFault
from tests.server_process import HANG_GUARD_S, ServerProcess

Start = Callable[..., ServerProcess]

TAKEN = [
    *("/", "//", "/a", "a/", "a//b", "a/b", "/reset", "x/reset", "reset", "%", "%2F", "%2e%2e", "?", "a?b#c", "#"),
    *("...", ".a", "a.", "~", "\\", '"', ";a=b", "&", "+", "*", "[x]", "{part}", "<id>", "text/a", "a:b@c", "x" * 128),
]
REFUSED = ["", "x" * 129, " ", "a b", "\x7f", "é", ".", "..", "a/..", "../a", "a/./b", "/.", "//../", 7, ["a"]]


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_refused_ids(value: object) -> None:
    """What is no text of visible ASCII, or cannot stand in an address."""
    with pytest.raises(ClientFault) as caught:
        parse_session_id(value)
    assert caught.value.code == "invalid_session_id"


def test_every_id_that_is_taken_works_everywhere(scripted_server: Start) -> None:
    """Chat, list, show, history, draft, cancel, reset and close, each by the same id, escaped in addresses."""
    server = scripted_server({})
    server.wait_ready()
    with httpx.Client(base_url=server.url, timeout=HANG_GUARD_S) as client:
        for session_id in TAKEN:
            assert use(client, session_id) == (session_id,) * 7, session_id
            assert client.get("/v1/sessions").json()["data"] == []


def use(client: httpx.Client, session_id: str) -> tuple[str, ...]:
    """The id as each route gives it back."""
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "session_id": session_id}
    assert client.post("/v1/chat/completions", json=body).status_code == 200
    listed = client.get("/v1/sessions").json()["data"][0]["session_id"]
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    draft = f"/api/drafts/text/{quote(session_id, safe='')}"
    shown = client.get(path).json()["session_id"]
    messages = {"messages": [{"role": "user", "content": "other"}]}
    put = client.put(path, json=messages).json()["session_id"]
    content = {"version": 1, "content": session_id}
    assert client.put(draft, json=content).json() == {"saved": True}
    drafted = client.get(draft).json()["content"]
    assert client.post("/api/cancel", json={"session_id": session_id}).json() == {"cancelled": False}
    reset = client.post(f"{path}/reset", json={}).json()["session_id"]
    assert client.get(draft).json()["content"] is None
    assert client.get(path).status_code == 404
    client.put(path, json=messages)
    raw = client.get(path).json()["session_id"]
    closed = client.delete(path).json()["session_id"]
    return listed, shown, put, drafted, reset, raw, closed


def test_every_id_that_is_refused_is_refused_everywhere(scripted_server: Start) -> None:
    """With the same code, in the body, in a header and in addresses."""
    server = scripted_server({})
    host, _, port = server.url.removeprefix("http://").partition(":")
    messages: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
    for session_id in ("..", "a/../b", ".", "x" * 129):
        asked: list[tuple[str, str, dict[str, Any]]] = [
            ("POST", "/v1/chat/completions", {**messages, "session_id": session_id}),
            ("POST", "/api/cancel", {"session_id": session_id}),
        ]
        # Every character is escaped, and httpx leaves an address that is given in parts as it is.
        escaped = "".join(f"%{ord(char):02X}" for char in session_id)
        for method, path in (
            ("GET", f"/v1/sessions/{escaped}"),
            ("PUT", f"/v1/sessions/{escaped}"),
            ("DELETE", f"/v1/sessions/{escaped}"),
            ("POST", f"/v1/sessions/{escaped}/reset"),
            ("GET", f"/api/drafts/text/{escaped}"),
            ("PUT", f"/api/drafts/text/{escaped}"),
        ):
            asked.append((method, path, messages))
        for method, path, body in asked:
            url = httpx.URL(scheme="http", host=host, port=int(port), raw_path=path.encode())
            answer = httpx.request(method, url, json=body, timeout=HANG_GUARD_S)
            code = answer.json()["error"]["code"]
            assert (answer.status_code, code) == (400, "invalid_session_id"), (method, path, answer.text)
