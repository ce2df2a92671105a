"""Crowds over real sockets: clients that leave at random, readers that are slow, and a death in between."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from muse.bench.client import Connection, data_of
from muse.settings import Limits
from tests.faults.catalog import TEXT, WORDS
from tests.faults.server import read_stream, whole
from tests.faults.soak import open_descriptors
from tests.faults.test_leaving import (
    CHAT,
    Running,
    leave,
    open_request,
    question,
    whole_system,
    worker_pid,
)

pytestmark = pytest.mark.thorough

CLIENTS = 200
SLOW_READERS = 8
WORD_COUNT = 3000
ANSWER = {"when": "who", "tokens": WORDS, "token_ms": 1}
BIG: dict[str, Any] = {"when": "big", "tokens": {"repeat": ["word "], "count": WORD_COUNT}}


async def a_client(running: Running, number: int, leaves_after: int | None, wholes: list[int]) -> None:
    """Ask; read all, or leave after so many bytes (0: before anything came), in order or by a reset."""
    if leaves_after is None:
        async with Connection(port=running.port) as connection:
            async with connection.stream(CHAT, question(f"who {number}", stream=True)) as lines:
                seen = read_stream(iter([line.decode() async for line in lines]))
        assert whole(seen), seen
        wholes.append(number)
        return
    stream = await open_request(running.port, f"who {number}")
    read = 0
    while read < leaves_after and (chunk := await stream.receive_some(256)):
        read += len(chunk)
    await leave(stream, abruptly=bool(number % 2))


async def test_half_of_200_clients_leave(tmp_path: Path) -> None:
    """All at once, half of them leave at a random place: the other half has its whole answers, and afterwards
    nothing is left of them: no turn, no descriptor."""
    chance = random.Random(1)
    async with whole_system({"answers": [ANSWER, {"tokens": WORDS}]}, tmp_path, Limits(queue=CLIENTS)) as running:
        await running.wait_idle()
        assert await running.ask("hi") == TEXT
        descriptors = open_descriptors()
        leavers = set(chance.sample(range(CLIENTS), CLIENTS // 2))
        wholes: list[int] = []
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                place = chance.choice([0, chance.randrange(3000)]) if number in leavers else None
                nursery.start_soon(a_client, running, number, place, wholes)
        assert sorted(wholes) == sorted(set(range(CLIENTS)) - leavers)
        await running.wait_idle()
        assert await running.ask("hi") == TEXT
        await trio.testing.wait_all_tasks_blocked(0.05)  # the server's side of closed connections ends by itself
        assert open_descriptors() <= descriptors
        assert running.system.board.value.worker.epoch == 1


async def a_slow_reader(running: Running, may_read: trio.Event) -> None:
    """Open a stream, read nothing of it until told to, then all of it."""
    async with (
        Connection(port=running.port) as connection,
        connection.stream(CHAT, question("big", stream=True)) as lines,
    ):
        await may_read.wait()
        chunks = [chunk async for line in lines if (chunk := data_of(line))]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == "word " * WORD_COUNT
    assert sum("muse_metrics" in chunk for chunk in chunks) == 1


async def test_slow_readers_and_a_death(tmp_path: Path) -> None:
    """Readers that read nothing while the worker dies under them: the queue moves on without them, and each
    finds its whole answer when it reads at last."""
    async with whole_system({"answers": [BIG, {"tokens": WORDS}]}, tmp_path) as running:
        await running.wait_idle()
        may_read = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(SLOW_READERS):
                nursery.start_soon(a_slow_reader, running, may_read)
            await running.wait(lambda s: s.worker.state == "busy")
            os.kill(worker_pid(running), signal.SIGKILL)
            await running.wait(lambda s: s.worker.epoch == 2)
            await running.wait_idle()
            assert await running.ask("hi") == TEXT
            may_read.set()
        await running.wait_idle()
