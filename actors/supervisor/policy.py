"""When to restart a dead worker, when to give up: the restart rule as plain data and functions.

A death after at least one token since `ready` restarts at once and costs nothing (the turn's own limit
on resumes bounds it). Deaths before the first token back off 0.5, 2 and 8 s; the fourth within the
longer of 120 s and four load times gives up. What cannot get better by trying again (a missing file,
no memory) gives up at once. Time comes in as a value, so this file knows no clock.
"""

from __future__ import annotations

from typing import Final

import attrs

BACK_OFF_S: Final = (0.5, 2.0, 8.0)
MIN_WINDOW_S: Final = 120.0
LOADS_IN_WINDOW: Final = 4
"""A slow loader must be able to use up its tries within the window."""


@attrs.frozen
class Restart:
    """Start another worker after a pause."""

    after_s: float


@attrs.frozen
class GiveUp:
    """Stay down until somebody asks for another try."""

    reason: str


Decision = Restart | GiveUp


@attrs.define(slots=True)
class RestartPolicy:
    """Remembers the early deaths. `load_s` is the duration of the last good load, 0 if there was none."""

    load_s: float = 0.0
    _early_deaths: list[float] = attrs.field(factory=list[float], alias="early_deaths")

    def on_death(self, now: float, *, had_token: bool, reason: str, hopeless: bool) -> Decision:
        """Decide what follows a death at monotonic time `now` (seconds)."""
        if hopeless:
            return GiveUp(reason)
        if had_token:
            self._early_deaths.clear()
            return Restart(0.0)
        window_s = max(MIN_WINDOW_S, LOADS_IN_WINDOW * self.load_s)
        self._early_deaths = [death for death in self._early_deaths if now - death < window_s]
        self._early_deaths.append(now)
        count = len(self._early_deaths)
        if count > len(BACK_OFF_S):
            return GiveUp(f"{reason} ({count} times within {window_s:.0f} s)")
        return Restart(BACK_OFF_S[count - 1])

    def forget(self) -> None:
        """A person asked for another try: all tries are new."""
        self._early_deaths.clear()
