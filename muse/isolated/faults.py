"""MuseErrors as bytes, so that one raised in an isolated process is raised again in the main process."""

from __future__ import annotations

from typing import Final

import msgspec

from muse.errors import ClientFault, EnvironmentFault, InternalFault, JsonScalar, MuseError, Unavailable, WorkerFault

_KINDS: Final[dict[str, type[MuseError]]] = {
    kind.__name__: kind for kind in (ClientFault, Unavailable, WorkerFault, InternalFault, EnvironmentFault)
}


class _Fault(msgspec.Struct, frozen=True):
    kind: str
    code: str
    detail: str
    status: int
    param: str | None
    retry_after_s: int | None
    data: dict[str, JsonScalar]


def encode_fault(fault: MuseError) -> bytes:
    """All that a client or caller may read of it."""
    return msgspec.msgpack.encode(
        _Fault(
            kind=type(fault).__name__,
            code=fault.code,
            detail=fault.detail,
            status=fault.status,
            param=fault.param,
            retry_after_s=fault.retry_after_s,
            data=dict(fault.data),
        )
    )


def decode_fault(data: bytes | bytearray) -> MuseError:
    """The error again. Raises ValueError for anything that `encode_fault` does not write."""
    fault = msgspec.msgpack.decode(data, type=_Fault)
    kind = _KINDS.get(fault.kind)
    if kind is None or not 400 <= fault.status < 600:
        raise ValueError("not an error of ours")
    return kind(
        fault.code,
        fault.detail,
        status=fault.status,
        param=fault.param,
        retry_after_s=fault.retry_after_s,
        data=fault.data,
    )
