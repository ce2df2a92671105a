"""A main process that was away (stopped, swapped out, asleep), without waiting for it."""

from __future__ import annotations

import time

from actors.clock import AttentiveClock


class AbsentClock(AttentiveClock):
    """The clock of the main process over a time that can jump. As a fixture's value it becomes Trio's clock."""

    def __init__(self) -> None:
        self._jumped_s = 0.0
        super().__init__(lambda: time.monotonic() + self._jumped_s)

    def away(self, seconds: float) -> None:
        """So much time passed in which nothing of this process ran."""
        self._jumped_s += seconds
