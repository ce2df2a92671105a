"""Chooses the tokens of one answer from rows of logits, on the host.

Penalties change the logits first. Tokens that the answer's form forbids are left out then; what is left has the
distribution of `distribution.py`.
Temperature 0 takes the largest. Drafted tokens are accepted so that what comes out has exactly the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from muse.protocol import Sampling
from muse.worker.engines.executorch.distribution import Ids, NotANumber, Row, distribution
from muse.worker.engines.executorch.penalties import penalties_of


class Constraint(Protocol):
    """What an answer is held to. Its tokens come in order."""

    def narrow(self, row: Row) -> tuple[Row, Ids | None]:
        """The logits of the tokens that may come next, of which there is one at least, and which tokens these are,
        ascending. None: each place is that of its token, those that may not come have minus infinity, and those behind
        the row's end may not come either. True until the next call. Raises EngineFault."""
        ...

    def take(self, token: int) -> None:
        """A token has come, one of those that might. Raises EngineFault."""
        ...


class Sampler:
    """The same seed, model and prompt give the same answer; without one it is random. Draws are not those of another
    engine with the same seed. constraint: what the answer is held to. before: the last tokens of the prompt, for
    penalties. Asked for each token of the answer once, in their order."""

    def __init__(self, sampling: Sampling, constraint: Constraint | None = None, before: Iterable[int] = ()) -> None:
        self._sampling = sampling
        self._penalties = penalties_of(sampling, before)
        self._constraint = constraint
        self._generator = np.random.Generator(np.random.PCG64(sampling.seed))

    def choose(self, row: Row) -> int:
        """The next token. Raises NotANumber, EngineFault."""
        return self._decide(row, None)

    def accept(self, row: Row, drafted: int) -> int:
        """The next token, where a draft names `drafted` with certainty: that, with the probability that it has, or else
        one of the others, with the shares that they have of what is left. Raises NotANumber, EngineFault."""
        return self._decide(row, drafted)

    def _decide(self, row: Row, drafted: int | None) -> int:
        if self._penalties is None:
            return self._allowed(row, drafted)
        token = self._allowed(self._penalties.lower(row), drafted)
        self._penalties.take(token)
        return token

    def _allowed(self, row: Row, drafted: int | None) -> int:
        """The token that is chosen among those that may come."""
        if self._constraint is None:
            return self._place(row, drafted)
        row, ids = self._constraint.narrow(row)
        place = self._place(row, None if drafted is None else _place_of(drafted, row, ids))
        token = place if ids is None else int(ids[place])
        self._constraint.take(token)
        return token

    def _place(self, row: Row, drafted: int | None) -> int:
        """The place in a row that is chosen."""
        if self._sampling.temperature <= 0:
            return _best(row)
        found = distribution(row, self._sampling)
        if drafted is None:
            return found.draw(self._generator)
        if self._generator.random() < found.share(drafted):
            return drafted
        others = found.without(drafted)
        return drafted if others is None else others.draw(self._generator)


def _place_of(token: int, row: Row, ids: Ids | None) -> int | None:
    """Where a token is in a narrowed row, if it is."""
    if ids is None:
        return token if token < row.size else None
    place = int(ids.searchsorted(token))
    return place if place < ids.size and ids[place] == token else None


def _best(row: Row) -> int:
    place = int(row.argmax())
    if not math.isfinite(row[place]):
        raise NotANumber
    return place
