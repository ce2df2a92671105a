"""Deadlines that were missed because this process did not run (stopped, swapped out, asleep) judge nobody.

When the process continues, every deadline expires at once, before the input that arrived meanwhile was read. Trio sets
the deadline, so its lateness can be measured where it is caught: a late one is given again.

Sleep of the machine: the clock is CLOCK_MONOTONIC on Linux, which stands still then (nothing to do), and
mach_absolute_time on macOS, which does too. A clock that goes on during sleep looks like a stopped process.
"""

from __future__ import annotations

from typing import Final

import trio

LATE_S: Final = 0.5
"""An event loop that works is never so late; `/health` answers within 0.1 s under load."""


def came_late(scope: trio.CancelScope) -> bool:
    """Whether the deadline that cancelled this scope was noticed too late to mean anything."""
    return trio.current_time() - scope.deadline > LATE_S
