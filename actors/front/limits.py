"""Figures that bound what one client can cost the HTTP front.

Every wait for a client has a limit here, and every buffer filled by a client has one too. Times are seconds
of the Trio clock, sizes are bytes. Tests use small values; nothing else should need to change them.
"""

from __future__ import annotations

import attrs

from muse.sizes import BODIES_BYTES, BODY_BYTES, KIB, MIB


@attrs.frozen(kw_only=True)
class FrontLimits:
    """Limits of the front, with the values the product uses as defaults."""

    connections: int = 256
    """Open connections at once. A browser needs about 6 a page, a load test a few hundred; beyond: 503."""

    refusals: int = 32
    """Of the connections beyond the limit, so many at once get the 503; the rest are just closed."""

    header_bytes: int = 16 * KIB
    """Request line and headers together. The same figure as h11's and IIS's default; beyond: 431."""

    header_s: float = 5.0
    """From accepting (or from the first byte of a later request) to the complete headers; beyond: 408."""

    keep_alive_s: float = 6.0
    """Silence between two requests. httpx, which is inside the OpenAI client, drops a connection after 5 s idle:
    closing later than that keeps its next request from racing our close."""

    body_bytes: int = BODY_BYTES
    """Body of one request; beyond: 413."""

    bodies_bytes: int = BODIES_BYTES
    """Bodies of all requests at once (`body_budget`); beyond: 503."""

    body_stall_s: float = 10.0
    """Silence inside a body; beyond: 408."""

    body_total_s: float = 120.0
    """Whole body, so that one byte every nine seconds does not hold a place for years; beyond: 408."""

    send_stall_s: float = 30.0
    """A client that takes no byte of an answer for so long is cut off with a reset."""

    read_ahead_bytes: int = 64 * KIB
    """Bytes kept that came behind the request being answered (pipelining). No real client sends more than one
    small request ahead, and reading must go on to see a disconnect, so beyond this the connection is reset."""

    linger_s: float = 0.5
    """After an answer that cut a request short, unread input is discarded for so long, because closing a socket
    with unread input resets it and the client might lose the answer."""

    linger_bytes: int = 8 * MIB
    """The same limit in bytes."""

    stop_grace_s: float = 0.5
    """From the stop signal until running requests are cancelled; enough for streams to send a last event."""
