"""When to restart a dead worker, when to give up: the restart rule as plain data and functions.

A death after at least one token since `ready` restarts at once and costs nothing (the turn's own limit
on resumes bounds it). Deaths before the first token back off 0.5, 2 and 8 s; the fourth within the
longer of 120 s and four load times gives up. What cannot get better by trying again (a missing file,
no memory for the first load) gives up at once. Time comes in as a value, so this file knows no clock.

Two kinds of end never give up, however often they come. A death while a loaded worker had requests: the limits of each
turn bound it, and no request may take the model from everybody else. And a start that the system refused (no process,
thread, descriptor or memory to be had): it proves nothing about the model, and what others hold they give back.
"""

from __future__ import annotations

from typing import Final

import attrs

BACK_OFF_S: Final = (0.5, 2.0, 8.0)
MIN_WINDOW_S: Final = 120.0
REFUSAL_PAUSES_S: Final = (0.5, 2.0, 8.0, 30.0)
"""After refused starts; the last one for all that follow."""
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


@attrs.frozen(kw_only=True)
class End:
    """How a life ended. hopeless: the load failed, and would again. in_request: it was loaded and had requests.
    refused: the system had no room for it."""

    reason: str
    had_token: bool = False
    hopeless: bool = False
    in_request: bool = False
    refused: bool = False


@attrs.define(slots=True)
class RestartPolicy:
    """Remembers the early deaths. `load_s` is the duration of the last good load, 0 if there was none."""

    load_s: float = 0.0
    _early_deaths: list[float] = attrs.field(factory=list[float], alias="early_deaths")
    _request_deaths: list[float] = attrs.field(factory=list[float], init=False)
    _refusals: int = attrs.field(default=0, init=False)

    def loaded(self, load_s: float) -> None:
        """A worker is ready, after so many seconds."""
        self.load_s = load_s
        self._refusals = 0

    def decide(self, end: End, now: float) -> Decision:
        """What follows the end of a worker at time `now` (seconds)."""
        if end.refused:
            self._refusals += 1
            return Restart(REFUSAL_PAUSES_S[min(self._refusals, len(REFUSAL_PAUSES_S)) - 1])
        if end.hopeless and not self.load_s:
            return GiveUp(end.reason)  # what was loaded once may well be loaded again
        if end.had_token:
            self._early_deaths.clear()
            self._request_deaths.clear()
            return Restart(0.0)
        window_s = max(MIN_WINDOW_S, LOADS_IN_WINDOW * self.load_s)
        if end.in_request:
            self._request_deaths = _within(self._request_deaths, now, window_s)
            return Restart(BACK_OFF_S[min(len(self._request_deaths), len(BACK_OFF_S)) - 1])
        self._early_deaths = _within(self._early_deaths, now, window_s)
        count = len(self._early_deaths)
        if count > len(BACK_OFF_S):
            return GiveUp(f"{end.reason} ({count} times within {window_s:.0f} s)")
        return Restart(BACK_OFF_S[count - 1])

    def forget(self) -> None:
        """A person asked for another try: all tries are new."""
        self._early_deaths.clear()
        self._request_deaths.clear()
        self._refusals = 0


def _within(deaths: list[float], now: float, window_s: float) -> list[float]:
    """Those of the window, and the one of now."""
    return [*(death for death in deaths if now - death < window_s), now]
