"""A small HTTP/1.1 client on trio and h11, over TCP or a unix socket: cheap enough not to be what is
measured, and the same code for both sides of a comparison."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final

import h11
import trio

READ_BYTES: Final = 65536


class Connection:
    """One keep-alive connection. Use as an async context manager; one request at a time."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, unix_path: str | None = None) -> None:
        self._host = "localhost" if unix_path is not None else f"{host}:{port}"
        self._address = (host, port)
        self._unix_path = unix_path
        self._stream: trio.SocketStream | None = None
        self._h11 = h11.Connection(h11.CLIENT)

    async def __aenter__(self) -> Connection:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    async def _open(self) -> None:
        if self._unix_path is not None:
            self._stream = await trio.open_unix_socket(self._unix_path)
        else:
            self._stream = await trio.open_tcp_stream(*self._address)
        self._h11 = h11.Connection(h11.CLIENT)

    async def _event(self) -> Any:
        assert self._stream is not None
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            self._h11.receive_data(bytes(await self._stream.receive_some(READ_BYTES)))
        return event

    async def _send(self, method: str, path: str, body: bytes | None) -> h11.Response:
        assert self._stream is not None
        headers = [("host", self._host)]
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        data = self._h11.send(h11.Request(method=method, target=path, headers=headers)) or b""
        data += (self._h11.send(h11.Data(data=body)) or b"") if body is not None else b""
        data += self._h11.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """One whole exchange: status and body."""
        response = await self._send(method, path, None if body is None else json.dumps(body).encode())
        parts: list[bytes] = []
        while isinstance(event := await self._event(), h11.Data):
            parts.append(bytes(event.data))
        if self._h11.our_state is h11.MUST_CLOSE:
            # Servers end a connection after some number of requests; a new one now costs the next request nothing.
            await self.__aexit__(None, None, None)
            await self._open()
        else:
            self._h11.start_next_cycle()
        return response.status_code, b"".join(parts)

    @asynccontextmanager
    async def stream(self, path: str, body: Any = None) -> AsyncGenerator[AsyncIterator[bytes]]:
        """POST (GET without a body) and read the answer's lines as they come. The connection is used up
        after it."""
        method = "GET" if body is None else "POST"
        response = await self._send(method, path, None if body is None else json.dumps(body).encode())
        if response.status_code != 200:
            text = b""
            while isinstance(event := await self._event(), h11.Data):
                text += bytes(event.data)
            raise RuntimeError(f"{path} answered {response.status_code}: {text[:300]!r}")
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = b""
        while isinstance(event := await self._event(), h11.Data):
            *lines, rest = (rest + bytes(event.data)).split(b"\n")
            for line in lines:
                if line:
                    yield line


def data_of(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a `data:` line; None for other lines and for [DONE]."""
    return json.loads(line[6:]) if line.startswith(b"data: {") else None
