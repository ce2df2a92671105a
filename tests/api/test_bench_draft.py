"""`muse bench draft`: a run with muse-nano, and what it makes of answers that differ."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muse.bench.draft import QUESTIONS, Round, report
from tests.server_process import HANG_GUARD_S, PROJECT
from tests.worker.nano import DRAFT, MODEL

pytestmark = pytest.mark.thorough


def made(*, decode_ms: float, proposed: int, last: str = "same") -> Round:
    texts = tuple("same" for _ in QUESTIONS[1:])
    return Round(texts=(*texts, last), tokens=100, decode_ms=decode_ms, proposed=proposed, accepted=proposed // 2)


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muse", "bench", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=2 * HANG_GUARD_S,
        check=False,
    )


def test_muse_nano_says_the_same_with_its_draft() -> None:
    """Exit 0: whatever the speeds are, the answers are the same, and most guesses are right."""
    outcome = run_bench("--model", str(MODEL), "draft", "--draft", str(DRAFT), "--rounds", "1", "--tokens", "60")
    assert outcome.returncode == 0, outcome.stderr
    *_, ratio, accepted, identical = outcome.stdout.splitlines()
    assert ratio.startswith("ratio ")
    _, right, _, guesses, *_ = accepted.split()
    assert int(right) > int(guesses) / 2
    assert identical == "answers identical"


def test_both_files_are_asked_for() -> None:
    """None is built in."""
    outcome = run_bench("draft")
    assert outcome.returncode == 2
    assert "--draft" in outcome.stderr
    assert "Needs both files" in " ".join(run_bench("draft", "--help").stdout.split())


@pytest.mark.parametrize(("last", "fine"), [("same", True), ("sane", False), ("same and more", False)])
def test_answers_that_differ_break_it(last: str, fine: bool) -> None:
    """In one answer of one round: the question and the place are named."""
    good = made(decode_ms=1000, proposed=80), made(decode_ms=2000, proposed=0)
    text, outcome = report([good, (made(decode_ms=1000, proposed=80, last=last), good[1]), good])
    assert outcome is fine
    assert "ratio 2.00 (median of 3 pairs of 5 answers, 100 tokens)" in text
    assert "accepted 120 of 240 guesses (50%)" in text
    place = {"sane": 2, "same and more": 4}.get(last)
    assert ("answers identical" in text) == fine
    assert fine or f"NOT identical: 'Make a list.': the answers part after {place} characters" in text
