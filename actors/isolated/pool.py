"""IsolatedProcesses: runs isolated jobs, each in a process that has no other job.

One process is always there, warm. While jobs wait because others are long, up to MAX_PROCESSES are started, so that one
hostile job does not hold up the next; those beyond the first end when they are idle. A process that was killed, or that
ended, is replaced at once. A start that fails (no memory, no process, no descriptor) is tried again after a pause, and
calls get 503 meanwhile.

States of a process: starting -> warming up -> idle <-> in a call -> ended.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import attrs
import trio

from actors.isolated.process import IsolatedProcess, JobLost
from muse.errors import MuseError, Unavailable

log = logging.getLogger("muse.isolated")

MAX_PROCESSES: Final = 3
"""One with a long job, another, and one for everybody else; together they have at most 1.5 GiB."""
MAX_WAITING: Final = 64
"""Calls that wait for a process; more than the turns that may wait for the model."""
GROW_AFTER_S: Final = 0.1
"""A call that waited so long for a process gets another one started. Common jobs take a few milliseconds."""
BACK_OFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses after starts that failed one after another, the last one for all further ones."""
RETRY_AFTER_S: Final = 2
_STARTED_WELL_S: Final = 10.0


@attrs.define(eq=False)
class _Waiter:
    event: trio.Event = attrs.field(factory=trio.Event)
    process: IsolatedProcess | None = None
    """What it got; None: there is none to be had."""


class IsolatedProcesses:
    """The processes for the jobs of one module. `run` it for as long as calls are made."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._warm_up: tuple[str, bytes, float] | None = None
        self._idle: list[IsolatedProcess] = []
        self._waiting: deque[_Waiter] = deque()
        self._keepers = 0
        self._ready = 0
        self._start_fails = False
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep processes until cancelled; then none is left."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._grow()
            task_status.started()

    def warm_up_with(self, job: str, payload: bytes, *, limit_s: float) -> None:
        """From now on each new process does this job first. Forgotten if a process is lost in it."""
        self._warm_up = (job, payload, limit_s)

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes:
        """The result of a job of the module. Seconds are counted from when a process begins with it.

        Raises the MuseError that the job raised; Unavailable when no process can be had; JobLost when it went beyond
        `limit_s` or the memory limit, or crashed its process twice (a process that was ended from outside costs one
        try). Cancelled: the job goes no further.
        """
        try:
            return await self._call(job, payload, limit_s)
        except JobLost as lost:
            if lost.reason != "crash":
                raise
        return await self._call(job, payload, limit_s)

    async def _call(self, job: str, payload: bytes, limit_s: float) -> bytes:
        process = await self._take()
        try:
            return await process.call(job, payload, limit_s)
        except JobLost as lost:
            log.warning("job-lost job=%s reason=%s", job, lost.reason)
            raise
        finally:
            self._offer(process)

    # ------------------------------------------------------------ who gets a process

    async def _take(self) -> IsolatedProcess:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
        if (self._start_fails and not self._ready) or len(self._waiting) >= MAX_WAITING:
            raise self._none_to_be_had()
        waiter = _Waiter()
        self._waiting.append(waiter)
        try:
            while not waiter.event.is_set():
                with trio.move_on_after(GROW_AFTER_S) as scope:
                    await waiter.event.wait()
                if scope.cancelled_caught and self._ready == self._keepers:  # none is being started
                    self._grow()
        except trio.Cancelled:
            if waiter.process is not None:
                self._offer(waiter.process)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        if waiter.process is None:
            raise self._none_to_be_had()
        return waiter.process

    def _offer(self, process: IsolatedProcess) -> None:
        """A process is free, if it still lives."""
        if not process.is_usable:
            return
        if self._waiting:
            waiter = self._waiting.popleft()
            waiter.process = process
            waiter.event.set()
        elif self._idle:
            process.kill()  # one is enough while nobody waits
        else:
            self._idle.append(process)

    def _none_to_be_had(self) -> Unavailable:
        return Unavailable(
            "no_process",
            "This server could not start a helper process that the request needs: the system has no room for one "
            "(processes, memory or open files). Close other programs, or try again.",
            retry_after_s=RETRY_AFTER_S,
        )

    # ------------------------------------------------------------ keeping processes

    def _grow(self) -> None:
        if self._keepers < MAX_PROCESSES and self._nursery is not None:
            self._keepers += 1
            self._nursery.start_soon(self._keep)

    async def _keep(self) -> None:
        """Start a process and replace it when it ends, as long as it is needed."""
        failures = 0
        try:
            while True:
                if await self._serve():
                    failures = 0
                else:
                    pause_s = BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)]
                    failures += 1
                    await trio.sleep(pause_s)
                if self._keepers > 1 and not self._waiting:
                    return
        finally:
            self._keepers -= 1

    async def _serve(self) -> bool:
        """The life of one process. False: it could not be started, or ended at once with nothing done."""
        try:
            process = await IsolatedProcess.open(self._module)
        except (OSError, RuntimeError) as fault:
            log.warning("isolated-not-started reason=%s", fault)
            self._start_failed()
            return False
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._begin, process)
            await process.watch()
            nursery.cancel_scope.cancel()
        if process in self._idle:
            self._idle.remove(process)
        return process.calls > 0 or trio.current_time() - started > _STARTED_WELL_S

    async def _begin(self, process: IsolatedProcess) -> None:
        """Bring a new process to its first job."""
        try:
            await process.wait_ready()
        except JobLost as lost:
            log.warning("isolated-not-started reason=%s", lost.words)
            self._start_failed()
            return
        self._start_fails = False
        self._ready += 1
        try:
            await self._warm(process)
            self._offer(process)
            await trio.sleep_forever()
        finally:
            self._ready -= 1

    async def _warm(self, process: IsolatedProcess) -> None:
        if self._warm_up is None:
            return
        (job, payload, limit_s) = warm_up = self._warm_up
        try:
            await process.call(job, payload, limit_s)
        except JobLost as lost:
            log.warning("warm-up-lost job=%s reason=%s", job, lost.reason)
            if self._warm_up is warm_up:
                self._warm_up = None
        except MuseError:
            pass  # the same as for a caller, who will be told

    def _start_failed(self) -> None:
        self._start_fails = True
        if self._ready:
            return  # those that wait get one of the others
        while self._waiting:
            self._waiting.popleft().event.set()
