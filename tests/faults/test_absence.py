"""The main process is away for a while (SIGSTOP, swapping, sleep of the machine): nothing happens to anybody."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from actors.supervisor.messages import CountTokens
from muse.protocol import TextSegment
from tests.absence import AbsentClock
from tests.faults.core import FaultCore, finished, wait_length, wait_phase
from tests.server_process import HANG_GUARD_S, ServerProcess, read_until

pytestmark = pytest.mark.thorough

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]
Start = Callable[..., ServerProcess]
TOKENS = 60
SCRIPT: dict[str, Any] = {
    "answers": [{"when": "long", "tokens": {"repeat": ["word "], "count": TOKENS}, "token_ms": 5}, {"tokens": ["ok"]}],
    "prefill_us_per_token": 1000,
    "load_ms": 300,
}
CONNECTIONS = 120


@pytest.fixture
def absent_clock() -> AbsentClock:
    return AbsentClock()


async def away(clock: AbsentClock, seconds: float) -> None:
    clock.away(seconds)
    # Late steps close behind each other are not forgiven: see muse/attention.py.
    await trio.sleep(1.1)


@pytest.mark.parametrize("seconds", [*(pytest.param(s, marks=pytest.mark.slow) for s in (8, 22)), 60])
async def test_in_every_phase(core: CoreFactory, absent_clock: AbsentClock, seconds: float) -> None:
    """Load, idle, queue, prefill, decode, cancel, a question: one worker lives through all of them."""
    async with core(SCRIPT) as running:
        await running.wait_worker("loading")
        await away(absent_clock, seconds)
        await running.wait_worker("ready")
        await away(absent_clock, seconds)
        reply = await running.start("long" + "x" * 300)
        await wait_phase(reply, "prefill")
        await away(absent_clock, seconds)
        assert (await finished(reply)).metrics.resumed == 0
        assert reply.text("answer") == "word " * TOKENS
        replies = [await running.start("long" + "x" * 300) for _ in range(6)]
        await wait_length(replies[0])
        await away(absent_clock, seconds)  # some decode, the others are in the queue
        for reply in replies:
            assert (await finished(reply)).metrics.resumed == 0
        cancelled = await running.start("long" + "x" * 300)
        await wait_phase(cancelled, "prefill")
        assert await running.cancel(cancelled)
        absent_clock.away(seconds)
        assert (await finished(cancelled)).finish_reason == "cancelled"
        await running.supervisor.ask(CountTokens(segments=(TextSegment(text="x", special=False),)))
        await running.check_answers("hi", "ok")
        assert running.board.value.worker.epoch == 1


# For real, as no fake clock can show: pipes fill, timers of all libraries are due, connections wait to be accepted.
@pytest.mark.parametrize("seconds", [8, *(pytest.param(s, marks=pytest.mark.slow) for s in (22, 60))])
def test_a_stopped_server_goes_on(scripted_server: Start, seconds: float) -> None:
    """An answer in decode goes on, 120 connections get what they asked for meanwhile, half of them new ones; the worker
    is the same."""
    server = scripted_server({"answers": [{"tokens": {"repeat": ["word "], "count": 3_000}, "token_ms": 1}]})
    port = int(server.url.rpartition(":")[2])
    request = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=HANG_GUARD_S)

    with server.stream_chat(max_tokens=3_000) as answer:
        lines = answer.iter_lines()
        read_until(lines, "word")
        socks = [connect() for _ in range(CONNECTIONS)]
        server.process.send_signal(signal.SIGSTOP)
        try:
            socks += [connect() for _ in range(CONNECTIONS)]
            for sock in socks:
                sock.sendall(request)
            time.sleep(seconds)
        finally:
            server.process.send_signal(signal.SIGCONT)
        for sock in socks:
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
            sock.close()
        rest = read_until(lines, "[DONE]")
        assert any('"finish_reason":"length"' in line or '"finish_reason":"stop"' in line for line in rest)
    state = server.wait_ready()
    assert state["worker"]["epoch"] == 1
    log = server.stderr()
    assert "Traceback" not in log
    assert "worker-hung" not in log
