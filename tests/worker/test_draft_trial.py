"""DraftTrial: when a draft counts as a loss, by figures alone."""

from __future__ import annotations

import pytest

from muse.worker.engines.llamacpp.draft_trial import LEAST_ANSWERS, LEAST_TOKENS, WINDOW_TOKENS, DraftTrial, Loss

TOKENS = WINDOW_TOKENS // LEAST_ANSWERS


def feed(trial: DraftTrial, *answers: tuple[float, float], tokens: int = TOKENS) -> list[Loss | None]:
    """Answers as (milliseconds a token with the draft, milliseconds of a step without)."""
    return [trial.note(tokens=tokens, decode_ms=with_ms * tokens, step_ms=step_ms) for with_ms, step_ms in answers]


def test_a_loss_needs_a_whole_window() -> None:
    """Four answers of 512 tokens in all; not one less of either."""
    assert feed(DraftTrial(), *[(20, 10)] * 3) == [None] * 3
    assert feed(DraftTrial(), *[(20, 10)] * 5, tokens=100) == [None] * 5
    assert feed(DraftTrial(), *[(20, 10)] * 3, tokens=1000) == [None] * 3
    loss = feed(DraftTrial(), *[(20, 10)] * 4)[-1]
    assert loss == Loss(with_draft=50.0, without=100.0, answers=4, tokens=512)
    assert loss.words == (
        "The draft costs more than it gives: 50.0 tokens/s with it, at least 100.0 without "
        "(the last 4 answers, 512 tokens)."
    )


@pytest.mark.parametrize(("with_ms", "lost"), [(5, False), (10, False), (10.9, False), (11.1, True), (30, True)])
def test_the_margin(with_ms: float, lost: bool) -> None:
    """Up to a tenth slower is as good as equal."""
    assert (feed(DraftTrial(), *[(with_ms, 10)] * 4)[-1] is not None) == lost


def test_one_slow_answer_does_not_decide() -> None:
    """Nor one slow step: another program had the machine for a while."""
    assert feed(DraftTrial(), (5, 10), (90, 10), (5, 10), (5, 10))[-1] is None
    assert feed(DraftTrial(), (20, 10), (20, 90), (20, 10), (20, 10))[-1] is not None


def test_a_machine_that_is_slower_for_both_is_no_loss() -> None:
    """The step is timed next to the answer, so that both are slow."""
    assert feed(DraftTrial(), (5, 10), (5, 10), (50, 100), (50, 100), (50, 100))[-1] is None


def test_old_answers_are_forgotten() -> None:
    """A draft that was good for code may be bad for what is asked now; and the other way round."""
    trial = DraftTrial()
    assert feed(trial, *[(5, 10)] * 20)[-1] is None
    assert feed(trial, *[(20, 10)] * 4)[-1] is not None
    assert feed(trial, *[(5, 10)] * 4)[-1] is None


def test_what_tells_nothing_is_left_out() -> None:
    """Short answers, and figures that were not to be had."""
    trial = DraftTrial()
    assert feed(trial, *[(20, 10)] * 100, tokens=LEAST_TOKENS - 1)[-1] is None
    assert feed(trial, *[(20, 0)] * 4, *[(0, 10)] * 4)[-1] is None
    assert feed(trial, *[(20, 10)] * 3)[-1] is None
