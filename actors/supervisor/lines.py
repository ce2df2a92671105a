"""Splits a byte stream into lines at 0x0A only, with a limit on the length of a line.

`str.splitlines` and `bytes.splitlines` also split elsewhere, and naive readers rescan and grow without
a limit (reliability.md section 4.3). Test invariant: any chunking of the same bytes gives the same
lines, and a line over the limit is an error as soon as the limit is passed.
"""

from __future__ import annotations


class LineTooLong(ValueError):
    """A line grew over the limit; the stream cannot be used any further."""


class LineSplitter:
    """Feed it chunks, get complete lines (without the newline)."""

    __slots__ = ("_buffer", "_limit_bytes", "_scanned")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer already known to hold no newline

    def feed(self, chunk: bytes | bytearray) -> list[bytes]:
        """Add bytes and return the lines they complete. Raises LineTooLong."""
        self._buffer += chunk
        lines: list[bytes] = []
        start = 0
        while (newline := self._buffer.find(b"\n", max(start, self._scanned))) >= 0:
            if newline - start > self._limit_bytes:
                raise LineTooLong(f"a line of {newline - start} bytes")
            lines.append(bytes(self._buffer[start:newline]))
            start = newline + 1
        if start:
            del self._buffer[:start]
        self._scanned = len(self._buffer)
        if self._scanned > self._limit_bytes:
            raise LineTooLong(f"a line of more than {self._limit_bytes} bytes")
        return lines

    @property
    def rest_bytes(self) -> int:
        """Length of the unfinished line (a half line at the end of a stream is worth a log line)."""
        return len(self._buffer)
