"""Upstream's worker as a running program, of which exactly one task at a time is the other side (exchange.py)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from muse.worker.child import Child
from muse.worker.engines.base import CancelToken, EngineFault, ReportLoading
from muse.worker.engines.native.artifact import KINDS, Kind
from muse.worker.engines.native.exchange import Exchange, Link
from muse.worker.engines.native.lines import NativeLines
from muse.worker.engines.native.wire import Broken, NativeReady, parse_ready
from muse.worker.stdio import LineTooLong

CONTROL_FD_VARIABLE: Final = "EXECUTORCH_LLM_WORKER_CONTROL_FD"
"""Names the control pipe to a later upstream (contracts/worker-protocol.md section 14); others do not look at it."""
LEAST_DRAIN_S: Final = 5.0
"""No model of this kind is loaded sooner."""
MOST_DRAIN_S: Final = 60.0
_DETECTED: Final = re.compile(rf"detected ({'|'.join(KINDS)}) artifact", re.IGNORECASE)
_DETECTED_WAIT_S: Final = 1.0
"""The line of the log is written before the ready line, but comes by another pipe."""
_NO_LOG_YET: Final = "PAL must be initialized"
"""What the program says in place of a reason when its own checks of its flags fail (contracts/native-trial.md)."""


@attrs.frozen(kw_only=True)
class Started:
    """What a program said of itself. kind: of the artifact, by its log; None where the log does not tell."""

    ready: NativeReady
    kind: Kind | None


class NativeProgram:
    """One program. lost: called from a thread of its own, with the fault and the return code, when it ends by itself or
    cannot be trusted. overdue: called with the reason when what was cancelled does not end."""

    def __init__(self, lost: Callable[[EngineFault, int], None], overdue: Callable[[str], None]) -> None:
        self._lost = lost
        self._overdue = overdue
        self._child: Child | None = None
        self._link: Link | None = None
        self._kind: Kind | None = None
        self._kind_is_known = threading.Event()
        self._free = threading.Condition()
        self._is_free = True

    def start(self, command: Sequence[str], size_bytes: int, report: ReportLoading) -> Started:
        """Start it and wait for its ready line. Raises EngineFault."""
        began = time.monotonic()
        theirs, control_fd = os.pipe()
        try:
            child = self._child = Child(
                command,
                env={**os.environ, CONTROL_FD_VARIABLE: str(theirs)},
                pass_fds=(theirs,),
                on_log=self._read_kind,
            )
        except OSError as fault:
            words = f"the native worker cannot be started: {command[0]}: {fault.strerror or fault}"
            raise EngineFault("bad_request", words, fatal=True) from fault
        finally:
            os.close(theirs)
        ready = _first_line(child, command[0], size_bytes, report)
        load_s = time.monotonic() - began
        lines = NativeLines(child)
        self._link = Link(
            lines=lines,
            patch_level=ready.patch_level,
            control_fd=control_fd,
            drain_s=min(max(load_s, LEAST_DRAIN_S), MOST_DRAIN_S),
            give_back=self._give_back,
            overdue=self._overdue,
            broken=lambda fault: self._lost(fault, 0),
        )
        child.watch(lambda returncode: self._ended(child, lines, returncode))
        self._kind_is_known.wait(_DETECTED_WAIT_S)
        return Started(ready=ready, kind=self._kind)

    @contextmanager
    def turn(self, cancel: CancelToken) -> Generator[Exchange | None]:
        """Wait until the program is free; within the block it is the caller's. None: the cancel came first."""
        with cancel.hook(self._wake), self._free:
            self._free.wait_for(lambda: self._is_free or cancel.is_set)
            is_ours = not cancel.is_set
            if is_ours:
                self._is_free = False
        with self._owned(is_ours) as exchange:
            yield exchange

    @contextmanager
    def turn_now(self) -> Generator[Exchange | None]:
        """The same, but None if the program is not free."""
        with self._free:
            is_ours, self._is_free = self._is_free, False
        with self._owned(is_ours) as exchange:
            yield exchange

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

    def _ended(self, child: Child, lines: NativeLines, returncode: int) -> None:
        """Tell of its end, after what it said before: what was generated is not to be generated again."""
        with self._free:
            is_owned = not self._is_free
        if is_owned:
            lines.wait_read()
        self._lost(child.death(returncode), returncode)

    def _read_kind(self, line: str) -> bool:
        if found := _DETECTED.search(line):
            self._kind = KINDS[found[1].lower()]
            self._kind_is_known.set()
        return True

    @contextmanager
    def _owned(self, is_ours: bool) -> Generator[Exchange | None]:
        if not is_ours:
            yield None
            return
        assert self._link is not None, "nothing is asked before the load is over"
        exchange = Exchange(self._link)
        try:
            yield exchange
        finally:
            if not exchange.is_handed_on:
                self._give_back()

    def _wake(self) -> None:
        with self._free:
            self._free.notify_all()

    def _give_back(self) -> None:
        with self._free:
            self._is_free = True
            self._free.notify_all()


def _first_line(child: Child, program: str, size_bytes: int, report: ReportLoading) -> NativeReady:
    try:
        line = child.first_line(size_bytes, report)
        if line:
            return parse_ready(line)
    except (LineTooLong, Broken) as fault:
        words = f"{program} is no muse_glimmer_worker that this version can drive: of its first line, {fault}"
        raise EngineFault("bad_request", words, fatal=True) from fault
    returncode = child.wait_end()
    if any(_NO_LOG_YET in line for line in child.log):
        words = (
            "the native worker refused its command line, and cannot say why before its log is set up: look at the "
            f"values of --worker-arg ({child.epitaph(returncode)})"
        )
        raise EngineFault("bad_request", words, fatal=True)
    words = f"the native worker cannot load this model: {child.epitaph(returncode, while_loading=True)}"
    raise EngineFault(child.code(returncode), words, fatal=True)
