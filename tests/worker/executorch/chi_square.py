"""Whether draws fit a distribution: Pearson's chi-square, with its quantile by Wilson and Hilferty."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MIN_EXPECTED: Final = 5.0
# Standard normal quantile of 1 - 1e-5: with fixed seeds a test fails always or never, so what counts is only that a
# wrong distribution is found. Those that were tried (a top-p that is a token too long, drafts that are accepted always)
# are beyond it many times over.
_QUANTILE: Final = 4.265


def excess(counts: NDArray[np.int_], probabilities: NDArray[np.float64]) -> float:
    """Chi-square over its critical value: above 1 the draws do not fit. Rare outcomes count together; one that cannot
    be must not be."""
    assert counts[probabilities == 0].sum() == 0, "a token was drawn that has no probability"
    expected = probabilities * counts.sum()
    common = expected >= _MIN_EXPECTED
    observed = [*counts[common], counts[~common].sum()]
    wanted = [*expected[common], expected[~common].sum()]
    cells = [(o, w) for o, w in zip(observed, wanted, strict=True) if w > 0]
    degrees = max(len(cells) - 1, 1)
    value = sum((o - w) ** 2 / w for o, w in cells)
    critical = degrees * (1 - 2 / (9 * degrees) + _QUANTILE * math.sqrt(2 / (9 * degrees))) ** 3
    return value / critical
