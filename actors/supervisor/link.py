"""WorkerLink: one worker process behind its guard, and the pipes to it.

Owns the process group, the life pipe and three pipe tasks. Knows lines of bytes, not messages. The
link ends in exactly one way: `run` returns a Death, with the group killed and every descriptor closed.

A line may be given as a function that makes it: it is called in a thread when its turn comes.

Rules with a reason: one task owns stdin, and a line is written whole or the worker is killed (a
cancelled write leaves half a line; how long a write may wait is the watchdog's to say, see `unread_since`);
exit and end of output are two facts with a deadline between them
(a grandchild can hold the pipe); stderr is always read (an unread pipe stops the worker).
"""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import trio

from actors.guarded_process import close_guarded, close_pipe, start_guarded
from actors.process_group import signal_group
from actors.supervisor.lines import LineSplitter, LineTooLong
from actors.threads import run_in_thread
from muse.errors import Unavailable
from muse.protocol import MAX_WORKER_LINE_BYTES

log = logging.getLogger("muse.supervisor")

WRITE_BYTES: Final = 16 * 1024
"""A line is written in pieces, so that it shows whether the worker takes any of it."""
DRAIN_S: Final = 1.0
STDERR_LINES: Final = 200
READ_BYTES: Final = 16384
"""So many lines are taken at once, of a worker that hurries: up to 10 ms of work where each is a call of a tool."""
WRITE_QUEUE: Final = 1024
STDERR_LINE_BYTES: Final = 4000


Line = bytes | Callable[[], bytes]


@attrs.frozen(kw_only=True)
class Death:
    """How a worker ended. returncode as in subprocess (negative: signal). fault: what we saw wrong
    before, in words, or None. stderr_tail: its last lines, newest last."""

    returncode: int
    fault: str | None
    stderr_tail: tuple[str, ...]

    @property
    def words(self) -> str:
        """One sentence for people."""
        if self.fault is not None:
            return self.fault
        if self.returncode < 0:
            try:
                name = signal.Signals(-self.returncode).name
            except ValueError:
                name = f"signal {-self.returncode}"
            return f"The model process was ended by {name}."
        return f"The model process ended with exit status {self.returncode}."


class WorkerLink:
    """Start with `open`, then `run` until death. `send`, `kill` and `close_stdin` are synchronous."""

    unread_since: float | None = None
    """When the worker last took a byte of the line that is being written; None: there is none."""

    def __init__(self, process: trio.Process, life_fd: int) -> None:
        self._process = process
        self._life_fd = life_fd
        self._fault: str | None = None
        self._killed = False
        self._over = False  # once it is, the number of the group may be another's
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._stdout_ended = trio.Event()
        self._stderr_ended = trio.Event()
        self._lines_in, self._lines_out = trio.open_memory_channel[Line](WRITE_QUEUE)

    @classmethod
    async def open(cls, command: Sequence[str], *, env: Mapping[str, str], cwd: str) -> WorkerLink:
        """Start `command` (absolute program first) behind a guard. Raises OSError, or RuntimeError where no thread can
        be started."""
        return cls(*await start_guarded(command, env=env, cwd=cwd))

    @property
    def pid(self) -> int:
        """Process id of the guard, which is also the process group."""
        return self._process.pid

    def send(self, line: Line) -> None:
        """Queue one line (with its newline) for the worker, or what will make it. A worker that lets the queue fill is
        hung and is killed."""
        try:
            self._lines_in.send_nowait(line)
        except trio.WouldBlock:
            self.kill("The model process stopped reading its requests.")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # already dying: run() reports the death to whoever sent this

    def close_stdin(self) -> None:
        """Ask the worker to leave: its stdin ends after what is queued."""
        self._lines_in.close()

    def terminate(self, fault: str) -> None:
        """SIGTERM to the group; the guard ignores it, the worker may still say goodbye."""
        self._fault = self._fault or fault
        if not self._over:
            signal_group(self._process.pid, signal.SIGTERM)

    def kill(self, fault: str | None = None) -> None:
        """SIGKILL the whole group. `fault` says why, unless an earlier fault is known."""
        if fault is not None and self._fault is None:
            self._fault = fault
        self._killed = True
        if not self._over:
            signal_group(self._process.pid, signal.SIGKILL)
            close_pipe(self._process.stdin)  # ends a write that waits under its shield, whoever else holds the pipe

    async def run(self, on_line: Callable[[bytes], None]) -> Death:
        """Serve the pipes until the worker is dead; give each stdout line to `on_line` (must not
        raise). Cancelled: kills the group, waits for its end, and lets the cancellation through."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_stdout, on_line)
                nursery.start_soon(self._read_stderr)
                nursery.start_soon(self._write_stdin)
                try:
                    await self._process.wait()
                except trio.Cancelled:
                    self.kill()  # first of all: it also frees a writer
                    raise
                with trio.move_on_after(DRAIN_S):
                    await self._stdout_ended.wait()
                    await self._stderr_ended.wait()
                nursery.cancel_scope.cancel()
        finally:
            self.kill()
            self._over = True
            with trio.CancelScope(shield=True):
                await self._process.wait()
            close_guarded(self._process, self._life_fd)
        returncode = self._process.returncode
        assert returncode is not None
        return Death(returncode=returncode, fault=self._fault, stderr_tail=tuple(self._stderr))

    async def _read_stdout(self, on_line: Callable[[bytes], None]) -> None:
        stream = self._process.stdout
        assert stream is not None
        splitter = LineSplitter(MAX_WORKER_LINE_BYTES)
        try:
            while chunk := await stream.receive_some(READ_BYTES):
                for line in splitter.feed(chunk):
                    if not self._killed:  # what a condemned worker said afterwards counts for nothing
                        on_line(line)
                chunk = line = b""  # not kept while the worker is silent: they are texts of requests
        except LineTooLong as fault:
            self.kill(f"The model process broke the protocol: {fault}.")
        except trio.BrokenResourceError:
            pass
        if splitter.rest_bytes:
            log.warning("half-line bytes=%d pid=%d", splitter.rest_bytes, self.pid)
        self._stdout_ended.set()
        with trio.move_on_after(DRAIN_S):
            await self._process.wait()
            return
        self.kill("The model process closed its output while still running.")

    async def _read_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        rest = b""
        try:
            while chunk := await stream.receive_some(READ_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                self._stderr.extend(line[:STDERR_LINE_BYTES].decode("utf-8", "replace") for line in lines)
                rest = rest[:STDERR_LINE_BYTES]
        except trio.BrokenResourceError:
            pass
        if rest:
            self._stderr.append(rest.decode("utf-8", "replace"))
        self._stderr_ended.set()

    async def _write_stdin(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        async for given in self._lines_out:
            try:
                line = given if isinstance(given, bytes) else await run_in_thread(given)
            except (Unavailable, MemoryError) as fault:
                reason = fault.detail if isinstance(fault, Unavailable) else "there is no memory for it"
                self.kill(f"A request could not be written to the model process: {reason}")
                return
            # Shielded: a cancelled send_all would leave half a line in the pipe. A kill ends it.
            with trio.CancelScope(shield=True):
                try:
                    for start in range(0, len(line), WRITE_BYTES):
                        self.unread_since = trio.current_time()
                        await stream.send_all(memoryview(line)[start : start + WRITE_BYTES])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return  # dead or dying: the exit is noticed elsewhere
            self.unread_since = None
            del given, line  # a prompt, which is not kept until the next one
        await stream.aclose()
