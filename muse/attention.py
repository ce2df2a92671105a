"""Time in which this process was there to look: what every deadline of ours is measured against.

A process that was stopped (SIGSTOP, a debugger, a frozen container), swapped out or starved comes back to deadlines
that have passed while it could see nothing. Judged by the clock on the wall, a healthy worker hangs and a client that
has sent everything is late. So time counts only while somebody looks at it at least every TICK_S: a step that is much
longer was an absence, and counts as nothing. What waits to be read is then read before anybody is judged.

Sleep of the machine: CLOCK_MONOTONIC on Linux and mach_absolute_time on macOS, which `time.monotonic` uses, stand still
meanwhile. On a system where that clock goes on, the sleep is one long step. Both are no time here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TICK_S: Final = 0.5
"""Whoever waits on this time looks at least so often."""
LATE_S: Final = 1.0
"""A longer step was an absence."""


class Attention:
    """Seconds that grow while `now` is called at least every TICK_S. For one thread.

    Of a process that is late again and again, every second absence counts LATE_S: slowly, its deadlines still pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen = self._now = clock()
        self._forgives_from = self._now

    def now(self) -> float:
        """The time. Never goes back."""
        seen = self._clock()
        step, self._seen = seen - self._seen, seen
        if step > LATE_S:
            step = 0.0 if self._now >= self._forgives_from else LATE_S
            self._forgives_from = self._now + step + LATE_S
        self._now += step
        return self._now
