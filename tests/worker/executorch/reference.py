"""Penalties and the distribution of a row, written down plainly: everything sorted, nothing clever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muse.protocol import PENALTY_WINDOW, Sampling


def penalised(row: NDArray[np.float32], before: Sequence[int], sampling: Sampling) -> NDArray[np.float64]:
    """The row as its penalties leave it. before: all tokens of prompt and answer."""
    found = row.astype(np.float64)
    for token, times in Counter(before[-PENALTY_WINDOW:]).items():
        value = found[token]
        value = value / sampling.repeat_penalty if value > 0 else value * sampling.repeat_penalty
        found[token] = value - sampling.presence_penalty - sampling.frequency_penalty * times
    return found


def exact(row: NDArray[np.floating], sampling: Sampling) -> NDArray[np.float64]:
    """Probability of each token at a temperature above 0."""
    scaled = row.astype(np.float64) / sampling.temperature
    shares = np.exp(scaled - scaled.max())
    order = sorted(range(row.size), key=lambda token: (-row[token], token))
    if sampling.top_k:
        order = order[: sampling.top_k]
    total = sum(shares[token] for token in order)
    kept: list[int] = []
    reached = 0.0
    for token in order:
        if sampling.top_p < 1 and reached >= sampling.top_p * total:
            break
        kept.append(token)
        reached += shares[token]
    kept = [token for token in kept if shares[token] >= sampling.min_p * shares[order[0]]]
    found = np.zeros(row.size)
    found[kept] = shares[kept]
    return found / found.sum()
