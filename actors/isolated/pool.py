"""IsolatedProcesses: runs isolated jobs, each in a process that has no other job.

One process is always there, warm. Others are started while calls wait, up to MAX_PROCESSES; those beyond the first end
when they are idle. A long job never holds up the others: while one runs, a process is kept free for the next call.
Where there are MAX_PROCESSES already, a long job is displaced: its process is killed, and it begins again when fewer
than UNDISTURBED such jobs run; then it keeps its process to its end.

A process that was killed, or that ended, is replaced at once, also one that was still starting: calls wait for the
next. When STARTS in a row came to nothing, or the system refuses a process (no memory, no process, no descriptor),
calls get 503 until a start succeeds, and the next try comes after a pause.

States of a process: starting -> warming up -> idle <-> in a call -> ended.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Literal

import attrs
import trio

from actors.isolated.process import IsolatedProcess, JobLost
from muse.errors import MuseError, Unavailable
from muse.exhaustion import explain, is_exhaustion, reason_of

log = logging.getLogger("muse.isolated")

MAX_PROCESSES: Final = 3
"""An undisturbed job, another, and one for everybody else; together they have at most 1.5 GiB."""
UNDISTURBED: Final = 1
"""Displaced jobs that run again at the same time. At most MAX_PROCESSES - 2: there must be a job to displace."""
GROW_AFTER_S: Final = 0.1
"""Calls that waited so long for a process get others started. Common jobs take a few milliseconds."""
LONG_S: Final = 0.25
"""A job is long once it has used so much processor time, as for a prompt of 2 million characters."""
LONG_IDLE_S: Final = 1.0
"""So is one that got none for so long: its process was stopped."""
STARTS: Final = 3
"""One killed or crashed start may be bad luck; so many in a row are a fault that callers must hear of."""
BACK_OFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses after STARTS failures in a row, or a refusal; the last one for all further ones."""
_STARTED_WELL_S: Final = 10.0

_End = Literal["used", "unused", "not_started", "refused"]
"""How a process ended: after jobs or a good while; at once, with nothing done; before it was ready; the system gave
none."""


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
        self._in_use = 0
        self._start_fails = False
        self._why_none = ""
        self._undisturbed = trio.Semaphore(UNDISTURBED)
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

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytearray:
        """The result of a job of the module. Seconds are counted from when a process begins with it.

        Raises the MuseError that the job raised; Unavailable when no process can be had, or the job stalled twice;
        JobLost when it used more than `limit_s` of processor time or went beyond the memory limit, or crashed its
        process twice (a process that was stopped or ended from outside costs one try). Cancelled: the job goes no
        further.
        """
        try:
            return await self._call(job, payload, limit_s)
        except JobLost as lost:
            if lost.reason not in ("crash", "stall"):
                raise
        try:
            return await self._call(job, payload, limit_s)
        except JobLost as lost:
            if lost.reason != "stall":
                raise
            raise Unavailable(
                "process_stalled",
                f"A helper process that the request needs {lost.words}, twice: it was stopped, or this machine is too "
                "busy. Try again.",
            ) from None

    async def _call(self, job: str, payload: bytes, limit_s: float) -> bytearray:
        """As `call`, without another try after a crash or a stall."""
        try:
            return await self._run_job(job, payload, limit_s, displaceable=True)
        except JobLost as lost:
            if lost.reason != "displaced":
                raise
        async with self._undisturbed:
            return await self._run_job(job, payload, limit_s, displaceable=False)

    async def _run_job(self, job: str, payload: bytes, limit_s: float, *, displaceable: bool) -> bytearray:
        def is_displaced(used_s: float, idle_s: float) -> bool:
            if used_s <= LONG_S and idle_s <= LONG_IDLE_S:
                return False
            process.lower_priority()
            return not self._has_room() and displaceable

        process = await self._take()
        try:
            return await process.call(job, payload, limit_s, is_displaced)
        except JobLost as lost:
            log.warning("job-lost job=%s reason=%s", job, lost.reason)
            raise
        finally:
            self._give_back(process)

    def _has_room(self) -> bool:
        """See to a process for the next call, behind those that wait. False: there can be none while all are in use."""
        if len(self._idle) + self._coming > len(self._waiting):
            return True
        if self._keepers == MAX_PROCESSES:
            return False
        self._grow()
        return True

    @property
    def _coming(self) -> int:
        """Processes that will be free by themselves: they start, warm up, or take the place of one that was killed."""
        return self._keepers - self._in_use - len(self._idle)

    # ------------------------------------------------------------ who gets a process

    async def _take(self) -> IsolatedProcess:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                self._in_use += 1
                return process
        if self._start_fails and not self._ready:
            raise self._none_to_be_had()
        waiter = _Waiter()
        self._waiting.append(waiter)
        try:
            while not waiter.event.is_set():
                with trio.move_on_after(GROW_AFTER_S) as scope:
                    await waiter.event.wait()
                if scope.cancelled_caught:
                    for _ in range(len(self._waiting) - self._coming):
                        self._grow()
        except trio.Cancelled:
            if waiter.process is not None:
                self._give_back(waiter.process)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        if waiter.process is None:
            raise self._none_to_be_had()
        return waiter.process

    def _give_back(self, process: IsolatedProcess) -> None:
        self._in_use -= 1
        self._offer(process)

    def _offer(self, process: IsolatedProcess) -> None:
        """A process is free, if it still lives."""
        if not process.is_usable:
            return
        if self._waiting:
            waiter = self._waiting.popleft()
            waiter.process = process
            self._in_use += 1
            waiter.event.set()
        elif self._idle:
            process.kill()  # one is enough while nobody waits
        else:
            self._idle.append(process)

    def _none_to_be_had(self) -> Unavailable:
        return Unavailable(
            "no_process",
            f"The server could not start a helper process that the request needs: {self._why_none}. Try again.",
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
                end = await self._serve()
                failures = 0 if end == "used" else failures + 1
                if end == "refused":
                    failures = max(failures, STARTS)
                if failures >= STARTS:
                    if end != "unused":
                        self._start_failed()
                    await trio.sleep(BACK_OFF_S[min(failures - STARTS, len(BACK_OFF_S) - 1)])
                if self._keepers > 1 and not self._waiting:
                    return
        finally:
            self._keepers -= 1

    async def _serve(self) -> _End:
        """The life of one process."""
        try:
            process = await IsolatedProcess.open(self._module)
        except (OSError, RuntimeError, MemoryError) as fault:
            log.warning("isolated-not-started reason=%s", fault)
            refused = is_exhaustion(fault)
            self._why_none = explain(reason_of(fault)) if refused else reason_of(fault)
            return "refused" if refused else "not_started"
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._begin, process)
            await process.watch()
            nursery.cancel_scope.cancel()
        if process in self._idle:
            self._idle.remove(process)
        if not process.is_ready:
            return "not_started"
        return "used" if process.calls or trio.current_time() - started > _STARTED_WELL_S else "unused"

    async def _begin(self, process: IsolatedProcess) -> None:
        """Bring a new process to its first job."""
        try:
            await process.wait_ready()
        except JobLost as lost:
            log.warning("isolated-not-started reason=%s", lost.words)
            self._why_none = f"it {lost.words} at its start"
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
        except MemoryError as fault:
            # Barrier: whatever a stranger's job comes to must not end the pool, and with it the system.
            log.warning("warm-up-failed job=%s reason=%r", job, fault)
            process.kill()

    def _start_failed(self) -> None:
        self._start_fails = True
        if self._ready:
            return  # those that wait get one of the others
        while self._waiting:
            self._waiting.popleft().event.set()
