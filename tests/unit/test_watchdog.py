"""The watchdog's judgements, phase by phase, with time as a value."""

from __future__ import annotations

import pytest

from actors.supervisor.watchdog import GIL_HOLDING, HangLimits, Kill, SendPing, Terminate, Watchdog, limits_for

LIMITS = HangLimits()


def loaded(limits: HangLimits = LIMITS) -> Watchdog:
    dog = Watchdog(0.0)
    dog.line(0.0)
    dog.ready(limits)
    return dog


def test_a_load_is_judged_by_its_own_lines() -> None:
    """120 s of silence, not 120 s of loading; a slow last load earns more patience."""
    dog = Watchdog(0.0)
    dog.line(100.0)
    assert dog.verdict(219.0) is None
    assert isinstance(dog.verdict(221.0), Kill)
    patient = Watchdog(0.0, last_load_s=100.0)
    assert patient.verdict(299.0) is None
    assert isinstance(patient.verdict(301.0), Kill)


def test_a_silent_idle_worker_is_asked_and_then_ended() -> None:
    """One ping after 5 s; an answer resets everything; none within 15 s is a hang."""
    dog = loaded()
    assert dog.verdict(5.0) is None
    assert dog.verdict(6.0) == SendPing()
    assert dog.verdict(7.0) is None
    dog.line(7.5)
    assert dog.verdict(12.0) is None
    assert dog.verdict(13.0) == SendPing()
    verdict = dog.verdict(23.0)
    assert isinstance(verdict, Kill)
    assert "stopped answering" in verdict.reason


@pytest.mark.parametrize("limits", [LIMITS, GIL_HOLDING], ids=["ordinary", "holds the interpreter"])
def test_a_line_of_which_nothing_is_taken_ends_the_worker(limits: HangLimits) -> None:
    """By the time since the last byte, whatever it says meanwhile; longer where calls hold the interpreter."""
    dog = loaded(limits)
    dog.line(1000.0)
    assert dog.verdict(1000.0, unread_since=1000.0 - limits.unread_s) is None
    assert dog.verdict(1000.0, unread_since=None) is None
    verdict = dog.verdict(1000.0, unread_since=999.0 - limits.unread_s)
    assert isinstance(verdict, Kill)
    assert "stopped reading" in verdict.reason


@pytest.mark.parametrize(("token", "limit_s"), [(False, LIMITS.silent_prefill_s), (True, LIMITS.silent_decode_s)])
def test_silence_while_busy_has_the_limit_of_its_phase(token: bool, limit_s: float) -> None:
    """Prefill may be silent for longer than decode."""
    dog = loaded()
    dog.started("r", 0.0)
    dog.progressed("r", 0.0, token=token)
    assert not isinstance(dog.verdict(limit_s), Kill)
    assert isinstance(dog.verdict(limit_s + 1), Kill)


def test_a_worker_that_talks_but_gets_nowhere_is_stuck() -> None:
    """Pings are answered, no token comes: 60 s in decode, 120 s in prefill."""
    dog = loaded()
    dog.started("r", 0.0)
    dog.progressed("r", 1.0, token=True)
    for second in range(2, 61):
        dog.line(float(second))
        assert not isinstance(dog.verdict(float(second)), Kill)
    dog.line(62.0)
    assert isinstance(dog.verdict(62.0), Kill)
    dog.ended("r")
    assert dog.verdict(62.0) is None


def test_a_disobeyed_cancel_climbs_the_ladder() -> None:
    """2 s, SIGTERM once, 1 s, SIGKILL; an end in between is the end of it."""
    dog = loaded()
    dog.started("r", 0.0)
    dog.progressed("r", 0.1, token=True)
    dog.cancelled("r", 1.0)
    dog.line(3.0)
    assert dog.verdict(3.0) is None
    assert isinstance(dog.verdict(3.1), Terminate)
    assert dog.verdict(3.2) is None
    assert isinstance(dog.verdict(4.1), Kill)
    dog.ended("r")
    dog.line(4.2)
    assert dog.verdict(4.2) is None


