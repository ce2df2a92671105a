"""The worker's errors as ours, with the HTTP status that tells whose fault it is."""

from __future__ import annotations

from muse import protocol
from muse.errors import ClientFault, MuseError, Unavailable, WorkerFault


def fault_of(event: protocol.Error) -> MuseError:
    """The worker's error as ours, with the status that tells whose fault it is."""
    data = {
        name: value
        for name, value in (("prompt_tokens", event.prompt_tokens), ("context_length", event.context_length))
        if value is not None
    }
    match event.code:
        case "context_overflow":
            return ClientFault("context_length_exceeded", event.message, param="messages", data=data)
        case "bad_request" | "bad_image" | "unsupported":
            return ClientFault(event.code, event.message)
        case "capacity_exhausted":
            return Unavailable(event.code, event.message, status=429, retry_after_s=2)
        case "engine_error" | "out_of_memory":
            return WorkerFault(event.code, event.message)
