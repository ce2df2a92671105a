"""Isolated processes: whatever a job does, its caller gets one clear outcome, and the next job works."""

from __future__ import annotations

import errno
import json
import logging
import os
import resource
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing

from actors.isolated import pool, usage
from actors.isolated.pool import IsolatedProcesses
from actors.isolated.process import JobLost
from muse.errors import ClientFault, InternalFault, Unavailable
from tests.server_process import isolated_of

HANG_GUARD_S = 60
LIMIT_S = 20.0


@asynccontextmanager
async def running(module: str = "tests.isolated.jobs") -> AsyncIterator[IsolatedProcesses]:
    processes = IsolatedProcesses(module)
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(processes.run)
            yield processes
            nursery.cancel_scope.cancel()


async def pid_of(processes: IsolatedProcesses) -> int:
    return int(await processes.call("pid", b"", limit_s=LIMIT_S))


async def wait_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def test_jobs_run_in_one_process_that_stays_warm() -> None:
    """Bytes go there and back, large ones too; output of the job reaches nobody."""
    async with running() as processes:
        first = await pid_of(processes)
        assert await processes.call("echo", b"", limit_s=LIMIT_S) == b""
        large = os.urandom(1024) * 3000
        assert await processes.call("echo", large, limit_s=LIMIT_S) == large
        assert await processes.call("complain", b"", limit_s=LIMIT_S) == b"said"
        assert await pid_of(processes) == first
    await wait_gone(first)


@pytest.mark.parametrize(
    ("job", "limit_s", "reason"),
    [
        ("hold_interpreter", 0.3, "time"),
        ("burn", 0.3, "time"),
        ("grow", LIMIT_S, "memory"),
        ("crash", LIMIT_S, "crash"),
        ("garbage", LIMIT_S, "crash"),
    ],
)
async def test_a_hostile_job_is_ended(job: str, limit_s: float, reason: str) -> None:
    """Its caller is told why, its process is gone, and the next job works."""
    async with running() as processes:
        first = await pid_of(processes)
        with pytest.raises(JobLost) as caught:
            await processes.call(job, b"60", limit_s=limit_s)
        assert caught.value.reason == reason
        await wait_gone(first)
        assert await pid_of(processes) != first


async def test_one_huge_allocation_is_refused_where_the_system_can() -> None:
    """More than the address space in one operation, before anybody could look at the memory."""
    async with running() as processes:
        with pytest.raises(JobLost) as caught:
            await processes.call("allocate", str(10**10).encode(), limit_s=LIMIT_S)
        assert caught.value.reason == "memory"


async def test_errors_of_a_job_come_back_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    """All fields of ours; anything else is a fault of the server that tells nothing of the job."""
    async with running() as processes:
        with pytest.raises(ClientFault) as refused:
            await processes.call("refuse", b"", limit_s=LIMIT_S)
        fault = refused.value
        assert (fault.code, fault.detail, fault.status) == ("no", "Not like this.", 409)
        assert (fault.param, fault.retry_after_s, fault.data) == ("messages[1]", 3, {"n": 2, "s": None})
        with pytest.raises(InternalFault):
            await processes.call("fail", b"secret", limit_s=LIMIT_S)
    assert "jobs.py" in caplog.text
    assert "secret" not in caplog.text


