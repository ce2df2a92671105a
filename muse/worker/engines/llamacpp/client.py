"""A minimal HTTP/1.1 client for the native server's unix socket: whole answers, and streams of events.

One connection a request, and no time limits: a step of a large model may take any time, and whoever watches the worker
judges it. A server that dies ends its connections. The stream reader is on the path of every token, hence no general
library; it knows what this one server sends (Content-Length or chunks, server-sent events of one `data:` line) and
refuses anything else.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
from contextlib import nullcontext
from typing import Any, Final

from muse.exhaustion import reason_of
from muse.worker.engines.base import CancelToken, EngineFault

_RECEIVE_BYTES: Final = 16 * 1024
_PREFIX: Final = b"data: "
# The kernel reports POLLHUP unasked; Linux has a flag for "the peer sends no more", which comes first.
_PEER_CLOSED: Final = getattr(select, "POLLRDHUP", 0)


class EngineGone(EngineFault):
    """The native server does not answer, or broke off."""

    def __init__(self, message: str) -> None:
        super().__init__("engine_error", message, fatal=True)


class Refused(Exception):
    """The native server refused a request; the members are those of its error object."""

    def __init__(self, status: int, body: bytes) -> None:
        error: dict[str, Any] = {}
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            error = {"message": body[:200].decode("utf-8", "replace")}
        self.status = status
        self.type = str(error.get("type", ""))
        self.message = str(error.get("message", ""))
        self.prompt_tokens = error.get("n_prompt_tokens")
        super().__init__(f"{status} {self.type}: {self.message}")


class Client:
    """Talks to the native server at one socket path, from any thread."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path

    def call(self, method: str, path: str, body: object = None, *, cancel: CancelToken | None = None) -> Any:
        """One request, its JSON answer. cancel: gives it up. Raises Refused for a status other than 200, EngineGone,
        also when it was given up."""
        with (
            self._send(method, path, body) as connection,
            cancel.hook(lambda: _leave(connection, socket.SHUT_RDWR)) if cancel else nullcontext(),
        ):
            response = _Response(connection)
            content = response.read_all()
        if response.status != 200:
            raise Refused(response.status, content)
        return json.loads(content)

    def stream(self, path: str, body: object) -> EventStream:
        """Post a request whose answer is a stream. The stream must be closed. Raises EngineGone."""
        return EventStream(self._send("POST", path, body))

    def _send(self, method: str, path: str, body: object) -> socket.socket:
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: muse\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(self._path)
            connection.sendall(head.encode() + content)
        except OSError as fault:
            connection.close()
            raise EngineGone(f"the engine's server cannot be reached: {reason_of(fault)}") from fault
        return connection


class EventStream:
    """A streamed answer. Used by one thread; `interrupt` may be called by another."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._response: _Response | None = None
        self._rest = b""

    def interrupt(self) -> None:
        """Tell the server that we are leaving: it ends the work, then the stream, at its next event. What
        was generated until then still arrives."""
        _leave(self._connection, socket.SHUT_WR)

    def events(self) -> list[bytes]:
        """The JSON texts of the events that are there, at least one; empty at the end of the stream.
        Raises Refused, EngineGone."""
        if self._response is None:
            self._response = _Response(self._connection)
            if self._response.status != 200:
                raise Refused(self._response.status, self._response.read_all())
        while data := self._response.read_some():
            *blocks, self._rest = (self._rest + data).split(b"\n\n")
            events = [block[len(_PREFIX) :] for block in blocks if block.startswith(_PREFIX)]
            if events:
                return events
        return []

    def gather(self, timeout_s: float) -> None:
        """Let events gather for a while; ends at once when the server has ended the stream."""
        poll = select.poll()
        poll.register(self._connection, _PEER_CLOSED)
        poll.poll(timeout_s * 1000)

    def close(self) -> None:
        self._connection.close()


def _leave(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):  # it was over already
        connection.shutdown(how)


class _Response:
    """Head and body of one answer. Raises EngineGone when it is no answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._receive():
                raise EngineGone("the engine closed the connection without an answer")
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        lines = head.split(b"\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        try:
            self.status = int(lines[0].split()[1])
            self._chunked = fields.get(b"transfer-encoding") == b"chunked"
            self._left = 0 if self._chunked else int(fields[b"content-length"])
        except (IndexError, ValueError, KeyError) as fault:
            raise EngineGone(f"the engine's answer is no HTTP: {lines[0][:80]!r}") from fault
        self._over = not self._chunked and self._left == 0

    def _receive(self) -> bool:
        try:
            data = self._connection.recv(_RECEIVE_BYTES)
        except OSError:
            data = b""
        self._buffer += data
        return bool(data)

    def read_all(self) -> bytes:
        """The whole body."""
        parts: list[bytes] = []
        while part := self.read_some():
            parts.append(part)
        if not self._over:
            raise EngineGone("the engine broke off in the middle of an answer")
        return b"".join(parts)

    def read_some(self) -> bytes:
        """What is there of the body, waiting for at least one byte; empty at its end, or when the server
        broke it off."""
        while not self._over:
            data = self._take_chunks() if self._chunked else self._take_plain()
            if data:
                return data
            if not self._over and not self._receive():
                break
        return b""

    def _take_plain(self) -> bytes:
        data, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        self._left -= len(data)
        self._over = self._left == 0
        return data

    def _take_chunks(self) -> bytes:
        """All complete chunks of the buffer."""
        buffer, start = self._buffer, 0
        chunks: list[bytes] = []
        while (line_end := buffer.find(b"\r\n", start)) >= 0:
            try:
                size = int(buffer[start:line_end], 16)
            except ValueError as fault:
                raise EngineGone("the engine's answer has a broken chunk") from fault
            if size == 0:
                self._over = True
                break
            data_start = line_end + 2
            if len(buffer) < data_start + size + 2:
                break
            chunks.append(buffer[data_start : data_start + size])
            start = data_start + size + 2
        self._buffer = buffer[start:]
        return b"".join(chunks)
