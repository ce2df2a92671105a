"""Upstream's worker as a running program, of which exactly one task at a time is the other side.

Its lines carry no request ids, so every line must be known to belong to whoever owns the program now, or the program
cannot be trusted any more (contracts/worker-protocol.md sections 1 and 12). The rules that make it so:
- one owner at a time (`turn`), who alone writes to it and reads from it; a request is written after the end of the
  one before was read and every cancel for that one was written;
- a line that comes while nobody asked, or that answers something else, ends the program;
- after a cancel, and after an error line, a session command with a name of its own is asked and answered before
  anything else (`_fence`): what comes before that answer is left over from before, and no later request can get it.

A cancel is told in the way that the ready line names, or cannot be. What then does not end soon goes on without the
request: its rest is read to the end by a thread, which owns the program for so long (`_drain`). Waiting longer than a
load takes would be worse than a load, so then `overdue` is called, and the worker is to be replaced.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from muse.worker.child import Child
from muse.worker.engines.base import CancelToken, EngineFault, ReportLoading
from muse.worker.engines.native.wire import (
    CANCEL_LINE,
    Broken,
    ErrorLine,
    Line,
    NativeReady,
    Op,
    OpDone,
    Terminal,
    TokenLine,
    cancel_bytes,
    op_line,
    parse_line,
    parse_ready,
    request_line,
)
from muse.worker.stdio import LineTooLong

CONTROL_FD_VARIABLE: Final = "EXECUTORCH_LLM_WORKER_CONTROL_FD"
CANCEL_GRACE_S: Final = 1.5
"""How long a request that was told to end is waited for: less than the 2 s after which whoever watches this worker
takes a cancel for not obeyed (actors/supervisor/watchdog.py)."""
LEAST_DRAIN_S: Final = 2.0
MOST_DRAIN_S: Final = 60.0
_END_WAIT_S: Final = 2.0


class Refused(Exception):
    """The program answered with an error line."""

    def __init__(self, line: ErrorLine) -> None:
        super().__init__(line.message)
        self.line = line


class _Cancelled:
    """Stands among the lines where the cancel came."""


_Item = bytes | _Cancelled | None  # None: its output has ended


class NativeProgram:
    """One program. lost: called from a thread of its own, with the fault and the return code, when it ends by itself.
    overdue: called with the reason when what was cancelled does not end; must not return to business as usual."""

    def __init__(self, lost: Callable[[EngineFault, int], None], overdue: Callable[[str], None]) -> None:
        self._lost = lost
        self._overdue = overdue
        self._child: Child | None = None
        self._items: queue.Queue[_Item] = queue.Queue()
        self._free = threading.Condition()
        self._is_free = True
        self._control_fd = -1
        self._requests = 0
        self._fences = 0
        self.ready: NativeReady | None = None
        self.load_s = 0.0

    def start(self, command: Sequence[str], size_bytes: int, report: ReportLoading) -> NativeReady:
        """Start it and wait for its ready line. Raises EngineFault."""
        began = time.monotonic()
        theirs, self._control_fd = os.pipe()
        try:
            child = self._child = Child(
                command, env={**os.environ, CONTROL_FD_VARIABLE: str(theirs)}, pass_fds=(theirs,)
            )
        except OSError as fault:
            words = f"the native worker cannot be started: {command[0]}: {fault.strerror or fault}"
            raise EngineFault("bad_request", words, fatal=True) from fault
        finally:
            os.close(theirs)
        try:
            line = child.first_line(size_bytes, report)
        except LineTooLong as fault:
            raise EngineFault("bad_request", f"{command[0]} is no muse_glimmer_worker: {fault}", fatal=True) from fault
        if not line:
            returncode = child.wait_end()
            words = f"the native worker cannot load this model: {child.epitaph(returncode)}"
            raise EngineFault(child.code(returncode), words, fatal=True)
        try:
            self.ready = parse_ready(line)
        except Broken as fault:
            words = f"{command[0]} is no muse_glimmer_worker that this version can drive: of its first line, {fault}"
            raise EngineFault("bad_request", words, fatal=True) from fault
        self.load_s = time.monotonic() - began
        child.watch(lambda returncode: self._lost(child.death(returncode), returncode))
        threading.Thread(target=self._read, args=(child,), name="native lines", daemon=True).start()
        return self.ready

    @contextmanager
    def turn(self, cancel: CancelToken) -> Generator[Turn | None]:
        """Wait until the program is free; within the block it is the caller's. None: the cancel came first."""
        with cancel.hook(self._wake), self._free:
            self._free.wait_for(lambda: self._is_free or cancel.is_set)
            is_ours = not cancel.is_set
            if is_ours:
                self._is_free = False
        if not is_ours:
            yield None
            return
        with self._owned() as turn:
            yield turn

    @contextmanager
    def turn_now(self) -> Generator[Turn | None]:
        """The same, but None if the program is not free."""
        with self._free:
            is_ours, self._is_free = self._is_free, False
        if not is_ours:
            yield None
            return
        with self._owned() as turn:
            yield turn

    def memory_bytes(self) -> int | None:
        """Resident memory of the process now, None where it cannot be told."""
        return self._child.memory_bytes() if self._child else None

    def cpu_seconds(self) -> str | None:
        """Processor time that the process has used; it grows while it computes."""
        return self._child.cpu_seconds() if self._child else None

    def close(self) -> None:
        """Kill the process. Idempotent, any thread."""
        if self._child:
            self._child.close()

    # ------------------------------------------------------------ ownership

    def _wake(self) -> None:
        with self._free:
            self._free.notify_all()

    @contextmanager
    def _owned(self) -> Generator[Turn]:
        turn = Turn(self)
        try:
            yield turn
        finally:
            if not turn.is_handed_on:
                self.give_back()

    def give_back(self) -> None:
        """For the owner alone: somebody else may have it."""
        with self._free:
            self._is_free = True
            self._free.notify_all()

    # ------------------------------------------------------------ lines, for the owner alone

    def _read(self, child: Child) -> None:
        try:
            for line in child.lines:
                self._items.put(line)
        except LineTooLong:
            self._items.put(b"")  # which is no line of the contract either
        self._items.put(None)

    def write(self, data: bytes) -> None:
        """Write whole lines."""
        assert self._child
        descriptor = self._child.stdin.fileno()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            self._gone()

    def next(self, timeout_s: float | None = None) -> Line | _Cancelled | None:
        """The next line; None when it does not come in time."""
        try:
            item = self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if item is None:
            self._gone()
        if isinstance(item, _Cancelled):
            return item
        try:
            return parse_line(item)
        except Broken as fault:
            self.distrust(f"of a line it wrote, {fault}")

    def expect_silence(self) -> None:
        """Nothing may have been said since the last exchange."""
        while not self._items.empty():
            item = self._items.get()
            if item is None:
                self._gone()
            if not isinstance(item, _Cancelled):
                self.distrust("it wrote a line that nobody asked for")

    def mark_cancelled(self) -> None:
        """Let the owner, who waits for a line, see a cancel. Any thread."""
        self._items.put(_Cancelled())

    def distrust(self, reason: str) -> NoReturn:
        """End the engine: whose the next line is, nobody could tell."""
        raise EngineFault("engine_error", f"the native worker broke its protocol: {reason}", fatal=True)

    def _gone(self) -> NoReturn:
        """Its pipes have ended: mostly that is its death, so let its watcher speak first."""
        if self._child and self._child.wait_lost(_END_WAIT_S):
            threading.Event().wait(_END_WAIT_S)
        raise EngineFault("engine_error", "the native worker closed its pipes", fatal=True)

    # ------------------------------------------------------------ exchanges, for the owner alone

    def new_cancel_id(self) -> int:
        """Greater than all before."""
        self._requests += 1
        return self._requests

    def tell_cancel(self, cancel_id: int) -> bool:
        """Cancel the running request; false if this program cannot be told."""
        assert self.ready
        match self.ready.patch_level:
            case "cancel_op":
                self.write(CANCEL_LINE)
            case "control_pipe":
                try:
                    os.write(self._control_fd, cancel_bytes(cancel_id))
                except OSError:
                    self._gone()
            case "unpatched":
                return False
        return True

    def op(self, op: Op, session_id: str) -> ErrorLine | None:
        """Run a session command; gives the error line if it failed."""
        self.expect_silence()
        self.write(op_line(op, session_id))
        line = self.next()
        if line == OpDone(op=op, session_id=session_id):
            return None
        if isinstance(line, ErrorLine) and line.session_id in (None, session_id):
            return line
        return self.distrust(f"a {type(line).__name__} came in answer to {op}")

    def fence(self) -> None:
        """Make sure that everything it has to say of what was before is said: an unknown session is reset, which
        changes nothing, and the answer carries its name (section 8). Error lines before that are of a cancel that it
        did not know after all."""
        self._fences += 1
        name = f"fence-{self._fences}"
        self.write(op_line("reset", name))
        while True:
            match self.next():
                case OpDone(op="reset", session_id=named) if named == name:
                    return
                case ErrorLine(session_id=named) if named == name:
                    return
                case ErrorLine() | _Cancelled():
                    pass
                case line:
                    self.distrust(f"a {type(line).__name__} came behind the end of a request")

    def drain(self, deadline: float, over: Callable[[Terminal | None], None], *, told: bool) -> None:
        """Read the rest of a cancelled request, then give the program back. over: hears its end."""
        try:
            self._drain(deadline, over, told=told)
        except EngineFault as fault:
            self._lost(fault, 0)

    def _drain(self, deadline: float, over: Callable[[Terminal | None], None], *, told: bool) -> None:
        while True:
            match self.next(max(0.0, deadline - time.monotonic())):
                case None:
                    self._overdue(
                        "the native worker went on with an answer that was cancelled for as long as another load "
                        f"would take ({self.drain_s:.0f} s)"
                    )
                    return
                case TokenLine() | _Cancelled():
                    pass
                case (Terminal() | ErrorLine()) as line:
                    if told or isinstance(line, ErrorLine):
                        self.fence()
                    over(line if isinstance(line, Terminal) else None)
                    self.give_back()
                    return
                case line:
                    self.distrust(f"a {type(line).__name__} came in an answer")

    @property
    def drain_s(self) -> float:
        """How long the rest of a cancelled request may take."""
        return min(max(self.load_s, LEAST_DRAIN_S), MOST_DRAIN_S)


