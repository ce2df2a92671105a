"""How many cells a picture has: the table of contracts/vision.md section 2, and what every size must fulfil."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muse.worker.picture_size import MOST_CELLS, cells_of

TABLE = {
    (1, 1): (1, 1),
    (27, 27): (1, 1),
    (28, 28): (1, 1),
    (24, 60): (3, 1),
    (200, 203): (8, 8),
    (225, 225): (8, 8),
    (336, 336): (12, 12),
    (512, 512): (19, 19),
    (700, 700): (25, 25),
    (1024, 1024): (37, 37),
    (1440, 1440): (52, 52),
    (1000, 2500): (90, 36),
    (6000, 6000): (64, 64),
    (1, 10_000): (358, 1),
}
sides = st.integers(1, 32_768)


@pytest.mark.parametrize("size", TABLE)
def test_the_table_of_the_reference(size: tuple[int, int]) -> None:
    """Rows and columns, ties included."""
    assert cells_of(*size) == TABLE[size]


@given(width=sides, height=sides, most=st.sampled_from([64, 128, 256, 1024, MOST_CELLS]))
@example(width=1, height=32_768, most=64)
@example(width=32_768, height=1, most=64)
def test_never_more_than_asked_for_and_at_least_one(width: int, height: int, most: int) -> None:
    """Also for pictures much longer than wide."""
    rows, columns = cells_of(width, height, most)
    assert min(rows, columns) >= 1
    assert rows * columns <= most


@given(rows=st.integers(1, 64), columns=st.integers(1, 64))
def test_a_picture_of_whole_cells_stays_as_it_is(rows: int, columns: int) -> None:
    """So what the worker has scaled is not scaled again by the engine."""
    assert cells_of(28 * columns, 28 * rows) == (rows, columns)
