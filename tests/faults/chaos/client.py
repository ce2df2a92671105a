"""One HTTP client of the chaos run. Everything it sends and gets is kept, for the record of a failure."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import httpx
import trio

from tests.faults.chaos.reading import Said, StreamReader, Wrong, said_of_body

CHAT: Final = "/v1/chat/completions"
SILENCE_S: Final = 60.0
"""Longest silence of a stream, which has heartbeats, and of a short exchange. A whole answer comes when it comes."""
IDLE_S: Final = 4.0
"""The server closes idle connections after 6 s; a request must not meet that moment."""
MOST_DROPS: Final = 4


class Refused(Exception):
    """A request ended in an error. status: of HTTP; None: the error came inside a stream. waited_s: since the request
    was sent. said: what came of the answer before."""

    def __init__(self, error: dict[str, Any], *, status: int | None, retry_after: str | None, waited_s: float) -> None:
        super().__init__(f"{status or 'in the stream'}: {error.get('code')}: {error.get('message')}")
        self.said = Said()
        self.message: str = error["message"]
        self.code: str = error["code"]
        self.status = status
        self.retry_after = retry_after
        self.waited_s = waited_s


@attrs.define(kw_only=True)
class Exchange:
    """One request and what came back. lines: of a stream, with the time of each. left: the client closed it."""

    method: str
    path: str
    body: Any
    sent: float
    status: int | None = None
    headers: dict[str, str] = attrs.field(factory=dict)
    lines: list[tuple[float, str]] = attrs.field(factory=list)
    text: str = ""
    left: bool = False
    over: float | None = None


@attrs.define
class Cut:
    """Where a client leaves a stream: behind so many lines, or after so many seconds, whichever is first."""

    lines: int
    seconds: float


class Client:
    """Requests over one pool of connections, and the Exchanges so far."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self.exchanges: list[Exchange] = []
        self.chance = chance
        limits = httpx.Limits(keepalive_expiry=IDLE_S)
        self._http = httpx.AsyncClient(base_url=url, timeout=SILENCE_S, limits=limits)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _begin(self, method: str, path: str, body: Any) -> Exchange:
        exchange = Exchange(method=method, path=path, body=body, sent=trio.current_time())
        self.exchanges.append(exchange)
        return exchange

    async def send(self, method: str, path: str, body: Any = None, silence_s: float | None = SILENCE_S) -> Any:
        """A whole exchange; the JSON object. Raises Refused."""
        exchange = self._begin(method, path, body)
        response = await self._http.request(method, path, json=body, timeout=silence_s)
        _note(exchange, response)
        exchange.text, exchange.over = response.text, trio.current_time()
        if response.status_code != 200:
            raise _refusal(exchange)
        return json.loads(exchange.text)

    async def whole(self, body: dict[str, Any]) -> Said:
        """An answer in one piece. Raises Refused."""
        return said_of_body(await self.send("POST", CHAT, body, silence_s=None))

    @asynccontextmanager
    async def stream(self, method: str, path: str, body: Any = None) -> AsyncGenerator[AsyncIterator[str]]:
        """The lines of an answer; leaving the context closes the connection. Raises Refused."""
        exchange = self._begin(method, path, body)
        async with self._http.stream(method, path, json=body) as response:
            _note(exchange, response)
            if response.status_code != 200:
                await response.aread()
                exchange.text, exchange.over = response.text, trio.current_time()
                raise _refusal(exchange)
            exchange.left = True
            yield self._lines(exchange, response)

    async def _lines(self, exchange: Exchange, response: httpx.Response) -> AsyncGenerator[str]:
        async for line in response.aiter_lines():
            exchange.lines.append((trio.current_time(), line))
            yield line
        exchange.left, exchange.over = False, trio.current_time()

    async def read(
        self, reader: StreamReader, method: str, path: str, body: Any = None, cut: Cut | None = None
    ) -> None:
        """Read a stream to its end, or up to the cut. Raises Refused, also for an error inside the stream."""
        sent, count = trio.current_time(), 0
        try:
            with trio.move_on_after(cut.seconds if cut else float("inf")):
                async with self.stream(method, path, body) as lines:
                    async for line in lines:
                        reader.feed(line)
                        count += line.startswith("data: ")
                        if cut and count >= cut.lines:
                            break
                    else:
                        reader.check_ended()
            if reader.said.error is not None and reader.said.ended:
                waited = trio.current_time() - sent
                raise Refused(reader.said.error, status=None, retry_after=None, waited_s=waited)
        except Refused as fault:
            fault.said = reader.said
            raise

    async def streamed(self, body: dict[str, Any]) -> Said:
        """An answer as a stream."""
        reader = StreamReader(numbered=False)
        await self.read(reader, "POST", CHAT, {**body, "stream": True})
        return reader.said

    async def detached(self, body: dict[str, Any]) -> Said:
        """An answer of which the connection is lost at random places, and read on from there each time."""
        reader = StreamReader(numbered=True)
        body = {**body, "stream": True, "muse": {**body.get("muse", {}), "detached": True}}
        await self.read(reader, "POST", CHAT, body, self.random_cut())
        reply_id = self.exchanges[-1].headers.get("muse-reply-id")
        if reply_id is None:
            # Left before the headers came, so nobody knows the reply's id: it is asked again.
            await self.read(reader, "POST", CHAT, body)
            reply_id = self.exchanges[-1].headers["muse-reply-id"]
        for drop in range(MOST_DROPS):
            if reader.said.ended:
                break
            if self.chance.random() < 0.3:
                await trio.sleep(self.chance.random())
            path = f"/api/replies/{reply_id}?after={reader.said.position}"
            await self.read(reader, "GET", path, cut=self.random_cut() if drop < MOST_DROPS - 1 else None)
        reader.said.reply_id = reader.said.reply_id or reply_id
        await self.check_same(reader.said)
        return reader.said

    async def read_again(self, reply_id: str) -> Said:
        """All of a reply, from its beginning to its end, by its id. Raises Refused for its error."""
        reader = StreamReader(numbered=True)
        await self.read(reader, "GET", f"/api/replies/{reply_id}?after=0")
        return reader.said

    async def check_same(self, said: Said) -> None:
        """What the server has of a reply must be what was read of it. Raises Wrong."""
        again = await self.read_again(said.reply_id)
        if again.text() != said.text() or again.finish != said.finish:
            raise Wrong(f"read again it is {again.text()}, {again.finish}")

    def random_cut(self) -> Cut:
        """Somewhere: among the first lines, or after some time."""
        chance = self.chance
        return Cut(lines=chance.randrange(1, 30), seconds=chance.choice([0.05, 0.2, 1.0, 5.0]) * chance.random() * 2)


def _note(exchange: Exchange, response: httpx.Response) -> None:
    exchange.status, exchange.headers = response.status_code, dict(response.headers)


def _refusal(exchange: Exchange) -> Refused:
    assert exchange.over is not None
    try:
        error = json.loads(exchange.text)["error"]
    except (ValueError, KeyError, TypeError):
        raise Wrong(f"status {exchange.status} without an error object: {exchange.text[:300]}") from None
    return Refused(
        error,
        status=exchange.status,
        retry_after=exchange.headers.get("retry-after"),
        waited_s=exchange.over - exchange.sent,
    )
