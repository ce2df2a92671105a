"""Time counts while somebody looks: an absence, however long, is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import trio

from actors.clock import AttentiveClock
from actors.supervisor.watchdog import GIL_HOLDING, HangLimits, Kill, Watchdog, limits_for
from muse.attention import LATE_S, TICK_S, Attention
from tests.absence import AbsentClock

AWAY_S = (8.0, 22.0, 60.0, 3600.0)
PHASES = ("load", "idle", "queue", "prefill", "decode", "cancel", "image", "writing")


class Wall:
    """A monotonic clock that the test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_ordinary_steps_count_in_full() -> None:
    """Up to the limit of lateness nothing is lost."""
    wall = Wall()
    attention = Attention(wall)
    begun = attention.now()
    for step in (0.0, 0.001, TICK_S, LATE_S, 0.25):
        wall.now += step
        attention.now()
    assert attention.now() - begun == pytest.approx(0.251 + TICK_S + LATE_S)


@pytest.mark.parametrize("away_s", AWAY_S)
def test_an_absence_counts_nothing(away_s: float) -> None:
    """Not even once it is over."""
    wall = Wall()
    attention = Attention(wall)
    begun = attention.now()
    wall.now += away_s
    assert attention.now() == begun
    wall.now += TICK_S
    assert attention.now() == begun + TICK_S


def test_a_process_that_is_always_late_still_gets_to_its_deadlines() -> None:
    """Also where it looks again and again in between."""
    wall = Wall()
    attention = Attention(wall)
    begun = attention.now()
    for _ in range(40):
        wall.now += 5.0
        attention.now()
        attention.now()
    assert attention.now() - begun >= 19 * LATE_S


def watched(phase: str, limits: HangLimits, now: float) -> Watchdog:
    """A worker in a phase, which has said so just now."""
    dog = Watchdog(now, limits)
    dog.line(now)
    if phase == "load":
        return dog
    dog.ready(limits)
    if phase in ("idle", "writing"):
        return dog
    dog.started("r", now)
    if phase != "queue":
        dog.progressed("r", now, token=phase in ("decode", "cancel"), picture=phase == "image")
    if phase == "cancel":
        dog.cancelled("r", now)
    return dog


@pytest.mark.parametrize("engine", ["llamacpp", "executorch"])
@pytest.mark.parametrize("away_s", AWAY_S)
@pytest.mark.parametrize("phase", PHASES)
def test_an_absence_is_no_fault_of_the_worker(phase: str, away_s: float, engine: str) -> None:
    """Whatever it was doing. One that stays silent afterwards is found as late as ever, and no later."""
    wall = Wall()
    attention = Attention(wall)
    dog = watched(phase, limits_for(engine), attention.now())
    unread_since = attention.now() if phase == "writing" else None
    wall.now += away_s
    assert dog.verdict(attention.now(), unread_since=unread_since) is None

    def later() -> float:
        wall.now += TICK_S
        return attention.now()

    there = watched(phase, limits_for(engine), 0.0)
    patience = ticks_until_killed(there, 0.0 if phase == "writing" else None, itertools.count(TICK_S, TICK_S))
    assert ticks_until_killed(dog, unread_since, iter(later, None)) == patience


def ticks_until_killed(dog: Watchdog, unread_since: float | None, times: Iterator[float]) -> int:
    return next(n for n, now in enumerate(times) if isinstance(dog.verdict(now, unread_since=unread_since), Kill))


def test_engines_that_hold_the_interpreter_may_leave_a_line_unread() -> None:
    """A queued request waits in the pipe for the end of a call of 10 s, or of minutes; not for ever."""
    dog = watched("prefill", limits_for("executorch"), 0.0)
    for now in (10.0, 60.0, GIL_HOLDING.unread_s):
        dog.progressed("r", now, token=False)
        dog.line(now)
        assert dog.verdict(now, unread_since=0.0) is None
    verdict = dog.verdict(GIL_HOLDING.unread_s + 1, unread_since=0.0)
    assert isinstance(verdict, Kill)
    assert "stopped reading" in verdict.reason


def test_a_worker_that_takes_a_line_slowly_is_reading() -> None:
    """Judged by its last byte, not by the whole line."""
    dog = watched("prefill", limits_for("llamacpp"), 0.0)
    for second in range(1, 100):
        dog.progressed("r", float(second), token=False)
        dog.line(float(second))
        assert dog.verdict(float(second), unread_since=second - 1.0) is None


@pytest.fixture
def absent_clock() -> AbsentClock:
    return AbsentClock()


async def test_every_deadline_of_trio_is_measured_so(absent_clock: AbsentClock) -> None:
    """Also one that is set already, and one whose task wakes up in the same moment."""
    news = trio.Event()
    with trio.move_on_after(5) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(news.wait)
            await trio.lowlevel.checkpoint()
            absent_clock.away(60)
            await trio.lowlevel.checkpoint()
            news.set()
    assert not scope.cancelled_caught


def test_trio_looks_at_least_every_tick() -> None:
    """Whatever the next deadline is."""
    clock = AttentiveClock()
    assert clock.deadline_to_sleep_time(clock.current_time() + 3600) == TICK_S
    assert clock.deadline_to_sleep_time(clock.current_time() + TICK_S / 2) <= TICK_S / 2
