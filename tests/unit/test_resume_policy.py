"""When an answer goes on after its worker was lost."""

from __future__ import annotations

from actors.sessions.resume_policy import MAX_RESUMES, ResumePolicy
from muse.errors import ClientFault, MuseError, Unavailable, WorkerFault

LOST = WorkerFault("worker_lost", "It is gone.")
RESTARTED = WorkerFault("worker_restarted", "Somebody wanted it.")


def code(fault: MuseError | None) -> str | None:
    return fault.code if fault is not None else None


def test_two_deaths_at_different_places_are_survived() -> None:
    """The third is told as it is."""
    policy = ResumePolicy()
    verdicts = [code(policy.judge(LOST, generated=place, accepted=True)) for place in (0, 3, 9)]
    assert verdicts == [None, None, "worker_lost"]
    assert policy.resumes == MAX_RESUMES


def test_the_same_place_twice_is_poison() -> None:
    """Whether in prefill or after some tokens."""
    for place in (0, 5):
        policy = ResumePolicy()
        verdicts = [code(policy.judge(LOST, generated=place, accepted=True)) for _ in range(2)]
        assert verdicts == [None, "poison_prompt"]


def test_a_worker_that_dies_before_it_accepts_says_nothing_about_the_request() -> None:
    """Nor does a restart that somebody asked for."""
    policy = ResumePolicy()
    assert policy.judge(LOST, generated=0, accepted=False) is None
    assert policy.judge(LOST, generated=0, accepted=True) is None
    assert code(policy.judge(LOST, generated=0, accepted=False)) == "worker_lost"
    policy = ResumePolicy()
    assert policy.judge(RESTARTED, generated=4, accepted=True) is None
    assert policy.judge(LOST, generated=4, accepted=True) is None


def test_a_request_that_never_reached_a_worker_costs_nothing() -> None:
    """However often."""
    policy = ResumePolicy()
    unavailable = Unavailable("model_unavailable", "No worker.")
    assert [policy.judge(unavailable, generated=0, accepted=False) for _ in range(5)] == [None] * 5
    assert policy.resumes == 0


def test_other_faults_end_the_answer() -> None:
    """They are the request's own."""
    fault = ClientFault("bad_request", "No.")
    assert ResumePolicy().judge(fault, generated=0, accepted=False) is fault
