"""Complete small answers, as plain values: refusals in the error envelope, static files, 304s.

Nothing here knows Quart. `fault_answer` is the only place that turns a MuseError into HTTP, for the gate, for
the connection and for the routes alike.
"""

from __future__ import annotations

import json

import attrs

from muse.errors import ClientFault, MuseError

Header = tuple[bytes, bytes]


@attrs.frozen
class Answer:
    """A whole HTTP answer. `headers` has lower-case names and always holds content-length."""

    status: int
    headers: tuple[Header, ...]
    body: bytes


def fault_answer(fault: MuseError, *, close: bool = False) -> Answer:
    """The fault as JSON, with the headers that its status asks for.

    Args:
        fault: what went wrong; its `detail` goes to the client.
        close: announce that the connection ends, because the rest of the request will not be read.
    """
    body = json.dumps(fault.envelope(), ensure_ascii=True, separators=(",", ":")).encode("ascii")
    headers: list[Header] = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if fault.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after_s))
    if fault.status == 401:
        # RFC 9110 section 11.6.1: a 401 names the scheme.
        headers.append((b"www-authenticate", b"Bearer"))
    if fault.status == 405 and isinstance(allow := fault.data.get("allow"), str):
        # RFC 9110 section 15.5.6: a 405 lists what is allowed.
        headers.append((b"allow", allow.encode("ascii")))
    if close:
        headers.append((b"connection", b"close"))
    return Answer(fault.status, tuple(headers), body)


def protocol_fault(status: int) -> ClientFault:
    """The fault for a status that the HTTP parser or a connection limit decided on."""
    code, detail = _PROTOCOL_FAULTS.get(status, _PROTOCOL_FAULTS[400])
    return ClientFault(code, detail, status=status)


_PROTOCOL_FAULTS = {
    400: ("bad_request", "The bytes received are not a valid HTTP/1.1 request."),
    408: ("request_timeout", "The request did not arrive in time."),
    413: ("body_too_large", "The request body is larger than this server takes."),
    417: ("expectation_failed", "The only expectation supported is 100-continue."),
    431: ("headers_too_large", "The request line and headers are larger than this server takes."),
    501: ("unsupported_transfer_encoding", "The only transfer encoding supported is chunked."),
    505: ("unsupported_http_version", "Only HTTP/1.1 and HTTP/1.0 are supported."),
}
