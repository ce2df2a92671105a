"""hypercorn's HTTP/1.1 protocol without any way out of HTTP/1.1, and with answers of ours to bad requests.

Every fatal payload known for stock hypercorn needed an upgrade (WebSocket, h2c) or the HTTP/2 preface, so
neither exists here: h2c is ignored, as RFC 9110 section 7.8 allows, the rest is refused. Private names of
`H11Protocol` are overridden: `_handle_events`, `_maybe_recycle`, `_check_protocol`, `_send_error_response`;
`tests/front/test_versions.py` fails when the installed version is another one than they were read in.

Differences to stock, besides the refusals:

* `100 Continue` is sent when the application begins to read the body, so a request that is refused by its head gets
  only its final status.
* Empty lines before a request line are skipped (RFC 9112 section 2.2), up to BLANK_BYTES.
* Behind a request that ends its connection (`Connection: close`, HTTP/1.0) input is ignored, and so it is behind
  `refuse`: h11 has no state in which a request may follow an answer that was given without one.
"""

from __future__ import annotations

from typing import Final, cast

import h11
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol

from actors.front.answers import Header, fault_answer, protocol_fault
from actors.front.security import SECURITY_HEADERS
from muse.errors import ClientFault, MuseError

BLANK_BYTES: Final = 64
"""CR and LF skipped before one request line. Clients are known to send one empty line behind a body; more than
these is no mistake of theirs, and 400."""


class FrontConfig(Config):
    """hypercorn's settings, and the headers that each answer carries, whoever wrote the answer."""

    include_server_header = False
    accesslog = None
    errorlog = None

    def response_headers(self, protocol: str) -> list[Header]:
        return [*super().response_headers(protocol), *SECURITY_HEADERS]


class Http11(H11Protocol):
    """One connection's protocol state. Raises MuseError from `handle` for a request it will not serve."""

    _is_head = False
    _is_refused = False
    _blank_bytes = 0
    at_start = True
    """Nothing of the next request was seen yet."""
    holds_head = False
    """What is being sent is the head of a short answer; its body follows at once and can leave in the same write."""

    async def handle(self, event: Event) -> None:
        if self._is_refused or self._parser.their_state in {h11.MUST_CLOSE, h11.CLOSED}:
            return
        if isinstance(event, RawData):
            self._take(event.data)
            await self._handle_events()

    @property
    def _parser(self) -> h11.Connection:
        return cast("h11.Connection", self.connection)  # the other kind is for WebSocket

    @property
    def answer_has_begun(self) -> bool:
        """The head of the present request's final answer was sent."""
        return self._parser.our_state not in {h11.IDLE, h11.SEND_RESPONSE}

    async def stream_send(self, event: StreamEvent) -> None:
        self.holds_head = isinstance(event, Response) and any(name == b"content-length" for name, _ in event.headers)
        await super().stream_send(event)

    async def invite_body(self) -> None:
        """The body is wanted now: send `100 Continue` to a client that waits for it."""
        if self._parser.they_are_waiting_for_100_continue:
            await self._continue()

    async def probe(self) -> None:
        """Send `100 Continue`, if the answer has not begun, to learn whether anybody is there: a client that has
        closed answers with RST. A client that did not ask for it discards it (RFC 9110 section 15.2.1). Every other
        interim status is taken for the final one by some clients, such as Python's http.client. HTTP/1.0 has none."""
        if self._parser.our_state is h11.SEND_RESPONSE and self._parser.their_http_version == b"1.1":
            await self._continue()

    async def _continue(self) -> None:
        answer = h11.InformationalResponse(status_code=100, headers=self.config.response_headers("h11"))
        await self.send(RawData(data=self._parser.send(answer)))

    async def refuse(self, fault: MuseError) -> None:
        """Answer with the fault and nothing else, if no answer has begun yet. The caller then closes."""
        self._is_refused = True
        connection = self._parser
        if self.answer_has_begun:
            return
        answer = fault_answer(fault, close=True)
        # All bytes are made before the first await: a handler that answers at the same moment finds the
        # state machine either untouched or finished.
        data = connection.send(
            h11.Response(
                status_code=answer.status,
                headers=[*answer.headers, *self.config.response_headers("h11")],
            )
        )
        if not self._is_head:
            data += connection.send(h11.Data(data=answer.body))
        data += connection.send(h11.EndOfMessage())
        await self.send(RawData(data=data))

    def _take(self, data: bytes) -> None:
        if self.at_start:
            rest = data.lstrip(b"\r\n")
            skipped = min(len(data) - len(rest), BLANK_BYTES - self._blank_bytes)
            self._blank_bytes += skipped
            data = data[skipped:]
            self.at_start = not data
        if data:  # none would mean the end of input
            self._parser.receive_data(data)

    async def _handle_events(self) -> None:
        while not self._is_refused:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as error:
                await self._send_error_response(error.error_status_hint)
                await self.send(Closed())
                return
            if isinstance(event, h11.Request):
                await self.send(Updated(idle=False))
                await self._check_protocol(event)
                await self._create_stream(event)
            elif event is h11.PAUSED:
                await self.can_read.clear()
                await self.can_read.wait()
            elif isinstance(event, h11.Data) and self.stream is not None:
                await self.stream.handle(Body(stream_id=STREAM_ID, data=bytes(event.data)))
            elif isinstance(event, h11.EndOfMessage) and self.stream is not None:
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
                if self._parser.their_state is not h11.DONE:
                    return  # it ends the connection: what follows is none of our business
            else:
                return

    async def _maybe_recycle(self) -> None:
        await self._close_stream()
        ended = self._parser
        goes_on = not self.context.terminated.is_set() and ended.our_state is ended.their_state is h11.DONE
        if goes_on:
            # A new state machine instead of the old one's next cycle: what is left of the input begins anew in it.
            self.connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)
            self.at_start, self._blank_bytes = True, 0
            self._take(ended.trailing_data[0])
        await self.can_read.set()
        await self.send(Updated(idle=True) if goes_on else Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        # Stock: switches to HTTP/2. Called once a request, after its headers and before its stream is made.
        self._is_head = event.method == b"HEAD"
        if event.http_version not in {b"1.1", b"1.0"}:
            raise protocol_fault(505)
        # h11 looks at its own limit only while the headers are incomplete, and one read may bring 64 KiB.
        size = len(event.method) + len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
        if size > self.config.h11_max_incomplete_size:
            raise protocol_fault(431)
        if any(name == b"transfer-encoding" for name, _ in event.headers) and (
            event.http_version == b"1.0" or any(name == b"content-length" for name, _ in event.headers)
        ):
            # RFC 9112 sections 6.1 and 6.3: two statements of the length, or one that HTTP/1.0 does not have, are
            # how one request is hidden in another.
            raise protocol_fault(400)
        if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in event.headers):
            raise ClientFault("websocket_unsupported", "There is no WebSocket here; events are sent as SSE.")
        expected = [value.strip().lower() for name, value in event.headers if name == b"expect"]
        if event.http_version == b"1.1" and any(value != b"100-continue" for value in expected):
            raise protocol_fault(417)

    async def _send_error_response(self, status_code: int) -> None:
        # Stock: an empty body. Called when h11 cannot read the request.
        await self.refuse(protocol_fault(status_code))
