"""The frames between the main process and an isolated process: a fixed header, then its parts as raw bytes.

A request has the job's name and its payload. A response has a status and a payload: with READY, which comes once and
before the first request, the process id in digits; with FAULT a MuseError (faults.py); with ERROR where
an unexpected exception was raised, and its kind.
"""

from __future__ import annotations

import os
import struct
from typing import Final

REQUEST: Final = struct.Struct("!HQ")
"""Bytes of the job's name, bytes of the payload."""
RESPONSE: Final = struct.Struct("!BQ")
"""Status, bytes of the payload."""

RESULT: Final = 0
FAULT: Final = 1
ERROR: Final = 2
NO_MEMORY: Final = 3
READY: Final = 4
STATUSES: Final = frozenset((RESULT, FAULT, ERROR, NO_MEMORY, READY))

MAX_PAYLOAD_BYTES: Final = 192 * 1024 * 1024
"""Of one frame: three times the longest request body, since a template may repeat what it was given."""

_WRITE_BYTES: Final = 1024 * 1024


def read_exactly(fd: int, size: int) -> bytes | None:
    """Read so many bytes from a blocking descriptor; None when it ends before."""
    data = bytearray(size)
    view = memoryview(data)
    position = 0
    while position < size:
        count = os.readv(fd, [view[position:]])
        if count == 0:
            return None
        position += count
    return bytes(data)


def write_all(fd: int, data: bytes) -> None:
    """Write everything to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:_WRITE_BYTES]) :]
