"""The worker's own ends of the protocol pipes, kept away from everything else in the process.

`take_over` must run before any library is imported: afterwards descriptor 1 is the standard error and
descriptor 0 is empty, so neither a print, nor a native library, nor a child process can reach the protocol.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from muse.sizes import COMMAND_BYTES

if TYPE_CHECKING:
    from muse.protocol import WorkerEvent

_READ_BYTES: Final = 64 * 1024


def take_over() -> tuple[int, int]:
    """Move the real stdin and stdout to private descriptors and return them as (commands, events)."""
    commands, events = os.dup(0), os.dup(1)  # dup makes them non-inheritable
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return commands, events


class LineTooLong(ValueError):
    """A command of more than COMMAND_BYTES."""


def read_lines(fd: int, before: Callable[[], None] | None = None) -> Iterator[bytes]:
    """Yield the lines of a descriptor without their newline, until its end; a last half line is dropped.

    before: called before each line is handed out. Raises LineTooLong.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := os.read(fd, _READ_BYTES):
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            whole = b"".join(parts)
            parts.clear()
            size = 0
            if before:
                before()
            yield whole
        parts.append(rest)
        size += len(rest)
        if size > COMMAND_BYTES:
            raise LineTooLong(f"a command line of more than {COMMAND_BYTES} bytes")


class EventWriter:
    """Writes events, one whole line at a time, from any thread.

    No engine makes a line longer than MAX_WORKER_LINE_BYTES: tokens are sent as they arrive, and the ids of
    a whole context take less than a megabyte. gone: called by the thread that finds that nobody reads any
    more; ends the process.
    """

    def __init__(self, fd: int, encode: Callable[[WorkerEvent], bytes]) -> None:
        self._fd = fd
        self._encode = encode
        self._lock = threading.Lock()
        self.gone: Callable[[], None] = lambda: os._exit(0)

    def send(self, event: WorkerEvent) -> None:
        """Write one event; returns when the pipe has taken it."""
        self.write(self._encode(event))

    def write(self, data: bytes) -> None:
        """Write bytes as they are, without interleaving with any event."""
        with self._lock:
            try:
                sent = os.write(self._fd, data)
                while sent < len(data):
                    data = data[sent:]
                    sent = os.write(self._fd, data)
            except OSError:
                self.gone()

    def close(self) -> None:
        """Close the pipe while the process lives on (a fault for tests); later events are dropped."""
        with self._lock:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._fd, inheritable=False)
            os.close(null)
