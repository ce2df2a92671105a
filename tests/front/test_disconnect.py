"""Invariant: when the client goes, the request's task is cancelled, whatever the request was doing.

All limits are far away here, so nothing but the disconnect itself can end a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.front.harness import Client, Front, running


async def fin(client: Client) -> None:
    await client.stream.aclose()


async def reset(client: Client) -> None:
    client.reset()


async def request_before_headers(front: Front, client: Client) -> None:
    await client.send(client.head("GET", "/wait"))
    await front.phases["wait"].wait_until("entered", 1)


async def request_between_events(front: Front, client: Client) -> None:
    await client.send(client.head("GET", "/quiet"))
    await client.read_until(b'{"n":0}')


async def request_while_writing(front: Front, client: Client) -> None:
    await client.send(client.head("GET", "/flood"))
    await client.read_until(b"data: ")


REQUESTS = [(request_before_headers, "wait", "cancelled"), (request_between_events, "quiet", "ended")]
REQUESTS += [(request_while_writing, "flood", "ended")]


@pytest.mark.parametrize("behind", [b"", b"\r\n", b"GET /health HTTP/1.1\r\n", b"\0" * 60_000])
@pytest.mark.parametrize("close", [fin, reset])
@pytest.mark.parametrize("begin, phase, field", REQUESTS)
async def test_request_ends_with_its_client(
    begin: Callable[[Front, Client], Awaitable[None]],
    phase: str,
    field: str,
    close: Callable[[Client], Awaitable[None]],
    behind: bytes,
) -> None:
    """In every phase, however the client closes, and also with bytes of a next request in between."""
    async with running() as front:
        client = await front.connect()
        await begin(front, client)
        await client.send(behind)
        await close(client)
        await front.phases[phase].wait_until(field, 1)
        client.stream.socket.close()
        await front.wait_nothing_left()


@pytest.mark.parametrize("begin, phase, field", REQUESTS[1:])
async def test_end_of_input_in_the_middle_of_an_answer_ends_it(
    begin: Callable[[Front, Client], Awaitable[None]], phase: str, field: str
) -> None:
    """Nothing can be asked of the client then, and nearly always it has left."""
    async with running() as front, await front.connect() as client:
        await begin(front, client)
        await client.stream.send_eof()
        await front.phases[phase].wait_until(field, 1)


async def test_upload_ends_with_its_client() -> None:
    """A client that leaves in the middle of a body never reaches the route."""
    async with running() as front:
        async with await front.connect() as client:
            head = client.head("POST", "/slow", "Content-Type: application/json", "Content-Length: 1000")
            await client.send(head + b"[1,")
        await front.wait_nothing_left()
        assert front.phases["slow"].entered == 0


async def test_end_of_a_request_is_told_even_if_its_stream_never_began() -> None:
    """`at_request_end` is called when the client leaves before the route has answered."""
    async with running() as front:
        async with await front.connect() as client:
            await client.send(client.head("GET", "/unstarted"))
            await front.phases["unstarted"].wait_until("entered", 1)
        await front.phases["unstarted"].wait_until("ended", 1)


async def test_client_that_leaves_an_idle_connection_frees_it_at_once() -> None:
    """No timer has to pass before the descriptor is free."""
    async with running() as front:
        for _ in range(50):
            async with await front.connect() as client:
                await client.ask("GET", "/health")
        await front.wait_nothing_left()


async def test_200_clients_that_reset_at_once_leave_nothing() -> None:
    """Many disconnects in one moment."""
    async with running() as front:
        clients = [await front.connect() for _ in range(200)]
        for client in clients:
            await client.send(client.head("GET", "/wait"))
        await front.phases["wait"].wait_until("entered", 200)
        for client in clients:
            client.reset()
        await front.phases["wait"].wait_until("cancelled", 200)
        await front.wait_nothing_left()
