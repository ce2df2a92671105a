"""`muse bench prefill`: what do small steps cost in prefill speed?

We hand a prompt to the engine in steps, so that a cancel need not wait (prefill_step.py in the worker). The
baseline is a direct client of the engine's own inner server that sends the whole prompt at once, which is
then evaluated in batches of 512: in the same run, in turns, prompts of the same length. Time is that until a
whole answer of one token is there. Budget: at least 0.95 of the speed.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import trio

from muse.bench.client import Connection
from muse.bench.server import BenchServer
from muse.bench.table import table
from muse.bench.tax import inner_socket, rendered_prompt

BUDGET_RATIO = 0.95
LENGTHS = (1500, 4000)
_WORDS = "a lighthouse on a rock "  # five tokens


def _question(number: int, tokens: int) -> str:
    # Another beginning each time, so that nothing of an earlier prompt can be used again.
    return f"{number}. " + _WORDS * (tokens // 5)


async def _served(server: BenchServer, question: str) -> tuple[float, int]:
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 1}
    async with Connection(port=server.port) as connection:
        started = trio.current_time()
        _, answer = await connection.request("POST", "/v1/chat/completions", body)
        seconds = trio.current_time() - started
    return seconds, int(json.loads(answer)["usage"]["prompt_tokens"])


async def _direct(socket_path: str, prompt: str) -> tuple[float, int]:
    body: dict[str, Any] = {"prompt": prompt, "n_predict": 1, "cache_prompt": False, "temperature": 0}
    async with Connection(unix_path=socket_path) as connection:
        started = trio.current_time()
        _, answer = await connection.request("POST", "/completion", body)
        seconds = trio.current_time() - started
    return seconds, int(json.loads(answer)["timings"]["prompt_n"])


async def measure_prefill(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the budget holds."""
    socket_path = inner_socket(server.home)
    number = 0
    rows: list[list[str]] = []
    fine = True
    for length in LENGTHS:
        served: list[float] = []
        direct: list[float] = []
        for _ in range(rounds):
            for way in ("served", "direct") if number % 4 else ("direct", "served"):
                number += 1
                question = _question(number, length)
                if way == "served":
                    seconds, tokens = await _served(server, question)
                    served.append(tokens / seconds)
                else:
                    seconds, tokens = await _direct(socket_path, await rendered_prompt(socket_path, question))
                    direct.append(tokens / seconds)
        ratio = statistics.median(served) / statistics.median(direct)
        fine &= ratio >= BUDGET_RATIO
        rows.append(
            [f"{length}", f"{statistics.median(direct):.1f}", f"{statistics.median(served):.1f}", f"{ratio:.3f}"]
        )
    text = table(["prompt tokens", "direct, at once, tokens/s", "through HTTP, in steps", "ratio"], rows)
    return f"{text}\n{rounds} pairs each; budget {BUDGET_RATIO}: {'holds' if fine else 'BROKEN'}", fine
