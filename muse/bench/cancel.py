"""`muse bench cancel`: how long until the engine is idle after a cancel, phase by phase.

Measured at the client: from sending POST /api/cancel to the end of the stream. A reply gets its outcome
when the worker says `done`, which it does when the engine is idle; so the figure is an upper bound.
Budget: 50 ms p99 in decode, 300 ms in prefill (one batch).
"""

from __future__ import annotations

import json

import trio

from muse.bench.client import Connection
from muse.bench.server import BenchServer
from muse.bench.table import percentile, table

BUDGET_MS = {"decode": 50.0, "prefill": 300.0}
SHORT = "Write a very long story about the sea."
PREFILL_TOKENS = 3000


async def _one(server: BenchServer, phase: str, number: int) -> float:
    """Start a request, wait for its phase, cancel it; milliseconds to the end of its stream."""
    # A fresh beginning each time, so that no prefix of an earlier prompt is still held by the engine.
    prompt = SHORT if phase == "decode" else f"{number} " + "a lighthouse on a rock " * (PREFILL_TOKENS // 5)
    body = {"messages": [{"role": "user", "content": f"{number}. {prompt}"}], "stream": True}
    body |= {"session_id": f"cancel-{phase}-{number}"}
    marker = b'"content":"' if phase == "decode" else b'"phase": "prefill"'
    seen = 0
    async with (
        Connection(port=server.port) as connection,
        Connection(port=server.port) as other,
        connection.stream("/v1/chat/completions", body) as lines,
    ):
        async for line in lines:
            seen += marker in line
            if seen == 3:
                break
        started = trio.current_time()
        _, answer = await other.request("POST", "/api/cancel", {"session_id": body["session_id"]})
        if not json.loads(answer)["cancelled"]:
            raise RuntimeError(f"there was nothing to cancel: {answer!r}")
        async for line in lines:
            if line == b"data: [DONE]":
                return (trio.current_time() - started) * 1000
    raise RuntimeError("the stream did not end")


async def measure_cancel(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the budgets hold."""
    rows: list[list[str]] = []
    fine = True
    for phase, budget in BUDGET_MS.items():
        values = [await _one(server, phase, number) for number in range(rounds)]
        p99 = percentile(values, 0.99)
        fine &= p99 <= budget
        rows.append([phase, f"{percentile(values, 0.5):.1f}", f"{p99:.1f}", f"{max(values):.1f}", f"{budget:.0f}"])
    text = table(["cancel to idle", "p50 ms", "p99 ms", "max ms", "budget p99"], rows)
    return f"{text}\n{rounds} cancels a phase: {'holds' if fine else 'BROKEN'}", fine
