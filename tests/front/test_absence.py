"""The server was away (stopped, swapped out, asleep): what came meanwhile is read before any client is judged.

A LONG absence is no time (`muse/attention.py`), a SHORT one counts as it is. The clock moves by these alone.
"""

from __future__ import annotations

import socket
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing
from hypercorn.events import Event, RawData
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from actors.front.answers import protocol_fault
from actors.front.protocol import FrontConfig, Http11
from muse.attention import LATE_S
from tests.absence import AbsentClock
from tests.front.harness import HANG_S, PATIENT, Front, running

CONNECTIONS = 120
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
BODY = b"x" * 300_000
POST = b"POST /size HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LONG_S = 60.0
SHORT_S = 0.95 * LATE_S
LIMIT_S = 0.9 * LATE_S
"""Passes in a short absence, too."""
TIGHT = attrs.evolve(
    PATIENT, header_s=LIMIT_S, keep_alive_s=LIMIT_S, body_stall_s=LIMIT_S, body_total_s=LIMIT_S, send_stall_s=LIMIT_S
)


@pytest.fixture
def absent_clock() -> AbsentClock:
    return AbsentClock(stands_still=True)


def connect(front: Front) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", front.port))
    sock.settimeout(HANG_S)
    return sock


def send_now(sock: socket.socket, data: bytes) -> None:
    """Without a step of anybody else's."""
    sock.setblocking(True)
    sock.sendall(data)


async def read_head(sock: socket.socket) -> bytes:
    received = b""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    while b"\r\n\r\n" not in received:
        data = await stream.receive_some(65536)
        assert data, f"closed without an answer: {received!r}"
        received += data
    return received


# How much of the request had come before the absence; the rest comes in it. None: nothing, on a connection that has had
# an answer already.
@pytest.mark.parametrize("before", [0, 20, None], ids=["nothing", "half a head", "kept alive"])
@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S], ids=["short", "long"])
async def test_whole_requests_of_many_connections(
    absent_clock: AbsentClock, before: int | None, seconds: float
) -> None:
    """120 connections open before it, the requests sent in it, the deadline over: 120 answers."""
    async with running(TIGHT) as front:
        request = GET % front.port
        socks = [connect(front) for _ in range(CONNECTIONS)]
        for sock in socks:
            sock.sendall(request if before is None else request[:before])
        if before is None:
            for sock in socks:
                await read_head(sock)
        await trio.testing.wait_all_tasks_blocked()
        for sock in socks:
            send_now(sock, request if before is None else request[before:])
        absent_clock.away(seconds)
        for sock in socks:
            assert (await read_head(sock)).startswith(b"HTTP/1.1 200 ")
            sock.close()


async def test_half_a_head_after_its_deadline_gets_408(absent_clock: AbsentClock) -> None:
    """Also where more of it came in the moment in which the deadline passed."""
    async with running(TIGHT) as front:
        request, sock = GET % front.port, connect(front)
        send_now(sock, request[:10])
        await trio.testing.wait_all_tasks_blocked()
        send_now(sock, request[10:20])
        absent_clock.away(SHORT_S)
        assert (await read_head(sock)).startswith(b"HTTP/1.1 408 ")
        sock.close()


async def test_a_client_that_was_silent_in_a_long_absence_keeps_its_time(absent_clock: AbsentClock) -> None:
    """It may have stood still with us, as in a laptop's sleep."""
    async with running(TIGHT) as front:
        request, sock = GET % front.port, connect(front)
        send_now(sock, request[:20])
        await trio.testing.wait_all_tasks_blocked()
        absent_clock.away(LONG_S)
        await trio.testing.wait_all_tasks_blocked()
        send_now(sock, request[20:])
        assert (await read_head(sock)).startswith(b"HTTP/1.1 200 ")
        sock.close()


@pytest.mark.parametrize("rest", [160_000, 300_000], ids=["some of it", "all of it"])
@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S], ids=["short", "long"])
async def test_half_a_body(absent_clock: AbsentClock, rest: int, seconds: float) -> None:
    """More of it came in the absence. What is missing then has the time that any body has without a byte."""
    limits = attrs.evolve(TIGHT, body_total_s=60)
    async with running(limits) as front:
        head = POST % (front.port, len(BODY))
        socks = [connect(front) for _ in range(10)]
        for sock in socks:
            sock.sendall(head + BODY[:100_000])
        await trio.testing.wait_all_tasks_blocked()
        for sock in socks:
            send_now(sock, BODY[100_000:rest])
        absent_clock.away(seconds)
        await trio.testing.wait_all_tasks_blocked()
        for sock in socks:
            send_now(sock, BODY[rest:])
            assert (await read_head(sock)).startswith(b"HTTP/1.1 200 ")
            sock.close()


@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S], ids=["short", "long"])
async def test_a_reader_of_a_long_answer(absent_clock: AbsentClock, seconds: float) -> None:
    """It took all that there was in the absence, in which nothing more could be written."""
    async with running(TIGHT) as front:
        sock = connect(front)
        send_now(sock, b"GET /big HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % front.port)
        await trio.testing.wait_all_tasks_blocked()
        received = 0
        sock.setblocking(False)
        while True:
            try:
                received += len(sock.recv(1 << 20))
            except BlockingIOError:
                break
        assert 0 < received < 20_000_000
        absent_clock.away(seconds)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        while data := await stream.receive_some(1 << 20):
            received += len(data)
        await stream.aclose()
    assert received > 20_000_000


@pytest.mark.parametrize("first", [b"", GET[:20]], ids=["nothing", "half a head"])
async def test_behind_a_refusal_no_input_counts(first: bytes) -> None:
    """By whatever race it comes there: one answer, and no fault of the protocol's state machine."""
    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    # None: no request is begun, so there is neither an application nor a task for it.
    protocol = Http11(
        cast("Any", None),
        FrontConfig(),
        WorkerContext(None),
        cast("Any", None),
        ConnectionState({}),
        False,
        None,
        None,
        send,
    )
    if first:
        await protocol.handle(RawData(data=first))
    await protocol.refuse(protocol_fault(408))
    await protocol.handle(RawData(data=(GET % 1)[len(first) :]))
    assert [event.data[:13] for event in sent if isinstance(event, RawData)] == [b"HTTP/1.1 408 "]
