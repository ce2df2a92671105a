"""`muse bench crash`: what a client sees when the worker is killed in the middle of its answer.

The pause between the last piece before and the first piece after SIGKILL, part by part, while another
client fetches the page and the state without pause. Budget: not one of those requests fails.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import trio

from muse.bench.client import Connection, data_of
from muse.bench.server import BenchServer
from muse.bench.table import percentile, table

PATHS = ("/health", "/", "/api/runtime")
TOKENS = 160
KILL_AFTER = 60
QUESTION = "Write a long story about a lighthouse keeper and the sea."


async def _fetch_pages(server: BenchServer, outcome: dict[str, int]) -> None:
    while True:
        for path in PATHS:
            try:
                async with Connection(port=server.port) as connection:
                    status, _ = await connection.request("GET", path)
                outcome["fine" if status == 200 else "failed"] += 1
            except (OSError, trio.BrokenResourceError):
                outcome["failed"] += 1
            await trio.sleep(0.01)


async def _note_states(server: BenchServer, states: list[tuple[float, str]]) -> None:
    async with Connection(port=server.port) as connection, connection.stream("/api/events") as lines:
        async for line in lines:
            if event := data_of(line):
                states += [(trio.current_time(), event["worker"]["state"])]


async def _one_crash(server: BenchServer) -> dict[str, float]:
    """Milliseconds: pause, and its parts."""
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": TOKENS, "stream": True}
    states: list[tuple[float, str]] = []
    pieces: list[float] = []
    killed_at = 0.0
    metrics: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_note_states, server, states)
        async with (
            Connection(port=server.port) as connection,
            connection.stream("/v1/chat/completions", body) as lines,
        ):
            async for line in lines:
                chunk = data_of(line) or {}
                if chunk.get("choices") and chunk["choices"][0]["delta"].get("content"):
                    pieces.append(trio.current_time())
                    if len(pieces) == KILL_AFTER:
                        record = json.loads((server.home / "run" / "worker.json").read_text())
                        killed_at = trio.current_time()
                        os.killpg(record["pid"], signal.SIGKILL)
                metrics = chunk.get("muse_metrics", metrics)
                if line == b"data: [DONE]":
                    break
        nursery.cancel_scope.cancel()
    if metrics.get("resumed") != 1 or metrics.get("completion_tokens") != TOKENS:
        raise RuntimeError(f"the answer was not resumed to its end: {metrics}")
    after = next(time for time in pieces if time > killed_at)
    ready = next(time for time, state in states if time > killed_at and state in ("ready", "busy"))
    return {
        "pause": (after - killed_at) * 1000,
        "start and load": (ready - killed_at) * 1000,
        "prefill": float(metrics["prefill_ms"]),
        "rest": (after - ready) * 1000 - float(metrics["prefill_ms"]),
    }


async def measure_crash(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the page stayed up."""
    outcome = {"fine": 0, "failed": 0}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fetch_pages, server, outcome)
        crashes = [await _one_crash(server) for _ in range(rounds)]
        nursery.cancel_scope.cancel()
    rows = [
        [part, f"{percentile([crash[part] for crash in crashes], 0.5):.0f}", f"{max(c[part] for c in crashes):.0f}"]
        for part in crashes[0]
    ]
    fine = outcome["failed"] == 0
    text = table(["worker killed in decode", "median ms", "max ms"], rows)
    text += (
        f"\n{rounds} crashes; page requests meanwhile: {outcome['fine']} answered, {outcome['failed']} failed; "
        f"budget 0 failed: {'holds' if fine else 'BROKEN'}"
    )
    return text, fine
