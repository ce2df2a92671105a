"""Invariant: no bytes, and no way of closing, end the server or leave anything behind."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio

from tests.front.harness import QUICK, Client, Front, running
from tests.front.payloads import PAYLOADS

Close = Callable[[Client], Awaitable[bytes]]

AT_ONCE = 24
STATUS_LINE = re.compile(rb"HTTP/1\.1 (?=\d)")
ENDLESS = ("answer that is not read", "request behind a stream", "request hidden in a body")
"""Payloads that get an answer without an end, so that there is no close to wait for."""


async def close_with_fin(client: Client) -> bytes:
    await client.stream.aclose()
    return b""


async def close_with_reset(client: Client) -> bytes:
    client.reset()
    return b""


async def close_half(client: Client) -> bytes:
    with suppress(trio.BrokenResourceError):  # the server was quicker
        await client.stream.send_eof()
    return await client.read_all()


async def wait_for_close(client: Client) -> bytes:
    return await client.read_all()


async def read_then_reset(client: Client) -> bytes:
    with trio.move_on_after(0.02), suppress(trio.BrokenResourceError):  # some phase of the answer, whichever it is
        await client.stream.receive_some(100)
    client.reset()
    return b""


async def throw(front: Front, name: str, close: Close) -> bytes:
    """Send one payload and close; returns what the server answered."""
    host = b"127.0.0.1:%d" % front.port
    async with await front.connect() as client:
        with suppress(trio.BrokenResourceError):  # refused before all was sent
            for piece in PAYLOADS[name]:
                await client.send(piece.replace(b"HOST", host))
        if close in (wait_for_close, close_half) and name in ENDLESS:
            close = close_with_fin
        answer = await close(client)
    await front.assert_healthy()
    return answer


async def throw_all(front: Front, names: list[str], close: Close) -> dict[str, bytes]:
    """Several at a time, so that the waiting ones wait together."""
    answers: dict[str, bytes] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(name: str) -> None:
        async with limit:
            answers[name] = await throw(front, name, close)

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    return answers


STATUSES = {
    "64 KiB of 0xff": 431,
    "1 MiB without a newline": 431,
    "no end of headers": 408,
    "method with 0xff": 400,
    "unknown method": 405,
    "TRACE": 405,
    "CONNECT": 400,
    "version 2.0": 505,
    "version 9.9": 505,
    "asterisk": 400,
    "absolute URL": 400,
    "broken absolute URL": 400,
    "only a query": 400,
    "two slashes": 400,
    "dots upwards": 404,
    "encoded dots": 404,
    "encoded NUL": 404,
    "path of 60 KiB": 431,
    "no Host": 400,
    "two Hosts": 400,
    "Host with 0xff": 403,
    "empty Host": 403,
    "space before the colon": 400,
    "one header of 60 KiB": 431,
    "4000 headers": 431,
    "endless header": 431,
    "negative length": 400,
    "length with plus": 400,
    "length in hex": 400,
    "length of 23 digits": 400,
    "length of 1 TB": 413,
    "two lengths": 400,
    "list of lengths": 400,
    "length and chunked": 400,
    "chunked and length": 400,
    "body too short": 408,
    "encoding gzip": 501,
    "encoding identity": 501,
    "encoding xchunked": 501,
    "encoding chunked twice": 501,
    "encoding with a vertical tab": 400,
    "chunked in HTTP/1.0": 400,
    "chunk size no hex": 400,
    "chunk size negative": 400,
    "chunk size of 30 digits": 400,
    "chunk late and bad": 400,
    "chunked text": 415,
    "websocket": 400,
    "websocket and one byte": 400,
    "h2c without settings": 200,
    "h2c with bad settings": 200,
    "HTTP/2 preface": 505,
    "upgrade to TLS": 200,
    "JSON 50,000 deep": 400,
    "JSON with 5000 digits": 400,
    "JSON in UTF-16": 400,
    "route that fails": 500,
}
"""What a client that waits is told. Payloads that are not here get an answer that does not matter, or none."""


@pytest.mark.parametrize("close", [close_with_fin, close_with_reset, close_half, read_then_reset, wait_for_close])
async def test_every_payload_leaves_the_server_serving(close: Close, caplog: pytest.LogCaptureFixture) -> None:
    """After each payload the server answers, and at the end no task, descriptor or unexpected log entry is left."""
    assert len(PAYLOADS) >= 62
    caplog.set_level(logging.WARNING, "muse.front")
    async with running(QUICK) as front:
        answers = await throw_all(front, list(PAYLOADS), close)
        await front.wait_nothing_left()

    assert len(answers) == len(PAYLOADS)
    assert not [record for record in caplog.records if record.getMessage().startswith("connection failed")]
    for name, answer in answers.items():
        assert b"access-control-" not in answer.lower(), name
        assert not answer or answer.startswith(b"HTTP/1.1 "), name
        for part in STATUS_LINE.split(answer)[1:]:
            assert part.startswith(b"100 ") or b"content-security-policy: default-src 'none'" in part, name
            assert b"\r\nserver:" not in part.lower(), name


async def test_payload_gets_the_status_that_names_its_fault() -> None:
    """A fault has its own status, and then the connection is over."""
    async with running(QUICK) as front:
        answers = await throw_all(front, list(STATUSES), wait_for_close)
    assert {name: answer[:12] for name, answer in answers.items()} == {
        name: b"HTTP/1.1 %d" % status for name, status in STATUSES.items()
    }


async def test_hidden_request_is_never_run() -> None:
    """What stands behind a request with two lengths is not taken for a request."""
    async with running(QUICK) as front:
        for name in ("length and chunked", "chunked and length", "chunked in HTTP/1.0", "two lengths"):
            answer = await throw(front, name, wait_for_close)
            assert len(STATUS_LINE.findall(answer)) == 1, name
        assert front.phases["wait"].entered == 0
