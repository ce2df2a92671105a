"""Invariant: each limit of `FrontLimits` acts, tells why, and closes the connection."""

from __future__ import annotations

import os
import resource

import attrs
import pytest
import trio
import trio.testing
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from tests.front.harness import HANG_S, PATIENT, Client, Front, running

JSON = ("content-type", "application/json")


async def dribble(client: Client, data: bytes) -> None:
    """One byte at a time, until the server has had enough."""
    for index in range(len(data)):
        try:
            await client.send(data[index : index + 1])
        except trio.BrokenResourceError:
            return
        await trio.sleep(0.01)


async def test_slow_headers_get_408() -> None:
    """The time for the headers runs from their first byte, no matter how many follow."""
    async with running(attrs.evolve(PATIENT, header_s=0.2)) as front, await front.connect() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dribble, client, b"GET /health HTTP/1.1\r\nX: " + b"a" * 1000)
            answer = await client.read_all()
            nursery.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_silent_connection_is_closed() -> None:
    """A connection that says nothing is closed without an answer."""
    async with running(attrs.evolve(PATIENT, header_s=0.05)) as front, await front.connect() as client:
        assert await client.read_all() == b""


async def test_idle_connection_is_closed_after_a_request() -> None:
    """The idle time runs again after each answer."""
    async with running(attrs.evolve(PATIENT, keep_alive_s=0.1)) as front, await front.connect() as client:
        await client.ask("GET", "/health")
        assert await client.read_all() == b""


async def test_second_request_has_its_own_time_for_headers() -> None:
    """A request that has begun is not cut by the idle time."""
    async with running(attrs.evolve(PATIENT, header_s=2)) as front, await front.connect() as client:
        await client.ask("GET", "/health")
        await client.send(b"GET /health HTT")
        assert (await client.read_all()).startswith(b"HTTP/1.1 408 ")


async def test_half_a_request_behind_another_has_the_time_for_headers() -> None:
    """Its first bytes were there before the idle time could begin."""
    async with running(attrs.evolve(PATIENT, header_s=2)) as front, await front.connect() as client:
        await client.send(client.head("GET", "/health") + b"GET /health HTT")
        assert b"HTTP/1.1 408 " in await client.read_all()


