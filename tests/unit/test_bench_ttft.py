"""`muse bench ttft`: what it makes of its measurements."""

from __future__ import annotations

import pytest

from muse.bench.ttft import report


@pytest.mark.parametrize(
    ("added_ms", "is_kept"),
    [
        ([4.9] * 100, True),
        ([5.1] * 51 + [1.0] * 49, False),
        ([1.0] * 98 + [10.5] * 2, False),
        ([1.0] * 99 + [500.0], True),
        ([-3.0] * 100, True),
    ],
)
def test_the_budget_is_of_the_differences(added_ms: list[float], is_kept: bool) -> None:
    """By the middle and the 99th percentile of what each pair adds, whatever the engine itself takes."""
    direct_s = [0.01 * (1 + number % 7) for number in range(len(added_ms))]
    served_s = [engine_s + added / 1000 for engine_s, added in zip(direct_s, added_ms, strict=True)]
    text, kept = report(served_s, direct_s)
    assert kept is is_kept
    assert ("BROKEN" in text) is not is_kept
