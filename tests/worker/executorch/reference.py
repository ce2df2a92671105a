"""The distribution of a row, written down plainly: everything sorted, nothing clever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muse.protocol import Sampling


def exact(row: NDArray[np.float32], sampling: Sampling) -> NDArray[np.float64]:
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
