"""Invariant: at the edges of HTTP/1.1 a request is answered as the RFCs say, or refused with a status that fits."""

from __future__ import annotations

import pytest

from tests.front.harness import Client, running

JSON = "Content-Type: application/json"
ECHO = b'{"value":[1]}\n'


def post(client: Client, *extra: str, body: bytes = b"[1]", version: str = "1.1") -> bytes:
    return client.head("POST", "/echo", JSON, f"Content-Length: {len(body)}", *extra, version=version) + body


@pytest.mark.parametrize("behind", [b"\r\n", b"\r\n\r\n", b"garbage", b"GET / HTTP/1.1\r\n", b"\0" * 50_000])
@pytest.mark.parametrize("version, extra", [("1.1", ("Connection: close",)), ("1.0", ())])
async def test_bytes_behind_the_last_request_are_ignored(version: str, extra: tuple[str, ...], behind: bytes) -> None:
    """Its answer is not cut, and nothing follows it."""
    async with running() as front, await front.connect() as client:
        await client.send(post(client, *extra, version=version) + behind)
        answer = await client.read_all()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(ECHO)


@pytest.mark.parametrize("blank", [b"\r\n", b"\n", b"\r\n" * 8])
async def test_empty_lines_before_a_request_line_are_skipped(blank: bytes) -> None:
    """Before the first request, between pipelined ones, and when they come byte by byte (RFC 9112 section 2.2)."""
    async with running() as front, await front.connect() as client:
        await client.send(blank + post(client) + blank + post(client))
        await client.read_until(ECHO)
        for byte in blank + post(client, "Connection: close"):
            await client.send(bytes([byte]))
        answer = await client.read_all()
    assert answer.endswith(ECHO)
    assert b"HTTP/1.1 400 " not in answer


async def test_empty_lines_are_bounded() -> None:
    """A client that sends nothing else is refused."""
    async with running() as front, await front.connect() as client:
        await client.send(b"\r\n" * 1000)
        assert (await client.read_all()).startswith(b"HTTP/1.1 400 ")


async def test_an_empty_line_behind_an_answer_begins_no_request() -> None:
    """The connection stays idle: no 408 comes that a next request could take for its answer."""
    async with running() as front, await front.connect() as client:
        await client.send(post(client))
        await client.read_until(ECHO)
        await client.send(b"\r\n")
        front.stop.set()  # idle connections are closed at once, those within a head are not answered either
        assert await client.read_all() == b""


async def test_garbage_behind_a_body_is_refused_after_the_answer() -> None:
    """On a connection that is to go on it can only be a broken request."""
    async with running() as front, await front.connect() as client:
        await client.send(post(client) + b"garbage\r\n\r\n")
        answer = await client.read_all()
    assert ECHO + b"HTTP/1.1 400 " in answer


EXPECT = "Expect: 100-continue"


@pytest.mark.parametrize(
    "status, head",
    [
        (403, ("Content-Length: 3", JSON, "Origin: http://evil.test")),
        (415, ("Content-Length: 3", "Content-Type: text/plain")),
        (415, ("Content-Length: 3", JSON, "Content-Encoding: gzip")),
        (413, ("Content-Length: 999999999", JSON)),
        (415, ("Transfer-Encoding: chunked", "Content-Type: text/plain")),
        (400, ("Transfer-Encoding: chunked", "Content-Length: 3", JSON)),
        (501, ("Transfer-Encoding: gzip", JSON)),
    ],
)
async def test_a_request_refused_by_its_head_is_not_asked_for_its_body(status: int, head: tuple[str, ...]) -> None:
    """The first status is the final one."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("POST", "/echo", EXPECT, *head))
        answer = await client.read_all()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"HTTP/1.1 100 " not in answer


async def test_an_unknown_path_is_told_without_its_body_too() -> None:
    """What can be known from the head is answered; here the body is invited first, and the answer is the route's."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/missing", EXPECT, "Connection: close"))
        assert (await client.read_all()).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("framing", ["Content-Length: 3", "Transfer-Encoding: chunked"])
async def test_an_expected_invitation_comes_once(framing: str) -> None:
    """For a body of a known length and for a chunked one."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("POST", "/echo", EXPECT, JSON, framing, "Connection: close"))
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await client.send(b"[1]" if "Length" in framing else b"3;ext=1\r\n[1]\r\n0\r\nTrailer: x\r\n\r\n")
        answer = await client.read_all()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(ECHO)


@pytest.mark.parametrize(
    "version, extra, status",
    [
        ("1.1", (EXPECT, "Content-Length: 0"), 200),  # nothing to ask for
        ("1.0", (EXPECT, "Content-Length: 0"), 200),  # HTTP/1.0 has no expectations
        ("1.1", ("Expect: the-unexpected",), 417),
        ("1.1", ("Expect: 100-continue, other",), 417),
        ("1.0", ("Expect: the-unexpected",), 200),
    ],
)
async def test_expectations(version: str, extra: tuple[str, ...], status: int) -> None:
    """The final status comes first in all of these."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/health", *extra, "Connection: close", version=version))
        assert (await client.read_all()).startswith(b"HTTP/1.1 %d " % status)


async def test_a_body_that_came_unasked_is_not_invited() -> None:
    """A client that does not wait for the invitation gets the answer alone."""
    async with running() as front, await front.connect() as client:
        await client.send(post(client, EXPECT, "Connection: close"))
        assert (await client.read_all()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "line, status",
    [
        ("GET http://127.0.0.1/health HTTP/1.1", 400),
        ("OPTIONS * HTTP/1.1", 400),
        ("OPTIONS /health HTTP/1.1", 405),
        ("GET /health HTTP/2.0", 505),
        ("GET /health", 400),
        (" GET /health HTTP/1.1", 400),
    ],
)
async def test_odd_request_lines_get_a_status(line: str, status: int) -> None:
    """Refused by name, and the connection is closed or usable, never hanging."""
    async with running() as front, await front.connect() as client:
        _, _, rest = client.head("GET", "/health", "Connection: close").partition(b"\r\n")
        await client.send(line.encode() + b"\r\n" + rest)
        assert (await client.read_all()).startswith(b"HTTP/1.1 %d " % status)


async def test_one_byte_segments_are_a_request_like_any() -> None:
    """Head, chunk sizes, extensions, data and trailers, each byte in a write of its own."""
    async with running() as front, await front.connect() as client:
        head = client.head("POST", "/echo", JSON, "Transfer-Encoding: chunked", "Connection: close")
        for byte in head + b'1;a="b"\r\n[\r\n02\r\n1]\r\n000\r\nX: y\r\n\r\n':
            await client.send(bytes([byte]))
        assert (await client.read_all()).endswith(ECHO)
