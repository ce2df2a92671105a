"""The restart rule, with time as a value."""

from __future__ import annotations

from actors.supervisor.policy import GiveUp, Restart, RestartPolicy


def early(policy: RestartPolicy, now: float) -> Restart | GiveUp:
    return policy.on_death(now, had_token=False, reason="It died.", hopeless=False)


def test_early_deaths_back_off_and_the_fourth_gives_up() -> None:
    """0.5, 2, 8 s, then failed with the reason."""
    policy = RestartPolicy()
    assert [early(policy, now) for now in (0.0, 1.0, 4.0)] == [Restart(0.5), Restart(2.0), Restart(8.0)]
    fourth = early(policy, 14.0)
    assert isinstance(fourth, GiveUp)
    assert fourth.reason.startswith("It died.")


def test_early_deaths_outside_the_window_are_forgotten() -> None:
    """Four deaths spread over more than 120 s never give up."""
    policy = RestartPolicy()
    assert all(isinstance(early(policy, now), Restart) for now in (0.0, 50.0, 100.0, 150.0, 200.0))


def test_a_slow_loader_gets_a_longer_window() -> None:
    """With a load of 60 s the window is 240 s: deaths 70 s apart still add up."""
    policy = RestartPolicy(load_s=60.0)
    decisions = [early(policy, now) for now in (0.0, 70.0, 140.0, 210.0)]
    assert isinstance(decisions[-1], GiveUp)


def test_a_death_after_a_token_costs_nothing() -> None:
    """A worker that served restarts at once and clears the record."""
    policy = RestartPolicy()
    for now in (0.0, 1.0, 2.0):
        early(policy, now)
    assert policy.on_death(3.0, had_token=True, reason="x", hopeless=False) == Restart(0.0)
    assert early(policy, 4.0) == Restart(0.5)


def test_what_cannot_get_better_gives_up_at_once() -> None:
    """A missing file or no memory: no loop."""
    decision = RestartPolicy().on_death(0.0, had_token=False, reason="No such file.", hopeless=True)
    assert decision == GiveUp("No such file.")


def test_another_try_starts_afresh() -> None:
    """After `forget` all tries are there again."""
    policy = RestartPolicy()
    for now in (0.0, 1.0, 2.0):
        early(policy, now)
    policy.forget()
    assert early(policy, 3.0) == Restart(0.5)
