"""What a token may become, by a row of logits.

The distribution of a row: softmax of logits / temperature; of these the `top_k` largest; of these, with their shares of
what is left, the smallest number whose shares reach `top_p`; of these the ones with at least `min_p` of the largest
share. Order as in contracts/pte-contract.md section 7; among equal logits the lower id counts as the larger.

A row has 202,048 entries and there are four of them a cycle, so nothing is sorted that need not be: candidates are
found by the largest entries of columns.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from muse.protocol import Sampling

Row = NDArray[np.float32]
Ids = NDArray[np.intp]

# Columns that a row is folded to; the largest entries of each are looked at instead of the row.
_COLUMNS: Final = 4096
# How many candidates of `top_p` are looked at first: an answer's tokens rarely have more.
_FIRST_CANDIDATES: Final = 256
# Bits of a number in single precision that tell apart the numbers of one bin: 8 of the fraction are left.
_BIN_BITS: Final = 15
_DRAW_BLOCK: Final = 512


class NotANumber(ArithmeticError):
    """The model gave logits that are no numbers."""


def largest(values: Row, count: int) -> Ids:
    """Places of the `count` largest values, largest first; among equals the first."""
    chosen = _at_least_largest(values, count)
    order = np.argsort(-values[chosen], kind="stable")[:count]
    return chosen[order]


def _at_least_largest(values: Row, count: int) -> Ids:
    """Places, ascending, of at least the `count` largest values, and of few others."""
    whole = values.size - values.size % _COLUMNS
    if count >= values.size:
        return np.arange(values.size)
    if count <= _COLUMNS // 4 and whole:
        # So many columns have an entry of at least their count-th largest one, so the row has as many.
        peaks = values[:whole].reshape(-1, _COLUMNS).max(axis=0)
        floor = np.partition(peaks, _COLUMNS - count)[_COLUMNS - count]
    else:
        floor = np.partition(values, values.size - count)[values.size - count]
    return np.flatnonzero(values >= floor)


@attrs.frozen(kw_only=True, eq=False)
class Distribution:
    """What a token may become. ids: the tokens that are left, None: all. weights: their shares, of `total`."""

    ids: Ids | None
    weights: Row
    total: float

    def share(self, token: int) -> float:
        """Probability of a token."""
        place = self._place(token)
        return float(self.weights[place]) / self.total if place is not None else 0.0

    def draw(self, generator: np.random.Generator) -> int:
        """A token with its probability."""
        if self.weights.size <= _DRAW_BLOCK:
            place = _draw(self.weights, generator)
        else:
            starts = np.arange(0, self.weights.size, _DRAW_BLOCK)
            block = _draw(np.add.reduceat(self.weights, starts), generator)
            begin = block * _DRAW_BLOCK
            place = begin + _draw(self.weights[begin : begin + _DRAW_BLOCK], generator)
        return int(place if self.ids is None else self.ids[place])

    def without(self, token: int) -> Distribution | None:
        """The same with a token left out; None: nothing is left then."""
        place = self._place(token)
        if place is None:
            return self
        weights = self.weights.copy()
        weights[place] = 0
        total = float(np.sum(weights))
        return Distribution(ids=self.ids, weights=weights, total=total) if total > 0 else None

    def _place(self, token: int) -> int | None:
        if self.ids is None:
            return token
        found = np.flatnonzero(self.ids == token)
        return int(found[0]) if found.size else None


def _draw(weights: Row, generator: np.random.Generator) -> int:
    """A place with a probability that is its share of the weights, of which one at least is above 0."""
    ends: NDArray[np.float64] = np.cumsum(weights, dtype=np.float64)
    place = int(ends.searchsorted(generator.random() * float(ends[-1]), side="right"))
    # The product can be rounded up to the sum of all.
    return min(place, int(np.flatnonzero(weights)[-1]))


def distribution(row: Row, sampling: Sampling) -> Distribution:
    """The distribution of one row at a temperature above 0. Raises NotANumber."""
    highest = row.max()
    if not math.isfinite(highest):
        raise NotANumber
    ids: Ids | None = None
    if 0 < sampling.top_k < row.size:
        ids = largest(row, sampling.top_k)
        row = row[ids]
    weights = row - highest
    weights *= np.float32(1 / sampling.temperature)
    np.exp(weights, out=weights)
    if sampling.top_p < 1:
        left = _nucleus(weights, sampling.top_p, is_ordered=ids is not None)
        if left is not None:
            ids, weights = left if ids is None else ids[left], weights[left]
    if sampling.min_p > 0:
        left = np.flatnonzero(weights >= np.float32(sampling.min_p))  # the largest is 1
        ids, weights = left if ids is None else ids[left], weights[left]
    return Distribution(ids=ids, weights=weights, total=float(weights.sum()))


def _nucleus(weights: Row, top_p: float, *, is_ordered: bool) -> Ids | None:
    """Places of the largest weights, as many as it takes to have a share of `top_p`. None: they are so many that the
    others were set to 0 instead."""
    wanted = float(weights.sum()) * top_p
    if wanted > _FIRST_CANDIDATES and not is_ordered:  # no weight is above 1
        _cut_by_bins(weights, wanted)
        return None
    order = np.arange(weights.size) if is_ordered else largest(weights, _FIRST_CANDIDATES)
    reached = np.cumsum(weights[order], dtype=np.float64)
    if reached[-1] >= wanted or order.size == weights.size:
        return order[: int(reached.searchsorted(wanted)) + 1]
    _cut_by_bins(weights, wanted)
    return None


def _cut_by_bins(weights: Row, wanted: float) -> None:
    """Set to 0 what is not among the largest weights that have the sum `wanted`. Only those of one bin are sorted: a
    bin is the upper bits of a number, which are in the order of the numbers as long as none is negative."""
    bins = (weights.view(np.uint32) >> _BIN_BITS).astype(np.intp)
    shares = np.bincount(bins, weights=weights)
    from_top = np.cumsum(shares[::-1])
    place = min(int(from_top.searchsorted(wanted)), shares.size - 1)
    seam = shares.size - 1 - place
    among = np.flatnonzero(bins == seam)
    among = among[np.argsort(-weights[among], kind="stable")]
    missing = wanted - (float(from_top[place - 1]) if place else 0.0)
    count = int(np.cumsum(weights[among], dtype=np.float64).searchsorted(missing)) + 1
    weights *= bins >= seam
    weights[among[count:]] = 0