async def test_body_that_nobody_takes_is_not_read() -> None:
    """An application that is slow to read slows its client down instead of filling the memory."""
    taken = 0
    go = trio.Event()

    async def slow_app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        nonlocal taken
        if scope["type"] != "http":
            raise NotImplementedError
        await go.wait()
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            taken += len(message["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with running(app=slow_app) as front, await front.connect() as client:
        sent = 0

        async def upload() -> None:
            nonlocal sent
            await client.send(client.head("POST", "/", "Content-Length: 50000000"))
            for _ in range(500):
                await client.send(b"x" * 100_000)
                sent += 100_000

        async with trio.open_nursery() as nursery:
            nursery.start_soon(upload)
            await trio.testing.wait_all_tasks_blocked(cushion=0.2)
            assert sent < 20_000_000  # what fits into the socket buffers of both sides
            go.set()
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 ")
    assert taken == 50_000_000


async def test_running_request_has_no_time_limit() -> None:
    """The limits for headers and idleness do not touch a request that is being answered."""
    async with running(attrs.evolve(PATIENT, header_s=2, keep_alive_s=0.05)) as front:
        async with await front.connect() as client, await front.connect() as silent:
            await client.send(client.head("GET", "/polite"))
            await client.read_until(b'{"n":0}')
            await silent.read_all()  # its limit has passed, so the other's would have
            front.stopping.set()
            await client.read_until(b"event: stopping")


async def test_stalled_body_gets_408() -> None:
    """The route is not entered, and the connection is over."""
    async with running(attrs.evolve(PATIENT, body_stall_s=0.05)) as front, await front.connect() as client:
        head = client.head("POST", "/slow", "Content-Type: application/json", "Content-Length: 9")
        await client.send(head + b"[1,")
        assert (await client.read_all()).startswith(b"HTTP/1.1 408 ")
        assert front.phases["slow"].entered == 0
        await front.wait_no_connection_tasks()


async def test_dribbled_body_gets_408() -> None:
    """Bytes that come steadily but never end are no way to hold a connection."""
    async with running(attrs.evolve(PATIENT, body_total_s=0.2)) as front, await front.connect() as client:
        async with trio.open_nursery() as nursery:
            head = client.head("POST", "/slow", "Content-Type: application/json", "Content-Length: 1000")
            await client.send(head)
            nursery.start_soon(dribble, client, b"1" * 1000)
            assert (await client.read_all()).startswith(b"HTTP/1.1 408 ")
            nursery.cancel_scope.cancel()


async def test_declared_body_over_the_limit_gets_413() -> None:
    """Refused by its length alone, before a byte of it was sent."""
    async with running(attrs.evolve(PATIENT, body_bytes=1000)) as front, await front.connect() as client:
        await client.send(client.head("POST", "/size", "Content-Type: application/json", "Content-Length: 1001"))
        assert (await client.read_all()).startswith(b"HTTP/1.1 413 ")


async def test_body_at_the_limit_is_taken() -> None:
    """The limit itself is allowed."""
    async with running(attrs.evolve(PATIENT, body_bytes=1000)) as front, await front.connect() as client:
        answer = await client.ask("POST", "/size", JSON, body=b"1" * 1000)
        assert (answer.status, answer.body.strip()) == (200, b'{"size":1000}')


async def test_chunked_body_over_the_limit_is_not_read_to_its_end() -> None:
    """413, and a client that goes on sending is cut off long before 100 MB."""
    limits = attrs.evolve(PATIENT, body_bytes=100_000, linger_bytes=1_000_000)
    sent = 0
    async with running(limits) as front, await front.connect() as client:
        await client.send(client.head("POST", "/size", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        with trio.fail_after(HANG_S):
            try:
                while sent < 100_000_000:
                    await client.send(b"10000\r\n" + b"1" * 65536 + b"\r\n")
                    sent += 65536
            except trio.BrokenResourceError:
                pass
        await front.wait_no_connection_tasks()
    # The limit, the discarded rest, and what fits into the socket buffers of both sides.
    assert sent < 20_000_000


async def test_headers_over_the_limit_get_431_in_one_piece_and_in_many() -> None:
    """The limit does not depend on how the bytes were cut."""
    async with running(attrs.evolve(PATIENT, header_bytes=2000)) as front:
        for pieces in (1, 40):
            async with await front.connect() as client:
                head = client.head("GET", "/health", "X: " + "a" * 2000)
                step = len(head) // pieces
                for start in range(0, len(head), step):
                    await client.send(head[start : start + step])
                assert (await client.read_all()).startswith(b"HTTP/1.1 431 ")


async def test_connections_over_the_limit_get_503_until_one_is_free() -> None:
    """The refusal is quick and readable, and a freed place is used again."""
    limits = attrs.evolve(PATIENT, connections=3, refusals=2)
    async with running(limits) as front:
        clients = [await front.connect() for _ in range(3)]
        for client in clients:
            await client.ask("GET", "/health")

        async with await front.connect() as refused:
            await refused.send(refused.head("GET", "/health"))
            answer = await refused.read_all()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in answer
        assert b"content-security-policy:" in answer

        clients.pop().stream.socket.close()
        await wait_for_place(front)
        for client in clients:
            client.stream.socket.close()
        await front.wait_nothing_left()


async def wait_for_place(front: Front) -> None:
    with trio.fail_after(HANG_S):
        while True:
            async with await front.connect() as client:
                await client.send(client.head("GET", "/health"))
                if (await client.read_until(b"}")).startswith(b"HTTP/1.1 200 "):
                    return


def open_until_none_is_left() -> list[int]:
    held: list[int] = []
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return held


async def test_server_without_free_descriptors_recovers(caplog: pytest.LogCaptureFixture) -> None:
    """Accepting fails and is tried again; the connection that waited is served."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    async with running() as front:
        sock = trio.socket.socket()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (sock.fileno() + 1, hard))
            held = open_until_none_is_left()
            await sock.connect(("127.0.0.1", front.port))
            with trio.fail_after(HANG_S):
                while "accept failed errno=EMFILE" not in caplog.text:
                    await trio.sleep(0.001)
        finally:
            for fd in held:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        async with Client(front, trio.SocketStream(sock)) as client:
            assert (await client.ask("GET", "/health")).status == 200


async def test_client_that_never_reads_is_cut_off() -> None:
    """Events and one large body alike; the route's task ends and nothing is left."""
    async with running(attrs.evolve(PATIENT, send_stall_s=0.1)) as front:
        for path in ("/flood", "/big"):
            async with await front.connect() as client:
                await client.send(client.head("GET", path))
                await front.wait_no_connection_tasks()
                with trio.fail_after(HANG_S):
                    assert b"0\r\n\r\n" not in (await client.read_all())[-5:]
        assert front.phases["flood"].ended == 1
        await front.wait_nothing_left()


async def test_client_that_reads_slowly_is_served() -> None:
    """Progress counts, not the time for the whole: 20 MB take longer than the limit and arrive complete."""
    async with running(attrs.evolve(PATIENT, send_stall_s=2)) as front, await front.connect() as client:
        await client.send(client.head("GET", "/big", "Connection: close"))
        received = 0
        with trio.fail_after(HANG_S):
            while data := await client.stream.receive_some(100_000):
                received += len(data)
                await trio.sleep(0.015)
        assert received > 20_000_000
