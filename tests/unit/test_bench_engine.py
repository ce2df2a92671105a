"""`muse bench engine`: what it makes of one measurement. It is run in that engine's own tests."""

from __future__ import annotations

from typing import Any

import pytest

from muse.bench.engine import report


def measured(worst_ms: float) -> dict[str, Any]:
    cycles = {"greedy": [0.1] * 60, "temperature 1": [worst_ms] * 51 + [0.1] * 49}
    return {"kind": "dflash", "vocabulary": 202_048, "cycles_ms": cycles}


@pytest.mark.parametrize(("worst_ms", "is_kept"), [(1.99, True), (2.0, False)])
def test_the_budget_is_that_of_the_slowest_setting(worst_ms: float, is_kept: bool) -> None:
    """By the middle of its cycles; the table names each, and the vocabulary that it was measured with."""
    text, kept = report(measured(worst_ms))
    assert kept is is_kept
    assert f"{worst_ms:.2f}" in text
    assert "202048" in text
    assert ("BROKEN" in text) is not is_kept
