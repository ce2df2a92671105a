"""The tables beside a picture, against what contracts/vision.md says of them, place by place."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest

from muse.settings import POSITION_ORDERS, PositionOrder
from muse.worker.engines.executorch.vision_tables import VisionInputs, vision_inputs

ROTARY = 8
WIDTH = 3
TABLE = np.random.default_rng(1).normal(size=(32, 32, WIDTH)).astype(np.float32)
SHAPES = ((1, 1), (2, 3), (3, 2), (1, 20), (17, 18), (20, 1))
"""Cells; a tile has 16 x 16."""


def inputs_of(cells: tuple[int, int], order: PositionOrder = "rows") -> tuple[np.ndarray, VisionInputs]:
    pixels = np.random.default_rng(2).integers(0, 256, (cells[0] * 28, cells[1] * 28, 3), np.uint8)
    return pixels, vision_inputs(pixels, TABLE, ROTARY, order)


def places(cells: tuple[int, int]) -> list[tuple[int, int]]:
    """Row and column of each patch, in their order."""
    return [(row, column) for row in range(2 * cells[0]) for column in range(2 * cells[1])]


def read_table(row: float, column: float) -> np.ndarray:
    """Between the four entries around; outside the table there is nothing."""
    found = np.zeros(WIDTH)
    for r in (math.floor(row), math.floor(row) + 1):
        for c in (math.floor(column), math.floor(column) + 1):
            if 0 <= r < 32 and 0 <= c < 32:
                found += TABLE[r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return found


def test_both_orders_are_known() -> None:
    """The switch has no value that is not offered."""
    assert get_args(PositionOrder) == POSITION_ORDERS


@pytest.mark.parametrize("cells", SHAPES)
def test_patches_hold_their_pixels(cells: tuple[int, int]) -> None:
    """Twice each: colour by colour, row by row, from -1 to 1."""
    pixels, inputs = inputs_of(cells)
    for number, (row, column) in list(enumerate(places(cells)))[::7]:
        part = pixels[row * 14 : row * 14 + 14, column * 14 : column * 14 + 14]
        wanted = (part.transpose(2, 0, 1).reshape(-1) / 255 - 0.5) / 0.5
        np.testing.assert_allclose(inputs.patches[0, number], np.tile(wanted, 2), atol=1e-6)


@pytest.mark.parametrize("cells", SHAPES)
def test_positions_are_read_between_the_entries(cells: tuple[int, int]) -> None:
    """By rows: the table's row from the picture's row. By columns: as for the picture with its sides exchanged."""
    rows, columns = 2 * cells[0], 2 * cells[1]

    def at(row: int, column: int) -> np.ndarray:
        return read_table((row + 0.5) * 32 / rows - 0.5, (column + 0.5) * 32 / columns - 0.5)

    def exchanged(row: int, column: int) -> np.ndarray:
        return read_table((row + 0.5) * 32 / columns - 0.5, (column + 0.5) * 32 / rows - 0.5)

    by_rows = inputs_of(cells)[1].positions[0]
    by_columns = inputs_of(cells, "columns")[1].positions[0]
    for number, (row, column) in list(enumerate(places(cells)))[::5]:
        np.testing.assert_allclose(by_rows[number], at(row, column), atol=1e-5)
        np.testing.assert_allclose(by_columns[number], exchanged(*divmod(number, rows)), atol=1e-5)


def test_the_orders_differ_by_what_the_contract_says() -> None:
    """Not at all for squares; by 12 entries of the table at most for 2 x 4 patches."""
    table = np.stack(np.meshgrid(np.arange(32), np.arange(32), indexing="ij"), 2).astype(np.float32)
    pixels = np.zeros((28, 56, 3), np.uint8)
    rows, columns = (vision_inputs(pixels, table, ROTARY, order).positions for order in POSITION_ORDERS)
    assert np.abs(rows - columns).max() == 12
    for cells in ((1, 1), (5, 5), (20, 20)):
        by_rows, by_columns = (inputs_of(cells, order)[1].positions for order in POSITION_ORDERS)
        np.testing.assert_array_equal(by_rows, by_columns)


def test_a_grid_as_large_as_the_table_is_the_table() -> None:
    """16 x 16 cells, entry by entry."""
    np.testing.assert_allclose(inputs_of((16, 16))[1].positions[0], TABLE.reshape(-1, WIDTH), atol=1e-6)


@pytest.mark.parametrize("cells", SHAPES)
def test_angles_count_columns_then_rows_from_one(cells: tuple[int, int]) -> None:
    """A quarter of the head's width each, falling powers of 10,000."""
    inputs = inputs_of(cells)[1]
    for number, (row, column) in list(enumerate(places(cells)))[::5]:
        angles = [(axis + 1) * 10_000 ** (-n / 4) for axis in (column, row) for n in range(4)]
        np.testing.assert_allclose(inputs.cosine[number], np.cos(angles), atol=1e-4)
        np.testing.assert_allclose(inputs.sine[number], np.sin(angles), atol=1e-4)


@pytest.mark.parametrize("cells", SHAPES)
def test_tiles_and_cells_gather_what_belongs_together(cells: tuple[int, int]) -> None:
    """Tiles of 32 x 32 patches, inside of which a patch sees; cells of 2 x 2; orders that can be undone."""
    inputs = inputs_of(cells)[1]
    where = places(cells)
    ordered = [where[number] for number in inputs.sparse_order]
    tiles = [(row // 32, column // 32) for row, column in ordered]
    assert ordered == sorted(where, key=lambda place: (place[0] // 32, place[1] // 32, place))
    assert inputs.sparse_order[inputs.inverse_order].tolist() == list(range(len(where)))
    for a in range(0, len(where), 9):
        assert inputs.sparse_mask[0, 0, a].tolist() == [tile == tiles[a] for tile in tiles]
    assert inputs.global_mask.all()
    gathered = [where[number] for number in inputs.cell_order]
    for start in range(0, len(gathered), 4):
        row, column = gathered[start]
        assert gathered[start : start + 4] == [
            (row, column),
            (row, column + 1),
            (row + 1, column),
            (row + 1, column + 1),
        ]
    corners = gathered[::4]
    assert corners == sorted(corners)
    assert inputs.cell_order.dtype == inputs.sparse_order.dtype == np.int64
