"""The clock of the main process: Trio's deadlines, measured in attention (`muse.attention`).

`trio.run` gets it once, so it holds for every deadline there is: the watchdog and its kill ladder, restart pauses,
limits of HTTP heads, bodies and silence, unattended replies, the shelf, the grace at stop, and the timers of libraries.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from muse.attention import TICK_S, Attention


class AttentiveClock(trio.abc.Clock):
    """source: monotonic seconds; tests make their own absences with it."""

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        self._attention = Attention(source)

    def start_clock(self) -> None:
        """Trio begins to look."""
        self._attention.now()

    def current_time(self) -> float:
        """Seconds of attention. Trio looks in every pass of its loop, after it has read what waited."""
        return self._attention.now()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How long Trio may wait for events: never longer than a tick."""
        return min(deadline - self._attention.now(), TICK_S)
