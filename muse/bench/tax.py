"""`muse bench tax`: what does our server cost in decode speed?

The baseline is a direct client of the engine's own inner server, on its socket, in the same run and
process: the same prompt, the same sampling, the same slot count, measured in turns. Speed is tokens after
the first, by the time between the first and the last piece, at the client. Budget: at least 0.97.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import trio

from muse.bench.client import Connection, data_of
from muse.bench.server import BenchServer
from muse.bench.table import table

BUDGET_RATIO = 0.97
QUESTION = "Write a long story about a lighthouse keeper and the sea."


def inner_socket(home: Path) -> str:
    """The socket of the one engine that a server with this folder runs."""
    found = [path for path in home.glob("run/**/*.sock") if path.is_socket()]
    if len(found) != 1:
        raise RuntimeError(f"expected one inner socket below {home / 'run'}, found {len(found)}")
    return str(found[0])


async def _served(server: BenchServer, tokens: int) -> float:
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": tokens, "stream": True}
    times: list[float] = []
    counted = 0
    async with (
        Connection(port=server.port) as connection,
        connection.stream("/v1/chat/completions", body) as lines,
    ):
        async for line in lines:
            chunk = data_of(line)
            if chunk is None:
                continue
            if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
                times.append(trio.current_time())
            counted = chunk.get("muse_metrics", {}).get("completion_tokens", counted)
    return (counted - 1) / (times[-1] - times[0])


async def _direct(socket_path: str, prompt: str, tokens: int) -> float:
    body = {
        "prompt": prompt,
        "n_predict": tokens,
        "stream": True,
        "cache_prompt": True,
        "temperature": 0,
        "return_tokens": True,
    }
    times: list[float] = []
    counted = 0
    async with Connection(unix_path=socket_path) as connection, connection.stream("/completion", body) as lines:
        async for line in lines:
            piece = data_of(line) or {}
            if piece.get("content"):
                times.append(trio.current_time())
            if piece.get("stop"):
                counted = int(piece["tokens_predicted"])
    return (counted - 1) / (times[-1] - times[0])


async def rendered_prompt(socket_path: str, question: str) -> str:
    """A question in the template of the engine itself."""
    async with Connection(unix_path=socket_path) as connection:
        body = {"messages": [{"role": "user", "content": question}]}
        _, answer = await connection.request("POST", "/apply-template", body)
    return str(json.loads(answer)["prompt"])


async def measure_tax(server: BenchServer, *, rounds: int, tokens: int) -> tuple[str, bool]:
    """The table, and whether the budget holds."""
    socket_path = inner_socket(server.home)
    prompt = await rendered_prompt(socket_path, QUESTION)
    await _served(server, tokens)  # warm-up of both ways, discarded
    await _direct(socket_path, prompt, tokens)
    served: list[float] = []
    direct: list[float] = []
    for number in range(rounds):
        # Alternate which goes first: a machine that warms up or slows down must not favour one.
        for way in ("served", "direct") if number % 2 else ("direct", "served"):
            if way == "served":
                served.append(await _served(server, tokens))
            else:
                direct.append(await _direct(socket_path, prompt, tokens))
    ratio = statistics.median(a / b for a, b in zip(served, direct, strict=True))
    rows = [
        [name, f"{statistics.median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}"]
        for name, rates in (("direct, inner socket", direct), ("through HTTP", served))
    ]
    text = table(["decode, tokens/s", "median", "min", "max"], rows)
    fine = ratio >= BUDGET_RATIO
    text += (
        f"\nratio {ratio:.3f} (median of {rounds} pairs, {tokens} tokens each); "
        f"budget {BUDGET_RATIO}: {'holds' if fine else 'BROKEN'}"
    )
    return text, fine
