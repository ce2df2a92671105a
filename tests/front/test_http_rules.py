"""Invariant: keeping, reusing and closing connections follow HTTP/1.1 and HTTP/1.0, with no timer involved."""

from __future__ import annotations

import attrs
import pytest
from hypercorn.events import Event

from actors.front.protocol import Http11
from tests.front.harness import PATIENT, running


async def test_connection_is_reused() -> None:
    """Many requests, also with bodies, refused ones and files, on one connection."""
    async with running() as front, await front.connect() as client:
        for _ in range(20):
            assert (await client.ask("GET", "/health")).status == 200
            answer = await client.ask("POST", "/echo", ("content-type", "application/json"), body=b'{"a": [1]}')
            assert (answer.status, answer.body.strip()) == (200, b'{"value":{"a":[1]}}')
            assert (await client.ask("GET", "/")).body.startswith(b"<!doctype html>")
            assert (await client.ask("GET", "/missing")).status == 404
            assert (await client.ask("GET", "/health", ("sec-fetch-site", "cross-site"))).status == 403


async def test_connection_close_is_honoured() -> None:
    """The server closes after the answer, at once."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/health", "Connection: close"))
        answer = await client.read_all()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in answer.lower()


async def test_http_1_0_request_ends_its_connection() -> None:
    """Also with keep-alive, which h11 does not offer to HTTP/1.0."""
    async with running() as front:
        for extra in ((), ("Connection: keep-alive",)):
            async with await front.connect() as client:
                await client.send(client.head("GET", "/health", *extra, version="1.0"))
                answer = await client.read_all()
                assert answer.startswith(b"HTTP/1.1 200 ")
                assert answer.endswith(b'{"status":"ok"}\n')


async def test_http_1_0_stream_ends_by_closing() -> None:
    """No chunk sizes in the body, and the end of the stream is the end of the connection."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/polite", version="1.0"))
        head = await client.read_until(b'{"n":0}')
        front.stopping.set()
        rest = await client.read_all()
        assert b"transfer-encoding" not in head.lower()
        assert rest.endswith(b"event: stopping\ndata: {}\n\n")


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests that came together are served one after the other."""
    async with running() as front, await front.connect() as client:
        body = client.head("POST", "/echo", "Content-Type: application/json", "Content-Length: 1") + b"7"
        last = client.head("GET", "/missing", "Connection: close")
        await client.send(client.head("GET", "/health") + body + last)
        answer = await client.read_all()
        first, second, third = answer.split(b"HTTP/1.1 ")[1:]
        assert first.endswith(b'{"status":"ok"}\n')
        assert second.endswith(b'{"value":7}\n')
        assert third.startswith(b"404 ")


async def test_expect_100_continue_is_answered() -> None:
    """The client is asked for the body before the final answer."""
    async with running() as front, await front.connect() as client:
        head = client.head(
            "POST", "/echo", "Content-Type: application/json", "Content-Length: 3", "Expect: 100-continue"
        )
        await client.send(head)
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(b"[1]")
        assert (await client.read_until(b"}")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/health", "/", "/missing"])
async def test_head_is_get_without_the_body(path: str) -> None:
    """Same status and length, no content, and the connection stays usable."""
    async with running() as front, await front.connect() as client:
        get = await client.ask("GET", path)
        async with await front.connect() as other:
            await other.send(other.head("HEAD", path, "Connection: close"))
            head = await other.read_all()
        assert head.startswith(b"HTTP/1.1 %d " % get.status)
        assert head.endswith(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % len(get.body) in head


async def test_refused_head_request_gets_no_body() -> None:
    """A refusal by the connection itself obeys the same rule."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("HEAD", "/health", "X: " + "a" * 60_000))
        answer = await client.read_all()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert answer.endswith(b"\r\n\r\n")


async def test_refused_body_ends_the_connection() -> None:
    """What was refused unread is not taken for the next request."""
    async with running() as front, await front.connect() as client:
        hidden = client.head("GET", "/wait")
        head = client.head("POST", "/echo", "Content-Type: text/plain", f"Content-Length: {len(hidden)}")
        await client.send(head + hidden)
        assert (await client.read_all()).startswith(b"HTTP/1.1 415 ")
        assert front.phases["wait"].entered == 0


async def test_refused_upload_can_be_finished_before_the_answer_is_read() -> None:
    """Closing with unread input would reset the connection, and some clients would lose the answer."""
    async with running(attrs.evolve(PATIENT, linger_s=60)) as front, await front.connect() as client:
        await client.send(client.head("POST", "/echo", "Content-Type: text/plain", "Content-Length: 1000000"))
        await client.read_until(b"unsupported_media_type")
        for _ in range(100):
            await client.send(b"x" * 10_000)
        await client.stream.send_eof()
        await client.read_all()
        await front.wait_no_connection_tasks()


async def test_fault_of_a_route_is_an_answer() -> None:
    """A route that raises gives a 500 and keeps the connection."""
    async with running() as front, await front.connect() as client:
        assert (await client.ask("GET", "/crash")).status == 500
        assert (await client.ask("GET", "/health")).status == 200


async def test_fault_of_our_own_ends_one_connection_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in the protocol code is logged with its traceback; all other connections go on."""
    handle = Http11.handle

    async def failing(self: Http11, event: Event) -> None:
        if b"X-Bug" in getattr(event, "data", b""):
            raise RuntimeError("a fault of the protocol")
        await handle(self, event)

    monkeypatch.setattr(Http11, "handle", failing)
    async with running() as front, await front.connect() as other:
        await other.ask("GET", "/health")
        async with await front.connect() as client:
            await client.send(client.head("GET", "/health", "X-Bug: 1"))
            assert await client.read_all() == b""
        assert (await other.ask("GET", "/health")).status == 200
    assert "a fault of the protocol" in caplog.text


async def test_fault_of_a_stream_cuts_it_visibly() -> None:
    """The client can tell a broken stream from a complete one: the last chunk is missing."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/crash-late"))
        answer = await client.read_all()
        assert b'{"n":0}' in answer
        assert not answer.endswith(b"0\r\n\r\n")
        await front.assert_healthy()


async def test_many_connections_one_after_the_other_leave_nothing() -> None:
    """500 connections, in groups that are open together."""
    async with running() as front:
        for _ in range(5):
            clients = [await front.connect() for _ in range(100)]
            for client in clients:
                assert (await client.ask("GET", "/health")).status == 200
            for client in clients:
                client.stream.socket.close()
        await front.wait_nothing_left()