async def test_the_system_ends_what_nobody_else_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has a bounded processor time, however many there were before, and a crash writes no core file."""
    for name in ("LONG_S", "LONG_IDLE_S"):
        monkeypatch.setattr(pool, name, HANG_GUARD_S)  # a process that had a long job is replaced
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    async with running() as processes:
        first = await pid_of(processes)
        for _ in range(3):
            left_s, core_bytes = json.loads(await processes.call("limits", b"", limit_s=LIMIT_S))
            assert 58 < left_s <= 60
            assert core_bytes == 0
            await processes.call("burn", b"1.1", limit_s=LIMIT_S)
        assert await pid_of(processes) == first


def test_usage_is_told_the_same_by_proc_and_ps() -> None:
    """macOS has no /proc."""
    theirs = usage._from_ps(os.getpid())
    ours = usage._from_proc(os.getpid())
    assert ours is not None
    assert theirs is not None
    assert 0.5 < ours.resident_bytes / theirs.resident_bytes < 2
    assert theirs.processor_s <= ours.processor_s <= time.process_time() + 0.02
    assert usage._from_ps(2**22 + 1) is None
    assert usage._from_proc(2**22 + 1) is None


def test_processor_time_of_ps_is_read_in_all_its_forms() -> None:
    """Linux writes hours and days, macOS hundredths."""
    assert [usage._seconds(text) for text in ("00:01:02", "1-02:03:04", "0:00.25", "61:01.50")] == [
        62, 93784, 0.25, 3661.5,
    ]  # fmt: skip


async def test_memory_that_is_kept_costs_the_process() -> None:
    """It gives its answer, and the next job has a fresh one."""
    async with running() as processes:
        first = await pid_of(processes)
        assert len(await processes.call("keep", str(90 * 1024 * 1024).encode(), limit_s=LIMIT_S)) == 0
        assert await pid_of(processes) != first


async def test_a_process_ended_from_outside_costs_nobody_a_job() -> None:
    """Between two jobs and in the middle of one."""
    async with running() as processes:
        os.kill(await pid_of(processes), signal.SIGKILL)
        assert await processes.call("echo", b"again", limit_s=LIMIT_S) == b"again"
        pid = await pid_of(processes)
        async with trio.open_nursery() as nursery:

            async def kill() -> None:
                await trio.sleep(0.1)
                os.kill(pid, signal.SIGKILL)

            nursery.start_soon(kill)
            assert await processes.call("sleep", b"0.3", limit_s=LIMIT_S) == b"0.3"


@pytest.mark.parametrize("job", ["hold_interpreter", "stop"])
async def test_long_jobs_do_not_hold_up_the_others(job: str) -> None:
    """However many there are: a process is kept free for the next call. Later one process is left, as before."""
    others = set(isolated_of(os.getpid()))  # of servers that other tests share
    async with running() as processes:
        async with trio.open_nursery() as nursery:
            for _ in range(2 * pool.MAX_PROCESSES):
                nursery.start_soon(lambda: processes.call(job, b"", limit_s=10 * HANG_GUARD_S))
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                assert await processes.call("echo", b"x", limit_s=LIMIT_S) == b"x"
            nursery.cancel_scope.cancel()
        await processes.call("echo", b"x", limit_s=LIMIT_S)
        while len(left := set(isolated_of(os.getpid())) - others) > 2:  # a guard and its process
            await trio.sleep(0.01)
        assert await pid_of(processes) in left


async def test_long_jobs_are_done_however_many_there_are() -> None:
    """Those that were displaced begin again, and then keep their process to the end."""
    results: list[bytes] = []
    async with running() as processes:

        async def burn() -> None:
            results.append(await processes.call("burn", b"0.5", limit_s=LIMIT_S))

        async with trio.open_nursery() as nursery:
            for _ in range(pool.MAX_PROCESSES + 1):
                nursery.start_soon(burn)
    assert results == [b""] * (pool.MAX_PROCESSES + 1)


async def test_two_long_jobs_are_not_displaced(caplog: pytest.LogCaptureFixture) -> None:
    """A process that warms up is free soon: there is room for the next call without either of them."""
    caplog.set_level(logging.WARNING, "muse.isolated")
    async with running() as processes:
        await pid_of(processes)
        processes.warm_up_with("sleep", b"0.5", limit_s=LIMIT_S)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(lambda: processes.call("burn", b"2", limit_s=LIMIT_S))
    assert caplog.messages == []


async def test_a_cancelled_job_goes_no_further() -> None:
    """Nobody waits for it, so its process is killed."""
    async with running() as processes:
        first = await pid_of(processes)
        with trio.move_on_after(0.1):
            await processes.call("hold_interpreter", b"", limit_s=LIMIT_S)
        await wait_gone(first)
        assert await pid_of(processes) != first


async def test_absence_of_ours_ends_no_job() -> None:
    """This process did not run for longer than the limit (stopped, or the machine slept): the answer that waits is
    read before anybody is judged."""
    async with running() as processes:
        await pid_of(processes)
        async with trio.open_nursery() as nursery:

            async def be_absent() -> None:
                await trio.sleep(0.1)
                time.sleep(1.0)  # nothing here runs meanwhile

            nursery.start_soon(be_absent)
            assert await processes.call("sleep", b"0.3", limit_s=0.5) == b"0.3"


@pytest.mark.parametrize(
    "fault", [BlockingIOError(errno.EAGAIN, "fork"), OSError(errno.EMFILE, "pipe"), RuntimeError()]
)
async def test_a_start_that_fails_is_tried_again(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no process can be had, calls get 503 with Retry-After; then all is well."""
    room = False
    tries = 0
    real = trio.lowlevel.open_process

    async def open_process(*arguments: Any, **options: Any) -> trio.Process:
        nonlocal tries
        tries += 1
        await trio.lowlevel.checkpoint()
        if not room:
            raise fault
        return await real(*arguments, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    monkeypatch.setattr(pool, "BACK_OFF_S", (0.05,))
    async with running() as processes:
        for _ in range(2):
            with pytest.raises(Unavailable) as caught:
                await processes.call("echo", b"x", limit_s=LIMIT_S)
            assert (caught.value.code, caught.value.status) == ("no_process", 503)
            assert caught.value.retry_after_s is not None
        while tries < 3:
            await trio.sleep(0.01)
        room = True
        while True:
            with suppress(Unavailable):
                assert await processes.call("echo", b"x", limit_s=LIMIT_S) == b"x"
                return
            await trio.sleep(0.01)


@pytest.mark.parametrize("killed", [1, 2])
async def test_killed_starts_cost_nobody_a_call(killed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are killed while they start are replaced at once: whoever waits gets the next."""
    starts = 0
    real = trio.lowlevel.open_process

    async def open_process(*arguments: Any, **options: Any) -> trio.Process:
        nonlocal starts
        starts += 1
        process = await real(*arguments, **options)
        if starts <= killed:
            os.killpg(process.pid, signal.SIGKILL)
        return process

    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    monkeypatch.setattr(pool, "BACK_OFF_S", (HANG_GUARD_S,))  # a pause would be noticed
    async with running() as processes:
        pids: list[int] = []

        async def call() -> None:
            pids.append(await pid_of(processes))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call)
        assert len(pids) == 5
        assert starts > killed


async def test_a_process_that_is_stopped_costs_nobody_a_job() -> None:
    """SIGSTOP is not the job's fault: another process does it. Twice: 503."""
    async with running() as processes:
        first = await pid_of(processes)
        os.kill(first, signal.SIGSTOP)
        assert await processes.call("echo", b"again", limit_s=0.1) == b"again"
        await wait_gone(first)
        with pytest.raises(Unavailable) as caught:
            await processes.call("stop", b"", limit_s=0.1)
        assert (caught.value.code, caught.value.status) == ("process_stalled", 503)
        assert await processes.call("echo", b"x", limit_s=LIMIT_S) == b"x"


async def test_the_time_of_a_job_is_processor_time() -> None:
    """One that gets none for longer than its limit is not ended for it."""
    async with running() as processes:
        assert await processes.call("sleep", b"0.7", limit_s=0.3) == b"0.7"


async def test_absence_of_both_ends_no_job() -> None:
    """The machine slept: a job that is not done yet has the rest of its time, and not what passed meanwhile."""
    async with running() as processes:
        pid = await pid_of(processes)
        async with trio.open_nursery() as nursery:

            async def be_absent() -> None:
                await trio.sleep(0.1)
                os.kill(pid, signal.SIGSTOP)
                time.sleep(2.6)
                os.kill(pid, signal.SIGCONT)

            nursery.start_soon(be_absent)
            assert await processes.call("burn", b"0.3", limit_s=2.5) == b""


async def test_a_process_that_ends_at_its_start_is_no_process() -> None:
    """The same as one that cannot be started."""
    async with running("tests.isolated.no_such_module") as processes:
        with pytest.raises(Unavailable):
            await processes.call("echo", b"x", limit_s=LIMIT_S)


async def test_a_lost_warm_up_is_not_tried_again() -> None:
    """Each new process begins with the last warm-up, but for one that cost a process."""
    async with running() as processes:
        processes.warm_up_with("hold_interpreter", b"", limit_s=0.2)
        os.kill(await pid_of(processes), signal.SIGKILL)
        pid = await pid_of(processes)
        assert await pid_of(processes) == pid


async def test_a_cancelled_call_in_the_queue_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is free, and the process goes to the next."""
    monkeypatch.setattr(pool, "MAX_PROCESSES", 1)
    monkeypatch.setattr(pool, "LONG_S", HANG_GUARD_S)
    async with running() as processes:
        first = await pid_of(processes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: processes.call("sleep", b"0.2", limit_s=LIMIT_S))
            await trio.sleep(0.05)
            with trio.move_on_after(0.05) as scope:
                await pid_of(processes)
            assert scope.cancelled_caught
            assert await pid_of(processes) == first
