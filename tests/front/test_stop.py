"""Invariant: after the stop signal everything ends in order, without waiting for any client."""

from __future__ import annotations

import attrs
import pytest
import trio

from actors.front.limits import FrontLimits
from tests.front.harness import PATIENT, running

STOP_S = 10
"""Guard, far below the 30 s that a client may stall in normal operation. Measured: 0.51 s."""

NORMAL = FrontLimits()


async def test_clients_that_never_read_do_not_delay_the_stop() -> None:
    """Ten stuck readers, and limits for them that are far away."""
    async with running(NORMAL) as front:
        clients = [await front.connect() for _ in range(10)]
        for client in clients:
            await client.send(client.head("GET", "/flood"))
            await client.read_until(b"data: ")
        front.stop.set()
        with trio.fail_after(STOP_S):
            await front.done.wait()
        assert front.phases["flood"].ended == 10
        for client in clients:
            client.stream.socket.close()


async def test_idle_connections_are_closed_at_once() -> None:
    """Fresh, kept alive, or half way through the headers: none of them waits for a limit."""
    async with running(attrs.evolve(PATIENT, stop_grace_s=60)) as front:
        fresh, kept, half = [await front.connect() for _ in range(3)]
        await kept.ask("GET", "/health")
        await half.send(b"GET /health HTTP/1.1\r\n")
        front.stop.set()
        with trio.fail_after(STOP_S):
            await front.done.wait()
        for client in (fresh, kept, half):
            assert await client.read_all() == b""
            client.stream.socket.close()


async def test_streams_end_themselves_with_a_last_event() -> None:
    """A stream that watches for the stop gets its last event and its end to the client."""
    async with running(attrs.evolve(PATIENT, stop_grace_s=60)) as front, await front.connect() as client:
        await client.send(client.head("GET", "/polite"))
        await client.read_until(b'{"n":0}')
        front.stopping.set()
        front.stop.set()
        rest = await client.read_all()
        assert b"event: stopping\n" in rest
        assert rest.endswith(b"0\r\n\r\n")
        with trio.fail_after(STOP_S):
            await front.done.wait()
        assert front.phases["polite"].ended == 1


@pytest.mark.parametrize("path, phase", [("/wait", "wait"), ("/quiet", "quiet")])
async def test_running_requests_are_cancelled_after_the_grace(path: str, phase: str) -> None:
    """A request that does not care is ended."""
    async with running(NORMAL) as front, await front.connect() as client:
        await client.send(client.head("GET", path))
        await front.phases[phase].wait_until("entered", 1)
        front.stop.set()
        with trio.fail_after(STOP_S):
            await front.done.wait()
        assert front.phases[phase].cancelled == 1


async def test_upload_is_cut_after_the_grace() -> None:
    """A body that is still coming does not hold the server."""
    async with running(NORMAL) as front, await front.connect() as client:
        head = client.head("POST", "/slow", "Content-Type: application/json", "Content-Length: 1000000")
        await client.send(head + b"1" * 1000)
        front.stop.set()
        with trio.fail_after(STOP_S):
            await front.done.wait()
        assert front.phases["slow"].entered == 0


async def test_no_connection_is_accepted_after_the_stop() -> None:
    """The listening socket is closed."""
    async with running(NORMAL) as front:
        front.stop.set()
        await front.done.wait()
        with pytest.raises(OSError, match=r"refused|failed"):
            await front.connect()


async def test_cancelling_ends_everything_as_well() -> None:
    """The hard way out leaves no socket open either."""
    async with running(NORMAL) as front:
        clients = [await front.connect() for _ in range(3)]
        await clients[0].send(clients[0].head("GET", "/flood"))
        await clients[1].send(clients[1].head("GET", "/wait"))
        await front.phases["wait"].wait_until("entered", 1)
        await front.phases["flood"].wait_until("entered", 1)
        front.cancel()
        with trio.fail_after(STOP_S):
            await front.done.wait()
        for client in clients:
            await client.read_all()
            client.stream.socket.close()
