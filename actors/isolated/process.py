"""IsolatedProcess: one process for isolated jobs, behind the guard, with limits of time and memory.

Owns the process group, the life pipe and the three pipes. States: starting -> ready -> (a job) -> ready -> ended; any
of them -> killed -> ended. Every end is a kill of the group, except that of a process that ended by itself.

A job's time limit is processor time: what a busy machine does not give to a job is not held against it. A process that
uses none for STALL_FACTOR times as long is stopped, or waits; that is counted by this process's own steps (POLL_S). A
late step counts for LATE_S at most and judges nobody: when this process was stopped, or the machine slept, the other
one may have had no time either, and its answer may be waiting in the pipe.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import trio

from actors.guarded_process import close_guarded, python_environment, start_guarded
from actors.isolated.usage import Usage, usage_of
from actors.process_group import signal_group
from muse.errors import InternalFault
from muse.isolated import frames
from muse.isolated.faults import decode_fault
from muse.settings import PROJECT_ROOT

log = logging.getLogger("muse.isolated")

MEMORY_LIMIT_BYTES: Final = 512 * 1024 * 1024
"""Resident, during a job."""
IDLE_LIMIT_BYTES: Final = 80 * 1024 * 1024
"""Resident, between two jobs: a process that keeps more is replaced."""
START_LIMIT_S: Final = 10.0
"""Of a start, as of a job; nothing is known of its processor time, so a start may take STALL_FACTOR times as long."""
STALL_FACTOR: Final = 3
"""A job that uses no processor time at all for so many times its limit is stalled."""
POLL_S: Final = 0.05
LATE_S: Final = 0.25
LOWER_PRIORITY: Final = 10
"""As `nice`: where others want the processor, a tenth of what they get."""
_LOOK_S: Final = 0.5
"""How long one look at a process may take (macOS: `ps`, in a thread)."""
_LARGE_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_DRAIN_S: Final = 1.0
_STDERR_LINES: Final = 30
_STDERR_CHARS: Final = 300
_ERROR_CHARS: Final = 4000

_NO_RESPONSE: Final = -1
"""In place of a status: bytes came that are no response."""

Reason = Literal["time", "memory", "crash", "stall", "displaced"]
"""Limits of time and memory are the job's own doing. A crash may be, a stall is not: somebody stopped the process, or
the machine gave it no time. Displaced: its caller ended it for others, and is to begin it again."""
IsDisplaced = Callable[[float, float], bool]
"""Whether to end a job for others, by the seconds of processor time that it used, and those since it got any."""


class JobLost(Exception):
    """A job has no result because its process was killed or ended. words: why, one clause for people."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(words)
        self.reason: Final[Reason] = reason
        self.words: Final = words


