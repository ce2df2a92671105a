"""Invariant: what arrived while this process stood still (stopped, swapped out) is read before anybody is judged.

The process "stands still" here because the test blocks its only thread.
"""

from __future__ import annotations

import os
import time

import attrs
import pytest
import trio.testing

from actors.front.lateness import LATE_S
from tests.front.harness import PATIENT, Client, Front, running

CLIENTS = 40
LIMIT_S = 1.0


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.parametrize("beyond_s", [0.1, LATE_S + 0.3], ids=["just over the limit", "long"])
async def test_requests_sent_meanwhile_are_answered(beyond_s: float) -> None:
    """Connections open before, whole requests sent meanwhile, every deadline passed: an answer for each."""
    async with running(attrs.evolve(PATIENT, header_s=LIMIT_S)) as front:
        clients = [await front.connect() for _ in range(CLIENTS)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        request = clients[0].head("GET", "/health")
        for client in clients:
            assert os.write(client.stream.socket.fileno(), request) == len(request)
        stand_still(LIMIT_S + beyond_s)
        answers = [await client.read_until(b"}") for client in clients]
        for client in clients:
            client.stream.socket.close()
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 200 "] * CLIENTS


async def uploading(front: Front, client: Client) -> None:
    await client.send(client.head("POST", "/size", "Content-Type: application/json", "Content-Length: 3") + b"[")
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_a_body_sent_meanwhile_is_taken() -> None:
    """Its silence was ours."""
    async with running(attrs.evolve(PATIENT, body_stall_s=0.2)) as front, await front.connect() as client:
        await uploading(front, client)
        os.write(client.stream.socket.fileno(), b"1]")
        stand_still(0.2 + LATE_S + 0.2)
        assert (await client.read_until(b"}")).startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_said_nothing_meanwhile_has_its_time_again() -> None:
    """It may have stood still with us, as in a laptop's sleep."""
    async with running(attrs.evolve(PATIENT, header_s=LIMIT_S)) as front, await front.connect() as client:
        await client.send(client.head("GET", "/health")[:20])
        await trio.testing.wait_all_tasks_blocked(0.01)
        stand_still(LIMIT_S + LATE_S + 0.2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await client.send(client.head("GET", "/health")[20:])
        assert (await client.read_until(b"}")).startswith(b"HTTP/1.1 200 ")


async def test_a_reader_of_a_long_answer_is_not_cut_off() -> None:
    """The deadline of a write passed while it could not be written by us."""
    async with running(attrs.evolve(PATIENT, send_stall_s=0.2)) as front, await front.connect() as client:
        await client.send(client.head("GET", "/big", "Connection: close"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        stand_still(0.2 + LATE_S + 0.2)
        assert len(await client.read_all()) > 20_000_000
