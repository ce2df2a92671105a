"""The restart rule, with time as a value."""

from __future__ import annotations

from actors.supervisor.policy import End, GiveUp, Restart, RestartPolicy


def early(policy: RestartPolicy, now: float) -> Restart | GiveUp:
    return policy.decide(End(reason="It died."), now)


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
    assert policy.decide(End(reason="x", had_token=True), 3.0) == Restart(0.0)
    assert early(policy, 4.0) == Restart(0.5)


def test_what_cannot_get_better_gives_up_at_once() -> None:
    """A missing file or no memory: no loop."""
    decision = RestartPolicy().decide(End(reason="No such file.", hopeless=True), 0.0)
    assert decision == GiveUp("No such file.")


def test_another_try_starts_afresh() -> None:
    """After `forget` all tries are there again."""
    policy = RestartPolicy()
    for now in (0.0, 1.0, 2.0):
        early(policy, now)
    policy.forget()
    assert early(policy, 3.0) == Restart(0.5)


def test_what_was_loaded_once_may_be_loaded_again() -> None:
    """No memory for a later load, a file that is away for a moment: the tries of any early death."""
    policy = RestartPolicy()
    policy.loaded(1.0)
    decisions = [policy.decide(End(reason="x", hopeless=True), now) for now in (0.0, 1.0, 4.0, 14.0)]
    assert decisions[:3] == [Restart(0.5), Restart(2.0), Restart(8.0)]
    assert isinstance(decisions[3], GiveUp)


def test_refused_starts_never_give_up() -> None:
    """0.5, 2, 8, then every 30 s; they count for no death, and a good load forgets them."""
    policy = RestartPolicy()
    refused = End(reason="Resource temporarily unavailable", refused=True)
    pauses = [policy.decide(refused, float(now)) for now in range(100)]
    assert pauses == [Restart(0.5), Restart(2.0), Restart(8.0), *[Restart(30.0)] * 97]
    assert early(policy, 100.0) == Restart(0.5)
    policy.loaded(1.0)
    assert policy.decide(refused, 101.0) == Restart(0.5)


def test_deaths_in_requests_never_give_up() -> None:
    """They back off, apart from those of a worker that dies by itself."""
    policy = RestartPolicy()
    end = End(reason="It died.", in_request=True)
    pauses = [policy.decide(end, float(now)) for now in range(20)]
    assert pauses == [Restart(0.5), Restart(2.0), *[Restart(8.0)] * 18]
    assert policy.decide(end, 1000.0) == Restart(0.5)
    assert early(policy, 1001.0) == Restart(0.5)
