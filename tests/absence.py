"""A main process that was away (stopped, swapped out, asleep), without waiting for it."""

from __future__ import annotations

import time

from actors.clock import AttentiveClock


class AbsentClock(AttentiveClock):
    """The clock of the main process over a time that can jump. As a fixture's value it becomes Trio's clock."""

    def __init__(self, *, stands_still: bool = False) -> None:
        """stands_still: the time moves by jumps alone, so that on a busy machine no deadline passes by itself."""
        self._jumped_s = 0.0
        super().__init__(lambda: self._jumped_s + (0.0 if stands_still else time.monotonic()))

    def away(self, seconds: float) -> None:
        """So much time passed in which nothing of this process ran."""
        self._jumped_s += seconds
