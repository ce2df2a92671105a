"""Invariant: a client that sends whole requests and then closes its sending side (`nc -N`) gets all of its answers."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from typing import Any

import pytest
import trio

from actors.front.protocol import Http11
from tests.front.harness import HANG_S, Client, Front, running

JSON = ("Content-Type: application/json",)


async def answers(front: Front, data: bytes) -> bytes:
    """What comes back for these bytes and the end of input."""
    async with await front.connect() as client:
        await client.send(data)
        await client.stream.send_eof()
        return await client.read_all()


def post(client: Client, path: str, body: bytes, *extra: str) -> bytes:
    return client.head("POST", path, *JSON, f"Content-Length: {len(body)}", *extra) + body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_half_closed_client_gets_its_answer(version: str) -> None:
    """Whole, and then the connection is closed."""
    async with running() as front:
        async with await front.connect() as client:
            data = client.head("GET", "/health", version=version)
        answer = await answers(front, data)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b'{"status":"ok"}\n')
        await front.wait_nothing_left()


async def test_all_pipelined_requests_are_answered() -> None:
    """Also those behind the first one, with a body and an empty line behind it."""
    async with running() as front:
        async with await front.connect() as client:
            data = client.head("GET", "/health") + post(client, "/echo", b"[1]") + b"\r\n" + client.head("GET", "/big")
        answer = await answers(front, data)
        assert answer.count(b"HTTP/1.1 200 ") == 3
        assert answer.endswith(b"x" * 1000)


async def test_a_late_answer_comes_behind_probes() -> None:
    """While it is worked on, probes find the client there."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/wait"))
        await client.stream.send_eof()
        for _ in range(2):
            assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        front.stop.set()
        assert front.phases["wait"].entered == 1


async def test_the_standard_library_takes_no_probe_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """http.client discards 100 and no other interim status."""
    probed = trio.Event()

    async def probe(protocol: Http11, _real: Any = Http11.probe) -> None:
        await _real(protocol)
        probed.set()

    monkeypatch.setattr(Http11, "probe", probe)
    async with running() as front:
        answers: list[tuple[int, bytes]] = []

        def ask() -> None:
            with closing(http.client.HTTPConnection("127.0.0.1", front.port, timeout=HANG_S)) as connection:
                connection.request("GET", "/late")
                connection.sock.shutdown(socket.SHUT_WR)
                answer = connection.getresponse()
                answers.append((answer.status, answer.read()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask)
            await probed.wait()
            front.stopping.set()
    assert answers == [(200, b'{"status":"ok"}\n')]


async def test_a_stream_goes_on_for_a_half_closed_client() -> None:
    """The end of input came before the answer began."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/polite"))
        await client.stream.send_eof()
        await client.read_until(b'{"n":0}')
        front.stopping.set()
        assert b"event: stopping" in await client.read_all()


async def test_a_client_that_has_left_is_found_by_a_probe() -> None:
    """It is not waited for, also if its request came whole."""
    async with running() as front:
        async with await front.connect() as client:
            await client.send(post(client, "/wait", b"[1]"))
        await front.phases["wait"].wait_until("cancelled", 1)
        await front.wait_nothing_left()


@pytest.mark.parametrize("cut", [1, 40, -3])
async def test_half_a_request_is_no_request(cut: int) -> None:
    """Its rest will never come: the connection ends without reaching a route."""
    async with running() as front:
        async with await front.connect() as client:
            data = post(client, "/slow", b"[1, 2, 3]")
        with trio.fail_after(HANG_S):
            await answers(front, data[:cut])
        await front.wait_nothing_left()
        assert front.phases["slow"].entered == 0
