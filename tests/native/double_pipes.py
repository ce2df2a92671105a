"""The double's pipes: requests and cancels coming in, lines and text going out."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import select
import struct
import sys
import threading
from typing import Any


class Input:
    """Standard input, of which a line can be taken while a request runs (patch-points.md section 2)."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.is_over = False

    def line(self) -> bytes | None:
        """The next line; None at the end."""
        while b"\n" not in self._buffer:
            if not self._fill():
                return None
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return line

    def take_cancel(self) -> bool:
        """Take the oldest line if it is a cancel; the end of input counts as one."""
        while not self.is_over and select.select([0], [], [], 0)[0]:
            self._fill()
        line, newline, rest = bytes(self._buffer).partition(b"\n")
        if newline and is_cancel(line):
            self._buffer[:] = rest
            return True
        return self.is_over and not newline

    def _fill(self) -> bool:
        data = os.read(0, 65536)
        self._buffer += data
        self.is_over |= not data
        return bool(data)


class ControlPipe:
    """Ids of cancelled requests, read by a thread (worker-protocol.md section 14)."""

    def __init__(self) -> None:
        self._seen = 0
        descriptor = int(os.environ["EXECUTORCH_LLM_WORKER_CONTROL_FD"])
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()

    def _read(self, descriptor: int) -> None:
        while data := os.read(descriptor, 8):
            (self._seen,) = struct.unpack("<Q", data)

    def has(self, request_id: int) -> bool:
        return self._seen == request_id


def is_cancel(line: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return b"cancel" in line and json.loads(line).get("op") == "cancel"
    return False


class TextOut:
    """Token lines: only complete characters, and nothing that may yet become a stop string (section 4)."""

    def __init__(self, stops: list[str]) -> None:
        if not isinstance(stops, list):
            raise TypeError("stop is no array")
        self.stops = [stop.encode() for stop in stops]
        self.held = b""

    def put(self, piece: bytes) -> bool:
        """True: a stop string has come; what stood before it is out."""
        self.held += piece
        found = [place for place in (self.held.find(stop) for stop in self.stops) if place >= 0]
        if found:
            self.out(self.held[: min(found)])
            return True
        if codecs.getincrementaldecoder("utf-8")("replace").decode(self.held) and is_whole(self.held):
            keep = max(
                (n for stop in self.stops for n in range(1, len(stop)) if self.held.endswith(stop[:n])), default=0
            )
            self.out(self.held[: len(self.held) - keep])
            self.held = self.held[len(self.held) - keep :]
        return False

    def flush(self, *, is_cut: bool) -> None:
        if not is_cut:
            self.out(self.held)
        self.held = b""

    def out(self, data: bytes) -> None:
        if data:
            say({"token": data.decode("utf-8", "replace")})


def is_whole(data: bytes) -> bool:
    """It ends with a complete character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return not decoder.getstate()[0]


def say(line: dict[str, Any] | str) -> None:
    """One line: keys in alphabetical order, no blanks, UTF-8 as it is; what is none becomes U+FFFD."""
    text = (
        line if isinstance(line, str) else json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    )
    text = re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()
