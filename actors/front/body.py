"""Request bodies: received whole, within limits, before a route runs; and read as strict JSON by routes.

Reading first means that a route never waits for a client's upload, that 413 and 408 are decided in one place,
and that a disconnect during an upload never reaches a route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar

import trio
from hypercorn.typing import ASGIReceiveEvent

from actors.front.answers import protocol_fault
from actors.front.limits import FrontLimits
from actors.front.security import RequestHead
from actors.threads import run_in_thread
from muse.strict_json import JsonValue, decode_json

Receive: TypeAlias = Callable[[], Awaitable[ASGIReceiveEvent]]

Parsed = TypeVar("Parsed")

THREAD_BYTES: Final = 64 * 1024
"""Bodies beyond this are decoded in a thread. Measured: 4 ms for 64 KiB of small values, 0.1 ms for 64 KiB of text;
going to a thread costs about 0.1 ms. The scanner keeps the GIL inside one string: 10 MB of text stop the other
threads for 7 ms."""


class ClientLeft(Exception):
    """The client went away while its body was being received; there is nobody to answer."""


async def receive_body(receive: Receive, head: RequestHead, limits: FrontLimits) -> bytes:
    """The whole body.

    Raises:
        ClientFault: 413 beyond `body_bytes` (declared, or counted), 408 when it stalls or takes too long. The
            rest of the body is unread then, so the connection has to be closed after the answer.
        ClientLeft: the client disconnected.
    """
    if head.declared_bytes > limits.body_bytes:
        raise protocol_fault(413)
    chunks: list[bytes] = []
    size = 0
    with trio.move_on_after(limits.body_total_s):
        while True:
            message = await _next_message(receive, limits.body_stall_s)
            if message["type"] != "http.request":
                raise ClientLeft
            size += len(message["body"])
            if size > limits.body_bytes:
                raise protocol_fault(413)
            chunks.append(message["body"])
            if not message["more_body"]:
                return b"".join(chunks)
    raise protocol_fault(408)


async def _next_message(receive: Receive, stall_s: float) -> ASGIReceiveEvent:
    with trio.move_on_after(stall_s):
        return await receive()
    raise protocol_fault(408)


class BodyHolder(Protocol):
    """What `read_json` needs of Quart's request."""

    async def get_data(
        self, cache: bool = True, as_text: bool = False, parse_form_data: bool = False
    ) -> str | bytes: ...


async def read_json(request: BodyHolder) -> JsonValue:
    """The request's body as JSON. Raises ClientFault `invalid_json`; see `muse.strict_json`."""
    return await read_parsed(request, lambda value: value)


async def read_parsed(request: BodyHolder, parse: Callable[[JsonValue], Parsed]) -> Parsed:
    """The request's body as JSON, made into something else. Raises as parse_data."""
    return await parse_data(await read_data(request), parse)


async def read_data(request: BodyHolder) -> bytes:
    """The request's body as it is; once only."""
    data = await request.get_data(cache=False)
    return data.encode() if isinstance(data, str) else data


async def parse_data(data: bytes, parse: Callable[[JsonValue], Parsed]) -> Parsed:
    """JSON, made into something else; that may be as much work as decoding, so it is done in the same thread. Raises
    ClientFault `invalid_json`, and what `parse` raises."""
    if len(data) <= THREAD_BYTES:
        return parse(decode_json(data))
    return await run_in_thread(lambda: parse(decode_json(data)))
