"""Invariant: whatever the application behind the gate does, a request gets one answer or a visible cut."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import trio
from hypercorn.typing import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, HTTPScope, Scope

from actors.front.body import BODY
from actors.front.gate import Gate
from actors.front.limits import FrontLimits
from actors.front.security import SecurityPolicy

POLICY = SecurityPolicy(hosts=frozenset({b"localhost"}), port=80)
JSON = (b"content-type", b"application/json")


def scope(method: str = "GET", *headers: tuple[bytes, bytes]) -> HTTPScope:
    made: object = {
        "type": "http",
        "method": method,
        "path": "/x",
        "raw_path": b"/x",
        "headers": [(b"host", b"localhost"), *headers],
        "state": {},
    }
    return made  # type: ignore[return-value]


async def answer(
    app: Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], object],
    request: HTTPScope,
    incoming: list[ASGIReceiveEvent] | None = None,
) -> list[ASGISendEvent]:
    """What comes out of the gate for one request."""
    sent: list[ASGISendEvent] = []
    waiting = list(incoming or [])

    async def receive() -> ASGIReceiveEvent:
        if not waiting:
            await trio.sleep_forever()
        return waiting.pop(0)

    async def send(message: ASGISendEvent) -> None:
        sent.append(message)

    gate = Gate(app, policy=POLICY, static=None, limits=FrontLimits())  # type: ignore[arg-type]
    await gate(request, receive, send)
    return sent


async def failing(_: Scope, __: ASGIReceiveCallable, ___: ASGISendCallable) -> None:
    raise RuntimeError("a fault")


async def failing_in_a_task(_: Scope, __: ASGIReceiveCallable, ___: ASGISendCallable) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(failing, _, __, ___)


async def failing_late(_: Scope, __: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("a late fault")


async def echoing(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    message = await receive()
    assert message == {"type": "http.request", "body": b"", "more_body": False}
    body = bytes(scope["state"].pop(BODY, b""))  # type: ignore[typeddict-item]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"max-age=1")]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
    assert (await receive())["type"] == "http.disconnect"


@pytest.mark.parametrize("app", [failing, failing_in_a_task])
async def test_fault_before_the_first_byte_is_a_500(
    app: Callable[[Scope, ASGIReceiveCallable, ASGISendCallable], object], caplog: pytest.LogCaptureFixture
) -> None:
    """In the error envelope, without the reason, which is in the log."""
    start, body = await answer(app, scope())
    assert start["type"] == "http.response.start"
    assert body["type"] == "http.response.body"
    assert start["status"] == 500
    error = json.loads(body["body"])["error"]
    assert (error["code"], error["type"]) == ("internal_error", "server_error")
    assert "a fault" not in error["message"]
    assert "a fault" in caplog.text


async def test_fault_after_the_first_byte_goes_on_to_the_connection() -> None:
    """Which ends it; a second answer would be taken for content."""
    with pytest.RaisesGroup(RuntimeError):
        await answer(failing_late, scope())


async def test_body_waits_in_the_scope_whole() -> None:
    """And not in a message; then nothing comes until the client leaves. What the application says of caching stands."""
    incoming: list[ASGIReceiveEvent] = [
        {"type": "http.request", "body": b"[1,", "more_body": True},
        {"type": "http.request", "body": b"2]", "more_body": True},
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent = await answer(echoing, scope("POST", JSON, (b"transfer-encoding", b"chunked")), incoming)
    assert sent[0]["type"] == "http.response.start"
    assert list(sent[0]["headers"]) == [(b"Cache-Control", b"max-age=1")]
    assert sent[1:] == [{"type": "http.response.body", "body": b"[1,2]", "more_body": False}]


async def test_request_without_a_body_has_an_empty_one() -> None:
    """The server's own empty message is not handed over a second time."""
    incoming: list[ASGIReceiveEvent] = [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent = await answer(echoing, scope(), incoming)
    assert sent[1:] == [{"type": "http.response.body", "body": b"", "more_body": False}]


async def test_client_that_leaves_in_its_body_gets_no_answer() -> None:
    """And the application does not hear of it."""
    incoming: list[ASGIReceiveEvent] = [
        {"type": "http.request", "body": b"[1,", "more_body": True},
        {"type": "http.disconnect"},
    ]
    assert await answer(failing, scope("POST", JSON, (b"content-length", b"9")), incoming) == []
