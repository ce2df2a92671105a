"""Host sampling against the exact distribution, which reference.py writes down plainly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.protocol import Sampling
from muse.worker.engines.executorch.distribution import NotANumber, distribution, largest
from muse.worker.engines.executorch.sampling import Sampler
from tests.worker.executorch.chi_square import excess
from tests.worker.executorch.reference import exact

ROW = np.random.default_rng(11).normal(0, 1.5, 17).astype(np.float32)


@given(
    st.integers(1, 6000),
    st.floats(0.05, 5.0),
    st.integers(0, 6000),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_probabilities_are_the_exact_ones(
    size: int, temperature: float, top_k: int, top_p: float, min_p: float, has_ties: bool, seed: int
) -> None:
    """Of rows of any size, flat or steep, with equal logits or without, under any filters. Where the sum of shares is
    about `top_p`, rounding may let in or leave out one more token."""
    row = np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)
    if has_ties:
        row = np.round(row)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    found = distribution(row, sampling)
    ids = np.arange(size) if found.ids is None else found.ids
    wanted = exact(row, sampling)
    probabilities = np.zeros(size)
    probabilities[ids] = found.weights / found.total
    differing = np.flatnonzero((probabilities > 0) != (wanted > 1e-30))
    at_the_seam = [token for token in differing if max(probabilities[token], wanted[token]) > 1e-6]
    assert len(at_the_seam) <= 1
    if not at_the_seam:
        np.testing.assert_allclose(probabilities, wanted, rtol=1e-3, atol=1e-6)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_largest_values_in_order(size: int, count: int, has_ties: bool, seed: int) -> None:
    """The first of equal ones first, also where they do not all fit."""
    values = np.random.default_rng(seed).normal(0, 2, size).astype(np.float32)
    if has_ties:
        values = np.round(values)
    assert largest(values, count).tolist() == np.argsort(-values, kind="stable")[:count].tolist()


def test_a_large_row_is_drawn_from_all_over() -> None:
    """With no filter, over the real vocabulary: tokens in proportion to their shares, block by block."""
    row = np.full(202_048, -10.0, np.float32)
    row[[0, 511, 512, 100_000, 202_047]] = [1.0, 0.5, 0.0, 1.0, 0.5]
    sampling = Sampling(temperature=0.5, seed=9)
    sampler = Sampler(sampling)
    drawn = [sampler.choose(row) for _ in range(600)]
    places = [0, 511, 512, 100_000, 202_047]
    counts = np.array([*(drawn.count(place) for place in places), sum(token not in places for token in drawn)])
    wanted = exact(row, sampling)
    shares = np.array([*wanted[places], 1 - wanted[places].sum()])
    assert excess(counts, shares) < 1


def test_temperature_zero_takes_the_largest() -> None:
    """The first of equal ones, drafted or not."""
    row = np.array([0.0, 2.0, 2.0, 1.0], np.float32)
    sampler = Sampler(Sampling())
    assert sampler.choose(row) == 1
    assert [sampler.accept(row, drafted) for drafted in (0, 1, 2)] == [1, 1, 1]


def test_a_seed_repeats_and_none_does_not() -> None:
    """The same seed gives the same tokens; without one two answers differ."""

    def tokens(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler.choose(ROW) for _ in range(64)]

    assert tokens(5) == tokens(5)
    assert tokens(5) != tokens(6)
    assert tokens(None) != tokens(None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_found(temperature: float, value: float) -> None:
    """A model that overflowed is reported, instead of a token of its choice."""
    row = np.array([0.0, value, 1.0], np.float32)
    sampler = Sampler(Sampling(temperature=temperature))
    with pytest.raises(NotANumber):
        sampler.choose(row)
