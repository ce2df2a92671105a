"""`muse bench cancel`: how long until the engine is idle after a cancel, phase by phase.

*decode*, *prefill*: from sending POST /api/cancel to the end of the stream. A reply gets its outcome when
the worker says `done`, which it does when the engine is idle; so the figure is an upper bound. The cancels
are spread over the first 1,500 tokens of a prompt and over the time of a step; *deep prefill* over tokens
1,500 to 3,000, where each
token costs more. *leave*: the client closes its connection in decode; until the state stream says that the
worker is ready. Budgets: 50 ms p99 in decode, 100 ms when the client leaves, 300 ms in prefill (one step).
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import trio

from muse.bench.client import Connection, data_of
from muse.bench.server import BenchServer
from muse.bench.table import percentile, table

BUDGET_MS = {"decode": 50.0, "leave": 100.0, "prefill": 300.0, "deep prefill": 300.0}
SHORT = "Write a very long story about the sea."
PREFILL_TOKENS = 4000
HALF = 1500
SEEN = 3
WITHIN_S = 0.3
_within_step = random.Random(1)


def _request(phase: str, number: int) -> dict[str, Any]:
    # A fresh beginning each time, so that no prefix of an earlier prompt is still held by the engine.
    text = f"{number}. " + ("a lighthouse on a rock " * (PREFILL_TOKENS // 5) if "prefill" in phase else SHORT)
    return {
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "session_id": f"cancel-{phase}-{number}".replace(" ", "-"),
    }


def _place(phase: str, number: int, rounds: int) -> int:
    """At which token of the prompt the cancel comes: evenly spread, not in order."""
    spread = (number * 7) % rounds * HALF // rounds
    return spread + (HALF if phase == "deep prefill" else 0)


async def _wait_prefill(lines: AsyncIterator[bytes], place: int) -> None:
    async for line in lines:
        if line.startswith(b": muse ") and b'"processed"' in line:
            sign = json.loads(line.removeprefix(b": muse "))
            if sign["processed"] >= place:
                return
    raise RuntimeError("the stream ended before its prompt was evaluated")


async def _wait_decode(lines: AsyncIterator[bytes]) -> None:
    seen = 0
    async for line in lines:
        seen += b'"content":"' in line
        if seen == SEEN:
            return
    raise RuntimeError("the stream ended before it had begun")


async def _cancelled(server: BenchServer, phase: str, number: int, rounds: int) -> float:
    body = _request(phase, number)
    async with (
        Connection(port=server.port) as connection,
        connection.stream("/v1/chat/completions", body) as lines,
    ):
        if phase == "decode":
            await _wait_decode(lines)
        else:
            await _wait_prefill(lines, _place(phase, number, rounds))
            # News of progress comes when a step is over; a cancel comes at any time of one.
            await trio.sleep(_within_step.uniform(0, WITHIN_S))
        started = trio.current_time()
        async with Connection(port=server.port) as other:
            _, answer = await other.request("POST", "/api/cancel", {"session_id": body["session_id"]})
        if not json.loads(answer)["cancelled"]:
            raise RuntimeError(f"there was nothing to cancel: {answer!r}")
        async for line in lines:
            if line == b"data: [DONE]":
                return (trio.current_time() - started) * 1000
    raise RuntimeError("the stream did not end")


async def _left(server: BenchServer, number: int) -> float:
    async with Connection(port=server.port) as watcher, watcher.stream("/api/events") as events:
        async with (
            Connection(port=server.port) as connection,
            connection.stream("/v1/chat/completions", _request("leave", number)) as lines,
        ):
            await _wait_decode(lines)
            started = trio.current_time()
        async for line in events:
            event = data_of(line)
            # The stream begins with older states: it is idle only once it was busy.
            if event and event["worker"]["state"] == "busy":
                break
        async for line in events:
            event = data_of(line)
            if event and event["worker"]["state"] == "ready":
                return (trio.current_time() - started) * 1000
    raise RuntimeError("the events ended")


async def measure_cancel(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the budgets hold."""
    rows: list[list[str]] = []
    fine = True
    for phase, budget in BUDGET_MS.items():
        values = [
            await (_left(server, number) if phase == "leave" else _cancelled(server, phase, number, rounds))
            for number in range(rounds)
        ]
        p99 = percentile(values, 0.99)
        fine &= p99 <= budget
        rows.append([phase, f"{percentile(values, 0.5):.1f}", f"{p99:.1f}", f"{max(values):.1f}", f"{budget:.0f}"])
    text = table(["cancel to idle", "p50 ms", "p99 ms", "max ms", "budget p99"], rows)
    return f"{text}\n{rounds} cancels a phase: {'holds' if fine else 'BROKEN'}", fine
