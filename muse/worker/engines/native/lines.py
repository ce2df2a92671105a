"""The lines of the program's pipes, for the one who owns it at the moment, and for nobody else."""

from __future__ import annotations

import os
import queue
import threading
from typing import Final, NoReturn

from muse.attention import TICK_S, Attention
from muse.worker.child import Child
from muse.worker.engines.base import EngineFault
from muse.worker.engines.native.wire import Broken, Line, parse_line
from muse.worker.stdio import LineTooLong

_END_WAIT_S: Final = 2.0


class Cancelled:
    """Stands among the lines where a cancel came."""


class NativeLines:
    """Reads from the start, so that nothing that was said is missed. Faults are fatal: EngineFault.

    now: the time by which the owner measures its deadlines, in which absences of this worker are none."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.now: Final = Attention().now
        self._items: queue.Queue[bytes | Cancelled | None] = queue.Queue()  # None: its output has ended
        self._is_read = threading.Event()
        threading.Thread(target=self._read, name="native lines", daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._child.lines:
                self._items.put(line)
        except LineTooLong:
            self._items.put(b"")  # which is no line of the contract either
        self._items.put(None)

    def write(self, data: bytes) -> None:
        """Write whole lines."""
        descriptor = self._child.stdin.fileno()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            self.gone()

    def next(self, timeout_s: float | None = None) -> Line | Cancelled | None:
        """The next line; None when it does not come in time."""
        deadline = None if timeout_s is None else self.now() + timeout_s
        while True:
            left_s = None if deadline is None else max(deadline - self.now(), 0.0)
            try:
                item = self._items.get(timeout=None if left_s is None else min(left_s, TICK_S))
                break
            except queue.Empty:
                if left_s == 0.0:
                    return None
        if item is None:
            self.gone()
        if isinstance(item, Cancelled):
            return item
        try:
            return parse_line(item)
        except Broken as fault:
            distrust(f"of a line it wrote, {fault}")

    def expect_silence(self) -> None:
        """Nothing may have been said since the last exchange."""
        while not self._items.empty():
            item = self._items.get()
            if item is None:
                self.gone()
            if not isinstance(item, Cancelled):
                distrust("it wrote a line that nobody asked for")

    def mark_cancelled(self) -> None:
        """Let the owner, who waits for a line, see a cancel. Any thread."""
        self._items.put(Cancelled())

    def gone(self) -> NoReturn:
        """Its pipes have ended: mostly that is its death, so let its watcher speak first."""
        self._is_read.set()
        if self._child.wait_lost(_END_WAIT_S):
            threading.Event().wait(_END_WAIT_S)
        raise EngineFault("engine_error", "the native worker closed its pipes", fatal=True)

    def wait_read(self) -> None:
        """Wait a moment until the owner has taken all that was said before the end."""
        self._is_read.wait(_END_WAIT_S)


def distrust(reason: str) -> NoReturn:
    """End the engine: whose the next line is, nobody could tell."""
    raise EngineFault("engine_error", f"the native worker broke its protocol: {reason}", fatal=True)