def test_slow_steps_earn_a_cancel_more_time() -> None:
    """A worker that needs 2 s for one step cannot stop within 2 s: it gets three steps."""
    dog = loaded()
    dog.started("r", 0.0)
    dog.progressed("r", 1.0, token=False)
    dog.progressed("r", 3.0, token=False)
    dog.cancelled("r", 3.0)
    dog.line(9.0)
    assert dog.verdict(9.0) is None
    assert isinstance(dog.verdict(9.1), Terminate)


def test_a_wait_for_the_engine_is_no_step() -> None:
    """A request that waited 55 s until it was accepted earns no cancel more time, neither its own nor later ones."""
    dog = loaded()
    dog.started("first", 0.0)
    dog.progressed("first", 55.0, token=False)
    dog.progressed("first", 55.5, token=True)
    dog.ended("first")
    dog.started("next", 56.0)
    dog.progressed("next", 56.1, token=True)
    dog.cancelled("next", 56.2)
    dog.line(58.3)
    assert isinstance(dog.verdict(58.3), Terminate)


def test_a_wait_for_another_requests_image_is_no_step() -> None:
    """While it is encoded, and in the step that ends with it."""
    dog = loaded()
    dog.started("other", 0.0)
    dog.progressed("other", 0.1, token=True)
    dog.started("sees", 0.2)
    dog.progressed("sees", 0.3, token=False, picture=True)
    dog.progressed("sees", 40.0, token=False)
    dog.progressed("other", 40.1, token=True)
    dog.ended("sees")
    dog.cancelled("other", 40.2)
    dog.line(42.3)
    assert isinstance(dog.verdict(42.3), Terminate)


def test_looking_at_a_picture_earns_a_cancel_more_time() -> None:
    """Also that of another request, which has to wait for it."""
    dog = loaded()
    dog.started("sees", 0.0)
    dog.started("other", 0.0)
    dog.progressed("other", 0.1, token=True)
    dog.progressed("sees", 0.1, token=False, picture=True)
    dog.cancelled("other", 1.0)
    dog.line(21.0)
    assert dog.verdict(21.0) is None
    assert isinstance(dog.verdict(21.1), Terminate)


def test_a_slow_picture_says_nothing_of_other_steps() -> None:
    """Behind it a cancel has the time that it always had."""
    dog = loaded()
    dog.started("r", 0.0)
    dog.progressed("r", 0.1, token=False, picture=True)
    dog.progressed("r", 25.0, token=False)
    dog.cancelled("r", 25.0)
    dog.line(27.0)
    assert dog.verdict(27.0) is None
    assert isinstance(dog.verdict(27.1), Terminate)


def test_a_slow_picture_is_progress_while_it_says_so() -> None:
    """For all requests: the engine does nothing else meanwhile."""
    dog = loaded()
    dog.started("sees", 0.0)
    dog.started("other", 0.0)
    dog.progressed("other", 0.1, token=True)
    for second in range(10, 300, 10):
        dog.progressed("sees", float(second), token=False, picture=True)
        dog.line(float(second))
        assert dog.verdict(float(second)) is None
    dog.line(290.0 + LIMITS.stuck_decode_s + 1)
    assert isinstance(dog.verdict(290.0 + LIMITS.stuck_decode_s + 1), Kill)


def test_engines_that_hold_the_interpreter_have_more_time() -> None:
    """A ping cannot be answered during such a call."""
    dog = loaded(GIL_HOLDING)
    dog.started("r", 0.0)
    assert not isinstance(dog.verdict(LIMITS.silent_prefill_s + 1), Kill)
    assert isinstance(dog.verdict(GIL_HOLDING.silent_prefill_s + 1), Kill)


def test_their_load_and_their_first_step_may_be_one_long_call() -> None:
    """Of which nothing was seen before; no such engine is ended for it."""
    assert limits_for("executorch") == GIL_HOLDING
    assert limits_for("llamacpp") == limits_for("native") == LIMITS
    dog = Watchdog(0.0, limits_for("executorch"))
    assert dog.verdict(GIL_HOLDING.load_s - 1) is None
    dog.line(0.0)
    dog.ready(limits_for("executorch"))
    dog.started("r", 0.0)
    dog.cancelled("r", 1.0)
    assert not isinstance(dog.verdict(16.0), Terminate)
    assert isinstance(dog.verdict(GIL_HOLDING.cancel_s + 1.5), Terminate)
