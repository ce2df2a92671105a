"""The client that measures: it goes on where a server ends a connection."""

from __future__ import annotations

from functools import partial

import trio

from muse.bench.client import Connection


async def test_a_connection_that_the_server_ends_is_opened_again(nursery: trio.Nursery) -> None:
    opened = 0

    async def answer(stream: trio.SocketStream) -> None:
        nonlocal opened
        opened += 1
        async with stream:
            for is_last in (False, True):
                await stream.receive_some(4096)
                words = b"connection: close\r\n" if is_last else b""
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + words + b"\r\nok")

    listeners = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    async with Connection(port=listeners[0].socket.getsockname()[1]) as connection:
        answers = [await connection.request("GET", "/") for _ in range(5)]
    assert answers == [(200, b"ok")] * 5
    assert opened == 3
