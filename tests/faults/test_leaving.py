"""Clients that leave, over real sockets, in every phase: their place is free again, nobody else notices."""

from __future__ import annotations

import json
import os
import signal
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
import trio

from actors.front.binding import bind
from actors.system import System, run_system
from muse.bench.client import Connection
from muse.settings import Limits, Settings
from tests.faults.catalog import TEXT, WORDS
from tests.faults.test_cancel import FOR_EVER_MS, SILENCE_MS
from tests.server_process import children_of

HANG_GUARD_S = 60
CHAT = "/v1/chat/completions"
Phase = Literal["queued", "loading", "prefill", "silent-prefill", "decode", "resuming"]


@attrs.frozen(kw_only=True)
class Running:
    """A whole server inside this process."""

    system: System
    port: int

    async def wait(self, reached: Callable[[Any], bool]) -> None:
        """Wait until the state on the board fulfils `reached`."""
        board = self.system.board
        while not reached(board.value):
            await board.wait_newer(board.version)

    async def wait_idle(self) -> None:
        """Wait until no request runs or waits and the worker rests."""
        await self.wait(lambda s: s.worker.state == "ready" and not s.requests.running + s.requests.queued)

    async def ask(self, text: str) -> str:
        """The answer to one request."""
        async with Connection(port=self.port) as connection:
            status, body = await connection.request("POST", CHAT, question(text))
        assert status == 200, body
        return json.loads(body)["choices"][0]["message"]["content"]


def question(text: str, **fields: Any) -> dict[str, Any]:
    """A chat request's body."""
    return {"messages": [{"role": "user", "content": text}], **fields}


@asynccontextmanager
async def whole_system(
    script: dict[str, Any], folder: Path, limits: Limits | None = None, *, guard_s: float = HANG_GUARD_S
) -> AsyncGenerator[Running]:
    """Run everything, front included, in this process; stopped at the end, in order."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    settings = Settings(engine="scripted", model=path, home=folder / "home", port=0, limits=limits or Limits())
    binding = bind("127.0.0.1", 0)
    with trio.fail_after(guard_s):
        async with trio.open_nursery() as nursery:
            system: System = await nursery.start(partial(run_system, settings, binding))
            yield Running(system=system, port=binding.port)
            system.stop.set()


def worker_pid(running: Running) -> int:
    record = json.loads((running.system.settings.home / "run" / "worker.json").read_text())
    return children_of(int(record["pid"]))[0]


@pytest.mark.parametrize("abruptly", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize("phase", ["queued", "loading", "prefill", "silent-prefill", "decode", "resuming"])
async def test_a_client_that_leaves_frees_its_place(tmp_path: Path, phase: Phase, abruptly: bool) -> None:
    """Closed or reset, before the headers or after: the turn ends, the worker is idle, the next is right."""
    load = tmp_path / "load"
    if phase != "loading":
        load.write_text("x")
    long = {"tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 2}
    silence = {"at": "prefill", "processed": 64, "do": "delay", "ms": SILENCE_MS}
    script = {
        "answers": [{"when": "long", **long}, {"when": "deaf", **long, "faults": [silence]}, {"tokens": WORDS}],
        "prefill_us_per_token": 2000,
        "faults": [{"at": "load", "do": "delay", "ms": FOR_EVER_MS, "counter": str(load), "times": 1}],
    }
    async with whole_system(script, tmp_path) as running:
        await running.wait(lambda s: s.worker.state == ("loading" if phase == "loading" else "ready"))
        others = 2 if phase == "queued" else 0
        async with trio.open_nursery() as nursery:
            for _ in range(others):
                nursery.start_soon(partial(running.ask, "long"))
            await running.wait(lambda s: s.requests.running == others)
            leaver = await open_request(running.port, ("deaf" if phase == "silent-prefill" else "long") + "x" * 200)
            await running.wait(lambda s: s.requests.running + s.requests.queued == others + 1)
            if phase in ("prefill", "silent-prefill"):
                await read_to(leaver, b'"phase": "prefill"')
            elif phase in ("decode", "resuming"):
                await read_to(leaver, b'"content":"w')
            if phase == "resuming":
                load.unlink()
                os.kill(worker_pid(running), signal.SIGKILL)
                await running.wait(lambda s: s.worker.epoch == 2 and s.worker.state == "loading")
            await leave(leaver, abruptly)
            await running.wait(lambda s: s.requests.running + s.requests.queued == others)
            nursery.cancel_scope.cancel()
        if phase in ("loading", "resuming"):
            while not load.exists():  # else the next worker would be the one that loads for ever
                await trio.sleep(0.01)
            os.kill(worker_pid(running), signal.SIGKILL)
        await running.wait_idle()
        assert await running.ask("hi") == TEXT


async def open_request(port: int, text: str) -> trio.SocketStream:
    """Send a streamed request on a socket of our own."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    body = json.dumps(question(text, stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    await stream.send_all(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return stream


async def read_to(stream: trio.SocketStream, marker: bytes) -> bytes:
    """Read until the marker was seen; everything read."""
    seen = b""
    while marker not in seen:
        chunk = await stream.receive_some(65536)
        assert chunk, f"the stream ended before {marker!r}: {seen[-300:]!r}"
        seen += chunk
    return seen


async def leave(stream: trio.SocketStream, abruptly: bool) -> None:
    """Close the connection, in order or by a reset."""
    if abruptly:
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
    await trio.aclose_forcefully(stream)
