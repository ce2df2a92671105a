"""The server was away (stopped, swapped out, asleep): what came meanwhile is read before any client is judged."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from actors.front.limits import FrontLimits
from tests.absence import AbsentClock
from tests.front.harness import HANG_S, Front, running

CONNECTIONS = 120
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
BODY = b"x" * 300_000
POST = b"POST /size HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture
def absent_clock() -> AbsentClock:
    return AbsentClock()


def connect(front: Front) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", front.port))
    sock.settimeout(HANG_S)
    return sock


async def read_head(sock: socket.socket) -> bytes:
    received = b""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    with trio.fail_after(HANG_S):
        while b"\r\n\r\n" not in received:
            data = await stream.receive_some(65536)
            assert data, f"closed without an answer: {received!r}"
            received += data
    return received


# How much of the request had come before the absence; the rest comes in it. None: nothing, on a connection that has had
# an answer already.
@pytest.mark.parametrize("before", [0, 20, None], ids=["nothing", "half a head", "kept alive"])
async def test_whole_requests_of_many_connections(absent_clock: AbsentClock, before: int | None) -> None:
    """120 connections open before it, the requests sent in it: 120 answers."""
    async with running(FrontLimits()) as front:
        request = GET % front.port
        socks = [connect(front) for _ in range(CONNECTIONS)]
        for sock in socks:
            sock.sendall(request if before is None else request[:before])
        if before is None:
            for sock in socks:
                await read_head(sock)
        await trio.testing.wait_all_tasks_blocked()
        # From here on nothing of the server runs, until the clients read.
        for sock in socks:
            sock.setblocking(True)
            sock.sendall(request if before is None else request[before:])
        absent_clock.away(7)
        for sock in socks:
            assert (await read_head(sock)).startswith(b"HTTP/1.1 200 ")
            sock.close()


async def test_half_a_body(absent_clock: AbsentClock) -> None:
    """Its rest came in the absence, or comes after it."""
    async with running(FrontLimits()) as front:
        request = POST % (front.port, len(BODY)) + BODY
        socks = [connect(front) for _ in range(10)]
        for sock in socks:
            sock.sendall(request[:100_000])
        await trio.testing.wait_all_tasks_blocked()
        for sock in socks[:5]:
            sock.setblocking(True)
            sock.sendall(request[100_000:160_000])
        absent_clock.away(60)
        await trio.testing.wait_all_tasks_blocked()
        for sock in socks:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
            await stream.send_all(request[160_000:] if sock in socks[:5] else request[100_000:])
            assert (await read_head(sock)).startswith(b"HTTP/1.1 200 ")
            sock.close()