class Turn:
    """The program while it is somebody's own. is_handed_on: a thread that reads the rest of a request has it now."""

    def __init__(self, program: NativeProgram) -> None:
        self._program = program
        self.is_handed_on = False

    def op(self, op: Op, session_id: str) -> ErrorLine | None:
        """Run a session command; gives the error line if it failed. Raises EngineFault."""
        return self._program.op(op, session_id)

    def generate(
        self,
        request: dict[str, Any],
        on_text: Callable[[str], None],
        cancel: CancelToken,
        over: Callable[[Terminal | None], None],
    ) -> Terminal | None:
        """Run a request. None: it was cancelled and goes on by itself, and so does the program's ownership; `over` will
        hear its end (None: an error). Raises Refused, EngineFault."""
        program = self._program
        program.expect_silence()
        cancel_id = program.new_cancel_id()
        if program.ready and program.ready.patch_level == "control_pipe":
            request = {**request, "cancel_request_id": cancel_id}
        program.write(request_line(request))
        told, cancelled_at = False, 0.0
        end: Terminal | None = None
        with cancel.hook(program.mark_cancelled):
            while True:
                patience_s = None
                if cancelled_at:
                    patience_s = max(0.0, cancelled_at + (CANCEL_GRACE_S if told else 0.0) - time.monotonic())
                match program.next(patience_s):
                    case TokenLine(text):
                        on_text(text)
                    case _Cancelled():
                        cancelled_at = time.monotonic()
                        told = program.tell_cancel(cancel_id)
                    case Terminal() as end:
                        break
                    case ErrorLine() as line:
                        program.fence()
                        raise Refused(line)
                    case OpDone():
                        program.distrust("an OpDone came in an answer")
                    case None:
                        break
        if end is None:
            self._hand_on(cancelled_at + program.drain_s, over, told=told)
        elif told:
            program.fence()
        return end

    def _hand_on(self, deadline: float, over: Callable[[Terminal | None], None], *, told: bool) -> None:
        self.is_handed_on = True
        threading.Thread(
            target=self._program.drain, args=(deadline, over), kwargs={"told": told}, name="drain", daemon=True
        ).start()
