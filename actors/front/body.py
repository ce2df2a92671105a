"""Request bodies: received whole, within limits, before a route runs; and read as strict JSON by routes.

Reading first means that a route never waits for a client's upload, that 413, 408 and 503 are decided in one place,
and that a disconnect during an upload never reaches a route.

A body waits in the request's scope and is taken out by whoever decodes it, so that its bytes are gone while its
request is worked on. (Quart's own way copies it three times, on the event loop.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import trio
from hypercorn.typing import ASGIReceiveEvent

from actors.front.answers import protocol_fault
from actors.front.body_budget import BodyBudget, BodyShare
from actors.front.limits import FrontLimits
from actors.front.security import RequestHead
from actors.threads import run_in_thread
from muse.attention import LATE_S
from muse.strict_json import JsonValue, decode_json

Receive: TypeAlias = Callable[[], Awaitable[ASGIReceiveEvent]]

Parsed = TypeVar("Parsed")

BODY: Final = "request body"
"""Key in the ASGI scope's state, which is made anew for each request."""
THREAD_BYTES: Final = 64 * 1024
"""Bodies beyond this are decoded in a thread. Measured: 4 ms for 64 KiB of small values, 0.1 ms for 64 KiB of text;
going to a thread costs about 0.1 ms."""
GRACE_S: Final = LATE_S + 0.1
"""More time for what has arrived when that of a body is over: more than an absence of this process that counts."""
DECODERS: Final = trio.CapacityLimiter(1)
"""One large body after the other: each further thread that wants the interpreter lock makes the event loop wait for
one more switch interval (5 ms) each time that it wants it back, and one body's values at a time bound the memory."""


class ClientLeft(Exception):
    """The client went away while its body was being received; there is nobody to answer."""


async def receive_body(
    receive: Receive, head: RequestHead, limits: FrontLimits, budget: BodyBudget, share: BodyShare
) -> bytearray:
    """The whole body.

    Raises:
        ClientFault: 413 beyond `body_bytes`, 408 when it stalls or takes too long.
        Unavailable: 503 when all bodies together would be too large. Of these faults the rest of the body is unread,
            so the connection has to be closed after the answer.
        ClientLeft: the client disconnected.
    """
    body = bytearray()
    due = trio.current_time() + limits.body_total_s
    while True:
        message = await _next_message(receive, min(trio.current_time() + limits.body_stall_s, due))
        if message["type"] != "http.request":
            raise ClientLeft
        if len(body) + len(message["body"]) > limits.body_bytes:
            raise protocol_fault(413)
        budget.grow(share, len(message["body"]))
        body += message["body"]
        if not message["more_body"]:
            return body


def check_declared(head: RequestHead, limits: FrontLimits) -> None:
    """Raise ClientFault 413 for a body that is declared larger than `body_bytes`."""
    if head.declared_bytes > limits.body_bytes:
        raise protocol_fault(413)


async def _next_message(receive: Receive, due: float) -> ASGIReceiveEvent:
    # First what has arrived until then, which the connection's tasks read when the time is over, too.
    for deadline in (due, due + GRACE_S):
        with trio.CancelScope(deadline=deadline):
            return await receive()
    raise protocol_fault(408)


class BodyHolder(Protocol):
    """What `read_json` needs of Quart's request."""

    @property
    def scope(self) -> Any: ...


async def read_json(request: BodyHolder) -> JsonValue:
    """The request's body as JSON. Raises ClientFault `invalid_json`; see `muse.strict_json`."""
    return await read_parsed(request, lambda value: value)


async def read_parsed(request: BodyHolder, parse: Callable[[JsonValue], Parsed]) -> Parsed:
    """The request's body as JSON, made into something else. Raises as parse_data."""
    return await parse_data(read_data(request), parse)


def read_data(request: BodyHolder) -> bytearray:
    """The request's body as it came; once only, and empty after that."""
    state: dict[str, Any] = request.scope["state"]
    return state.pop(BODY, bytearray())


async def parse_data(data: bytes | bytearray, parse: Callable[[JsonValue], Parsed]) -> Parsed:
    """JSON, made into something else; that may be as much work as decoding, so it is done in the same thread. Raises
    ClientFault `invalid_json`, and what `parse` raises."""
    if len(data) <= THREAD_BYTES:
        return parse(decode_json(data))
    return await run_in_thread(lambda: parse(decode_json(data)), limiter=DECODERS)
