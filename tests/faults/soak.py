"""Soak: many short requests, of which some meet a SIGKILL of the worker; what is left in the end is counted.

    python -m tests.faults.soak --requests 10000 --kills 0.01

Prints memory, descriptors, tasks, threads and child processes at the start (after a warm-up) and at the end;
status 1 if anything but memory grew, if memory grew by more than its budget, or if any answer was not right.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import sys
import tempfile
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import attrs
import trio
import trio.testing

from muse.bench.client import Connection
from tests.faults.catalog import TEXT, WORDS
from tests.faults.test_leaving import CHAT, Running, question, whole_system, worker_pid
from tests.server_process import children_of

WARM_UP: Final = 40
CLIENTS: Final = 4
SPACING: Final = 4 * CLIENTS
REQUESTS_A_CONNECTION: Final = 100
MEMORY_BUDGET_KIB: Final = 16 * 1024
"""For the whole run: the allocator's own coming and going, not a slope."""
SCRIPT: Final[dict[str, Any]] = {"answers": [{"tokens": WORDS, "token_ms": 0.2}]}


def open_descriptors() -> int:
    """How many descriptors this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@attrs.frozen(kw_only=True)
class Counts:
    """What a leak would show in. memory_kib: resident, of the main process."""

    memory_kib: int
    descriptors: int
    tasks: int
    threads: int
    processes: int

    @classmethod
    def now(cls, others: Collection[int]) -> Counts:
        """others: processes of this one that the soak did not start."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            memory_kib=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
            descriptors=open_descriptors(),
            tasks=trio.lowlevel.current_statistics().tasks_living,
            threads=threading.active_count(),
            processes=len(children_of(os.getpid(), without=others)),
        )


@attrs.define(kw_only=True)
class Result:
    """Of one soak. wrong: what answers were instead of right. resumed: answers that went on after a death."""

    start: Counts
    end: Counts
    requests: int
    kills: int
    resumed: int
    wrong: list[str]

    def faults(self) -> list[str]:
        """What is not as it has to be, in words."""
        found = [f"{len(self.wrong)} answers were not right: {self.wrong[:3]}"] if self.wrong else []
        for name in ("descriptors", "tasks", "processes"):
            before, after = getattr(self.start, name), getattr(self.end, name)
            if after > before:
                found.append(f"{name} grew from {before} to {after}")
        if self.end.memory_kib - self.start.memory_kib > MEMORY_BUDGET_KIB:
            found.append(f"memory grew by {self.end.memory_kib - self.start.memory_kib} KiB")
        return found

    def table(self) -> str:
        """The counts, for people."""
        names = [field.name for field in attrs.fields(Counts)]
        rows = [f"{name:<12}{getattr(self.start, name):>10}{getattr(self.end, name):>10}" for name in names]
        head = f"{self.requests} requests, {self.kills} kills, {self.resumed} answers resumed"
        return "\n".join([head, f"{'':<12}{'start':>10}{'end':>10}", *rows])


async def _ask(connection: Connection, result: Result) -> None:
    status, body = await connection.request("POST", CHAT, question("hi"))
    answer = json.loads(body)
    if status != 200 or answer["choices"][0]["message"]["content"] != TEXT:
        result.wrong.append(f"{status} {body[:200]!r}")
    else:
        result.resumed += answer["muse_metrics"]["resumed"]


async def _client(running: Running, places: list[bool], result: Result) -> None:
    """Take requests from the common list until it is empty; true: kill the worker meanwhile."""
    while places:
        async with Connection(port=running.port) as connection:
            for _ in range(REQUESTS_A_CONNECTION):
                if not places:
                    return
                async with trio.open_nursery() as nursery:
                    kill = places.pop()
                    nursery.start_soon(_ask, connection, result)
                    if kill:
                        await running.wait(lambda s: s.worker.state == "busy")
                        os.kill(worker_pid(running), signal.SIGKILL)
                        result.kills += 1


def _places(requests: int, kills: float, chance: random.Random) -> list[bool]:
    """Which requests meet a kill: far enough from each other that none meets two at the same place, which
    would rightly be called poison."""
    places: list[bool] = []
    for _ in range(requests):
        places.append(chance.random() < kills and not any(places[-SPACING:]))
    return places


async def _settled(running: Running, others: Collection[int]) -> Counts:
    await running.wait_idle()
    # Connections that their clients closed are ended by the server's own tasks, which then end too.
    await trio.testing.wait_all_tasks_blocked(0.05)
    return Counts.now(others)


async def soak(requests: int, kills: float, folder: Path, *, seed: int = 1, guard_s: float = 36000.0) -> Result:
    """Run it. kills: the part of requests that meet a kill."""
    places = _places(requests, kills, random.Random(seed))
    others = children_of(os.getpid())
    async with whole_system(SCRIPT, folder, guard_s=guard_s) as running:
        await running.wait_idle()
        nothing = Counts.now(others)
        warm = Result(start=nothing, end=nothing, requests=0, kills=0, resumed=0, wrong=[])
        await _run_clients(running, [number == WARM_UP // 2 for number in range(WARM_UP)], warm)
        start = await _settled(running, others)
        result = Result(start=start, end=start, requests=requests, kills=0, resumed=0, wrong=[])
        await _run_clients(running, places, result)
        result.end = await _settled(running, others)
    return result


async def _run_clients(running: Running, places: list[bool], result: Result) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(_client, running, places, result)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Many short requests with some kills; counts what is left.")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=float, default=0.01, help="part of the requests that meet a kill")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muse-soak-") as folder:
        result = trio.run(lambda: soak(options.requests, options.kills, Path(folder), seed=options.seed))
    print(result.table())
    faults = result.faults()
    print("\n".join(faults) or "flat")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