class IsolatedProcess:
    """Start with `open`, keep `watch` running until it returns, make calls one at a time meanwhile."""

    def __init__(self, process: trio.Process, life_fd: int) -> None:
        self._process = process
        self._life_fd = life_fd
        self._pid: int | None = None  # of the process itself: `_process` is its guard
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stderr_ended = trio.Event()
        self._killed = False
        self._has_lower_priority = False
        self._was_long = False  # the last exchange: it was looked at meanwhile
        self.is_ready = False
        """It has taken jobs, or could have."""
        self.calls = 0
        """Jobs that were begun."""

    @classmethod
    async def open(cls, module: str) -> IsolatedProcess:
        """Start a process with the jobs of `module`. Raises OSError, or RuntimeError where no thread can be started."""
        command = [sys.executable, "-m", "muse.isolated", module]
        return cls(*await start_guarded(command, env=python_environment(), cwd=str(PROJECT_ROOT)))

    @property
    def is_usable(self) -> bool:
        """Whether it may take another job; a process that has just ended by itself may not be known yet."""
        return not self._killed and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL the whole group."""
        if not self._killed and self._process.returncode is None:
            signal_group(self._process.pid, signal.SIGKILL)
        self._killed = True

    def lower_priority(self) -> None:
        """For the rest of its job, behind which it is ended: a priority cannot be raised again."""
        if not self._has_lower_priority and self._pid is not None:
            self._has_lower_priority = True
            with suppress(OSError):  # it ended
                os.setpriority(os.PRIO_PROCESS, self._pid, LOWER_PRIORITY)

    async def watch(self) -> None:
        """Drain its stderr until it has ended. Then, or cancelled, kills what is left of it and closes the pipes."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._drain_stderr)
                await self._process.wait()
                with trio.move_on_after(_DRAIN_S):
                    await self._stderr_ended.wait()
                nursery.cancel_scope.cancel()
        finally:
            signal_group(self._process.pid, signal.SIGKILL)
            self._killed = True
            with trio.CancelScope(shield=True):
                await self._process.wait()
            close_guarded(self._process, self._life_fd)

    async def wait_ready(self) -> None:
        """Wait until it takes jobs. Raises JobLost when it ends, or is killed because it takes too long."""
        status, payload = await self._exchange(None, START_LIMIT_S)
        if status != frames.READY or not payload.isdigit():
            raise self._broken()
        self._pid = int(payload)
        self.is_ready = True

    async def call(
        self, job: str, payload: bytes, limit_s: float, is_displaced: IsDisplaced | None = None
    ) -> bytearray:
        """The result of a job. Raises the MuseError that the job raised, InternalFault for another exception of it, and
        JobLost. Cancelled: the process is killed.

        is_displaced: asked at each look at the running job."""
        self.calls += 1
        name = job.encode()
        request = (frames.REQUEST.pack(len(name), len(payload)) + name, payload)
        status, answer = await self._exchange(request, limit_s, is_displaced)
        may_have_grown = self._was_long or len(payload) + len(answer) > _LARGE_BYTES
        if may_have_grown and (usage := await self._usage()) and usage.resident_bytes > IDLE_LIMIT_BYTES:
            self.kill()  # its answer is here, but it keeps too much memory
        if self._has_lower_priority:
            self.kill()
        match status:
            case frames.RESULT:
                return answer
            case frames.FAULT:
                try:
                    fault = decode_fault(answer)
                except ValueError:
                    raise self._broken() from None
                raise fault
            case frames.NO_MEMORY:
                self.kill()
                raise _too_large()
            case frames.ERROR:
                log.error("job-failed job=%s error=%s", job, answer.decode("utf-8", "replace")[-_ERROR_CHARS:])
                raise InternalFault(
                    "internal_error", "This request met a fault of the server. The server log has the details."
                )
            case _:
                raise self._broken()

    # ------------------------------------------------------------ one exchange

    async def _exchange(
        self,
        request: tuple[bytes, bytes] | None,
        limit_s: float,
        is_displaced: IsDisplaced | None = None,
    ) -> tuple[int, bytearray]:
        """Write a request, read its response, under the limits."""
        answer: tuple[int, bytearray] | None = None
        lost: JobLost | None = None
        has_ended = False

        async def limit(scope: trio.CancelScope) -> None:
            nonlocal lost
            lost = await self._wait_breach(limit_s, is_displaced)
            self.kill()
            scope.cancel()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(limit, nursery.cancel_scope)
                if await self._write(request or ()):
                    answer = await self._read_response()
                has_ended = answer is None
                nursery.cancel_scope.cancel()
            if has_ended:
                lost = lost or await self._crashed()
        finally:
            if answer is None:  # also when this was cancelled: a job that nobody waits for goes no further
                self.kill()
        if answer is None:
            assert lost is not None
            raise lost
        return answer

    async def _write(self, parts: tuple[bytes, ...]) -> bool:
        stream = self._process.stdin
        assert stream is not None
        try:
            for part in parts:
                await stream.send_all(part)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def _read_response(self) -> tuple[int, bytearray] | None:
        header = await self._read(frames.RESPONSE.size)
        if header is None:
            return None
        status, size = frames.RESPONSE.unpack(header)
        if status not in frames.STATUSES or size > frames.MAX_PAYLOAD_BYTES:
            return _NO_RESPONSE, bytearray()
        payload = await self._read(size)
        return None if payload is None else (status, payload)

    async def _read(self, size: int) -> bytearray | None:
        stream = self._process.stdout
        assert stream is not None
        data = bytearray()  # grows without one large copy, which would hold the event loop
        while len(data) < size:
            try:
                chunk = await stream.receive_some(min(size - len(data), _READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not chunk:
                return None
            data += chunk
        return data

    async def _wait_breach(self, limit_s: float, is_displaced: IsDisplaced | None) -> JobLost:
        """Return when the job is beyond its limits, or displaced."""
        stalled_s = STALL_FACTOR * limit_s
        counted = 0.0
        used_before: float | None = None  # by earlier jobs; known from the first look on
        used_last = 0.0
        self._was_long = False
        while True:
            before = trio.current_time()
            await trio.sleep(POLL_S)
            is_late = trio.current_time() - before >= LATE_S
            self._was_long = True
            usage = await self._usage()
            counted += min(trio.current_time() - before, LATE_S)
            if usage is not None:
                if usage.resident_bytes > MEMORY_LIMIT_BYTES:
                    return _too_large()
                used_before = usage.processor_s if used_before is None else used_before
                if usage.processor_s - used_before > limit_s and not is_late:
                    return JobLost("time", f"took more than {limit_s:g} s of processor time")
                if usage.processor_s > used_last:
                    used_last, counted = usage.processor_s, 0.0
                if is_displaced is not None and is_displaced(usage.processor_s - used_before, counted):
                    return JobLost("displaced", "was displaced by others")
            if counted > stalled_s and not is_late:
                return JobLost("stall", f"got no processor time for {stalled_s:g} s")

    async def _usage(self) -> Usage | None:
        if self._pid is not None:
            with trio.move_on_after(_LOOK_S):
                return await usage_of(self._pid)
        return None

    def _broken(self) -> JobLost:
        self.kill()
        return JobLost("crash", "sent what is no answer")

    async def _crashed(self) -> JobLost:
        with trio.move_on_after(_DRAIN_S):
            code = await self._process.wait()
            await self._stderr_ended.wait()
            log.warning("isolated-ended status=%d stderr=%r", code, list(self._stderr))
            how = signal.Signals(-code).name if -code in list(signal.Signals) else f"exit status {code}"
            return JobLost("crash", f"crashed its process ({how})")
        return JobLost("crash", "crashed its process")

    async def _drain_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await stream.receive_some(_READ_BYTES):
                lines = chunk.decode("utf-8", "replace").splitlines()[-_STDERR_LINES:]
                self._stderr.extend(line[:_STDERR_CHARS] for line in lines)
        self._stderr_ended.set()


def _too_large() -> JobLost:
    return JobLost("memory", f"took more than {MEMORY_LIMIT_BYTES // 2**20} MiB of memory")
