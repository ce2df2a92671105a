"""Invariant: what a stream yields is what the client reads, as it is yielded, in the format of the HTML standard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from actors.front.sse import SSE_DONE, sse_comment, sse_data, sse_event, sse_response
from tests.front.harness import running


def test_data_is_one_line_of_json() -> None:
    """Newlines of every kind are escaped or harmless, text stays readable."""
    value = {"text": "a\nb\r\nc\u2028d\x85e 😀", "n": 1}
    event = sse_data(value)
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    assert b"\r" not in event
    assert "😀".encode() in event
    assert json.loads(event[6:]) == value


def test_half_a_surrogate_pair_does_not_break_a_stream() -> None:
    """It becomes a mark."""
    assert sse_data("a\ud800b") == b'data: "a?b"\n\n'


def test_nan_is_not_sent() -> None:
    """No client can read it."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        sse_data(float("nan"))


def test_event_has_name_and_id() -> None:
    """In the order that readers of the raw stream expect."""
    assert sse_event("state", {"a": 1}) == b'event: state\ndata: {"a":1}\n\n'
    assert sse_event("state", None, event_id=7) == b"event: state\nid: 7\ndata: null\n\n"
    assert sse_comment("ping") == b": ping\n"
    assert SSE_DONE == b"data: [DONE]\n\n"


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_fields_are_one_line(text: str) -> None:
    """A newline would begin a field of its own."""
    for make in (sse_comment, lambda text: sse_event(text, 1), lambda text: sse_event("x", 1, event_id=text)):
        with pytest.raises(ValueError, match="one line"):
            make(text)


def test_stream_has_no_time_limit_as_a_whole() -> None:
    """Quart would cut it after a minute."""
    assert sse_response(_unused()).timeout is None


async def _unused() -> AsyncIterator[bytes]:
    yield b""


async def test_stream_arrives_event_by_event() -> None:
    """Headers and first event are there while the stream is still silent."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/quiet"))
        answer = await client.read_until(b'data: {"n":0}\n\n')
        head = answer.lower()
        assert b"content-type: text/event-stream\r\n" in head
        assert b"cache-control: no-store, no-transform\r\n" in head
        assert b"transfer-encoding: chunked\r\n" in head
        assert b"content-length" not in head


async def test_headers_leave_before_the_first_event() -> None:
    """A client knows that its stream was accepted before anything happens in it."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("GET", "/silent"))
        assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_head_of_a_stream_ends_at_once() -> None:
    """HEAD gets the headers; no stream is left running, and the connection is free for the next request."""
    async with running() as front, await front.connect() as client:
        await client.send(client.head("HEAD", "/quiet") + client.head("GET", "/health", "Connection: close"))
        answer = await client.read_all()
        head, rest = answer.split(b"\r\n\r\n", 1)
        assert b"content-type: text/event-stream" in head
        assert rest.startswith(b"HTTP/1.1 200 ")
        assert front.phases["quiet"].entered == 0
