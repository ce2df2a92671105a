"""A client that reads slowly costs its own text and nothing else (design section 2)."""

from __future__ import annotations

import gc
import json
import socket
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
import trio

from actors.front.binding import bind
from actors.system import System, run_system
from muse.settings import Settings

pytestmark = pytest.mark.thorough

HANG_GUARD_S = 60
TOKENS = 20_000
TEXT_BYTES = TOKENS * len("word ")
ALLOWED_BYTES = 1024 * 1024
"""Half of the design's budget."""


async def open_stream(port: int, receive_buffer: int | None = None) -> trio.SocketStream:
    """Connect, with a small receive buffer if asked, and send one streaming request."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await sock.connect(("127.0.0.1", port))
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    stream = trio.SocketStream(sock)
    await stream.send_all(head.encode() + body)
    return stream


async def read_all(stream: trio.SocketStream) -> bytes:
    """Read until [DONE]."""
    seen = bytearray()
    while b"data: [DONE]" not in seen[-100:]:
        chunk = await stream.receive_some(65536)
        assert chunk, "the stream ended early"
        seen += chunk
    return bytes(seen)


async def test_a_slow_reader_costs_only_its_text(tmp_path: Path) -> None:
    """Two streams of 20,000 tokens at full speed, one reader slow: the worker finishes both, the fast one
    has everything while the slow one has read next to nothing, what is held stays under text + 1 MiB, and the
    slow one still gets every token in the end."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"answers": [{"tokens": {"repeat": ["word "], "count": TOKENS}}]}))
    settings = Settings(engine="scripted", model=script, home=tmp_path / "home", port=0)
    binding = bind("127.0.0.1", 0)
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            system: System = await nursery.start(partial(run_system, settings, binding))
            board = system.board
            while board.value.worker.state != "ready":
                await board.wait_newer(board.version)
            async with await open_stream(binding.port) as warm_up:
                await read_all(warm_up)  # everything is imported and cached now
            gc.collect()
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            async with await open_stream(binding.port, receive_buffer=4096) as slow:
                assert await slow.receive_some(100)
                async with await open_stream(binding.port) as fast:
                    fast_text = await read_all(fast)
                while board.value.requests.running:
                    await board.wait_newer(board.version)
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert fast_text.count(b"word ") == TOKENS
                # The test's own copy of the fast stream counts as well: take it off.
                assert held - before - 2 * TEXT_BYTES - len(fast_text) < ALLOWED_BYTES
                slow_text = await read_all(slow)
            assert slow_text.count(b"word ") == TOKENS
            system.stop.set()
