"""Drafts over HTTP: given back as they came, the newest version stands, closed with the session, bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from actors.transcripts.drafts import MAX_DRAFTS
from muse.sizes import DRAFT_BYTES
from tests.server_process import HANG_GUARD_S, ServerProcess

pytestmark = pytest.mark.thorough

Start = Callable[..., ServerProcess]
NOTHING = {"version": None, "content": None}
SCRIPT: dict[str, Any] = {"answers": [{"tokens": ["Yes."]}]}


def put(server: ServerProcess, session_id: str, body: Any, part: str = "text", **headers: str) -> httpx.Response:
    url = f"{server.url}/api/drafts/{part}/{quote(session_id, safe='')}"
    return httpx.put(url, json=body, headers=headers, timeout=HANG_GUARD_S)


def held(server: ServerProcess, session_id: str, part: str = "text") -> Any:
    answer = server.get(f"/api/drafts/{part}/{quote(session_id, safe='')}")
    assert answer.status_code == 200
    return answer.json()


def test_a_draft_comes_back_as_it_was_saved(scripted_server: Start) -> None:
    """Any JSON, for a session that has not begun and whose id looks like a path; the parts apart; an answer between
    does not touch it; closing and resetting the session forget it."""
    server = scripted_server(SCRIPT)
    text = {"version": 1, "content": {"text": "half a \U0001f98a", "queue": []}}
    files = {"version": 7, "content": [1.5, None]}
    for end in ("DELETE", "POST"):
        assert held(server, "a/draft") == NOTHING
        assert put(server, "a/draft", text).json() == {"saved": True}
        assert put(server, "a/draft", files, "files").json() == {"saved": True}
        said = {"messages": [{"role": "user", "content": "hi"}], "session_id": "a/draft"}
        assert server.post("/v1/chat/completions", said).status_code == 200
        assert (held(server, "a/draft"), held(server, "a/draft", "files")) == (text, files)
        assert held(server, "a") == NOTHING
        url = f"{server.url}/v1/sessions/a/draft" + ("/reset" if end == "POST" else "")
        assert httpx.request(end, url, json={} if end == "POST" else None, timeout=HANG_GUARD_S).status_code == 200
        assert held(server, "a/draft", "files") == NOTHING


def test_the_newest_version_stands(scripted_server: Start) -> None:
    """A save that was overtaken on its way changes nothing, and is told so; nor does the same one twice."""
    server = scripted_server(SCRIPT)
    for version, saved in ((5, True), (4, False), (5, False), (6, True), (0, False)):
        assert put(server, "s", {"version": version, "content": version}).json() == {"saved": saved}
    assert held(server, "s") == {"version": 6, "content": 6}


def test_what_is_added_is_given_back_beside_it(scripted_server: Start) -> None:
    """As it came, oldest first; something newer replaces all of it."""
    server = scripted_server(SCRIPT)
    added = [{"version": number, "content": {"text": number}, "adds": True} for number in (2, 3)]
    assert put(server, "s", added[0]).json() == {"saved": True}
    assert held(server, "s") == NOTHING | {"added": added[:1]}
    url = f"{server.url}/api/drafts/text/s"
    spaced = httpx.put(url, content=b'{"version": 1, "content": []} \n', headers={"content-type": "application/json"})
    assert spaced.json() == {"saved": True}
    assert put(server, "s", added[1]).json() == {"saved": True}
    assert held(server, "s") == {"version": 1, "content": [], "added": added}
    assert put(server, "s", {"version": 4, "content": 4}).json() == {"saved": True}
    assert held(server, "s") == {"version": 4, "content": 4}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], "invalid_type"),
        ({"version": 1}, "invalid_type"),
        ({"content": 1}, "invalid_type"),
        ({"version": True, "content": 1}, "invalid_type"),
        ({"version": 1.5, "content": 1}, "invalid_type"),
        ({"version": -1, "content": 1}, "invalid_value"),
        ({"version": 2**53, "content": 1}, "invalid_value"),
        ({"version": 1, "content": 1, "more": 1}, "unknown_parameter"),
        ({"version": 1, "content": 1, "adds": 1}, "invalid_type"),
    ],
)
def test_a_wrong_body_is_refused(nano_server: ServerProcess, body: Any, code: str) -> None:
    """In the usual form; nothing is kept."""
    answer = put(nano_server, "wrong", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert held(nano_server, "wrong") == NOTHING


def test_an_unknown_part_and_a_bad_id_are_refused(nano_server: ServerProcess) -> None:
    """404 and 400."""
    body = {"version": 1, "content": 1}
    assert put(nano_server, "s", body, "pictures").status_code == 404
    assert put(nano_server, "x" * 200, body).status_code == 400


def test_other_web_sites_neither_read_nor_write_drafts(nano_server: ServerProcess) -> None:
    """The rules of all routes hold here, too."""
    body = {"version": 1, "content": 1}
    assert put(nano_server, "s", body, Origin="http://evil.example").status_code == 403
    assert put(nano_server, "s", body, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    url = f"{nano_server.url}/api/drafts/text/s"
    plain = httpx.put(url, content=b'{"version":1,"content":1}', headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415
    assert httpx.get(url, headers={"Host": "evil.example"}).status_code in (400, 403, 421)
    assert held(nano_server, "s") == NOTHING


def test_drafts_are_bounded(scripted_server: Start) -> None:
    """One that is too large is refused and changes nothing; the session saved longest ago is forgotten first."""
    server = scripted_server(SCRIPT)
    body = {"version": 1, "content": "kept"}
    assert server.get("/api/runtime").json()["limits"]["draft_bytes"] == DRAFT_BYTES
    put(server, "first", body, "files")
    large = put(server, "first", {"version": 2, "content": "x" * DRAFT_BYTES}, "files")
    assert (large.status_code, large.json()["error"]["code"]) == (413, "draft_too_large")
    assert held(server, "first", "files") == body
    for number in range(MAX_DRAFTS - 1):
        put(server, f"other-{number}", body)
    put(server, "first", {"version": 3, "content": "again"})
    put(server, "last", body)
    assert held(server, "other-0") == NOTHING
    assert held(server, "first", "files") == body
