"""hypercorn's HTTP/1.1 protocol without any way out of HTTP/1.1, and with answers of ours to bad requests.

Every fatal payload known for stock hypercorn needed an upgrade (WebSocket, h2c) or the HTTP/2 preface, so
neither exists here: h2c is ignored, as RFC 9110 section 7.8 allows, the rest is refused. Two private names of
`H11Protocol` are overridden, `_check_protocol` and `_send_error_response`; `tests/front/test_versions.py`
fails when the installed version is another one than they were read in.
"""

from __future__ import annotations

import h11
from hypercorn.config import Config
from hypercorn.events import RawData
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h11 import H11Protocol

from actors.front.answers import Header, fault_answer, protocol_fault
from actors.front.security import SECURITY_HEADERS
from muse.errors import ClientFault, MuseError


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
    holds_head = False
    """What is being sent is the head of a short answer; its body follows at once and can leave in the same write."""

    async def stream_send(self, event: StreamEvent) -> None:
        self.holds_head = isinstance(event, Response) and any(name == b"content-length" for name, _ in event.headers)
        await super().stream_send(event)

    async def refuse(self, fault: MuseError) -> None:
        """Answer with the fault and nothing else, if no answer has begun yet. The caller then closes."""
        connection = self.connection
        if not isinstance(connection, h11.Connection) or connection.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
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

    async def _send_error_response(self, status_code: int) -> None:
        # Stock: an empty body. Called when h11 cannot read the request.
        await self.refuse(protocol_fault(status_code))
