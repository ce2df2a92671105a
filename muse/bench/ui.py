"""`muse bench ui`: does the page stay quick while the model works flat out?

Clients generate without pause; meanwhile health, page, a script and the runtime state are fetched one
after the other on a connection of their own. Budget (design section 11): p99 at most 20 ms.
"""

from __future__ import annotations

import trio

from muse.bench.client import Connection
from muse.bench.server import BenchServer
from muse.bench.table import percentile, table

PATHS = ("/health", "/", "/app.js", "/api/runtime")
BUDGET_P99_MS = 20.0
WARM_UP_CHUNKS = 50
PROMPT = "Write a long story about a lighthouse keeper and the sea."


async def _generate(server: BenchServer, counts: list[int], decoding: trio.Event) -> None:
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 256, "stream": True}
    while True:
        async with (
            Connection(port=server.port) as connection,
            connection.stream("/v1/chat/completions", body) as lines,
        ):
            async for line in lines:
                counts[0] += line.startswith(b"data: {")
                if counts[0] == WARM_UP_CHUNKS:
                    decoding.set()


async def measure_ui(server: BenchServer, *, clients: int, requests: int) -> tuple[str, bool]:
    """The table, and whether the budget holds."""
    samples: dict[str, list[float]] = {path: [] for path in PATHS}
    chunks = [0]
    decoding = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(_generate, server, chunks, decoding)
        await decoding.wait()
        started, before = trio.current_time(), chunks[0]
        async with Connection(port=server.port) as connection:
            for _ in range(requests):
                for path in PATHS:
                    start = trio.current_time()
                    status, _ = await connection.request("GET", path)
                    samples[path].append((trio.current_time() - start) * 1000)
                    if status != 200:
                        raise RuntimeError(f"{path} answered {status}")
                    await trio.sleep(0.005)
        rate = (chunks[0] - before) / (trio.current_time() - started)
        nursery.cancel_scope.cancel()
    rows = [
        [path, *(f"{percentile(values, share):.2f}" for share in (0.5, 0.9, 0.99)), f"{max(values):.2f}"]
        for path, values in samples.items()
    ]
    fine = all(percentile(values, 0.99) <= BUDGET_P99_MS for values in samples.values())
    text = table(["while generating", "p50 ms", "p90 ms", "p99 ms", "max ms"], rows)
    text += (
        f"\n{clients} clients, {rate:.0f} chunks/s in all, {requests} requests a path; "
        f"budget p99 {BUDGET_P99_MS:.0f} ms: {'holds' if fine else 'BROKEN'}"
    )
    return text, fine
