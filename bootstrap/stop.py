"""Ctrl-C, SIGTERM and a closed terminal, taken as a request that the set-up looks at where it is safe to end.

An exception thrown by a signal handler can land between two renames or between starting a child and remembering it.
So the first signal only sets a flag, and `check()` raises where nothing is half done: at least five times a second
while a child runs, while waiting for the lock, and between blocks of a file. A second signal acts at once.
"""

from __future__ import annotations

import signal
from types import FrameType

from bootstrap.faults import Stopped

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Whether somebody asked for the end; `with` it around a set-up."""

    def __init__(self) -> None:
        self.signum = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        for signum in WATCHED:
            # What the caller chose to ignore (nohup, a shell's background job) stays ignored.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]  # it is what signal.signal gave us
        self._before.clear()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if self.signum:
            raise Stopped(signum)
        self.signum = signum

    def check(self) -> None:
        """Raise Stopped when the end was asked for."""
        if self.signum:
            raise Stopped(self.signum)
