"""Penalties for repetition, on the logits before anything else looks at them (the rule: muse.protocol.Sampling)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from muse.protocol import PENALTY_WINDOW, Sampling, penalties_on
from muse.worker.engines.executorch.distribution import Row


class Penalties:
    """Of one answer. before: the tokens of its prompt that count, or the last of them."""

    def __init__(self, sampling: Sampling, before: Iterable[int]) -> None:
        self._sampling = sampling
        self._recent = deque(before, maxlen=PENALTY_WINDOW)
        self._lowered: Row | None = None

    def lower(self, row: Row) -> Row:
        """The logits with the penalties; true until the next call. The row stays as it is."""
        ids, counts = np.unique(np.fromiter(self._recent, np.intp), return_counts=True)
        if self._lowered is None or self._lowered.size != row.size:
            self._lowered = np.empty_like(row)
        lowered = self._lowered
        np.copyto(lowered, row)
        logits = row[ids]
        repeat = np.float32(self._sampling.repeat_penalty)
        logits = np.where(logits > 0, logits / repeat, logits * repeat)
        logits -= np.float32(self._sampling.presence_penalty)
        lowered[ids] = logits - counts * np.float32(self._sampling.frequency_penalty)
        return lowered

    def take(self, token: int) -> None:
        """A token has come."""
        self._recent.append(token)


def penalties_of(sampling: Sampling, before: Iterable[int]) -> Penalties | None:
    """None where all are off: they cost time with every token."""
    return Penalties(sampling, before) if penalties_on(sampling) else None
