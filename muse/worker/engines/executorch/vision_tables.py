"""What `vision_encoder` takes beside its weights: patches, and tables about where each stands (contracts/vision.md
sections 3 to 5).

Patches are row by row. The position table is read the same way, as Hugging Face's and mlx-vlm's code does; upstream's
worker reads it as for the picture with its sides exchanged, which differs for pictures that are not square (section 4).
Which of them the model was trained with is not known, so it is a switch.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from muse.settings import PositionOrder

_PATCH: Final = 14
_MERGE: Final = 2
_TEMPORAL: Final = 2
_TILE: Final = 32
_GRID: Final = 32
_ROPE_BASE: Final = 10_000.0

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@attrs.frozen(kw_only=True, eq=False)
class VisionInputs:
    """Inputs of one picture, in the order and with the shapes that the program wants."""

    patches: Floats
    positions: Floats
    cosine: Floats
    sine: Floats
    sparse_order: Ints
    inverse_order: Ints
    global_mask: NDArray[np.bool_]
    sparse_mask: NDArray[np.bool_]
    cell_order: Ints

    def as_list(self) -> list[tuple[NDArray[Any], str]]:
        """Each with its type."""
        types = ("float32", "bfloat16", "float32", "float32", "int64", "int64", "bool", "bool", "int64")
        return list(zip(attrs.astuple(self, recurse=False), types, strict=True))


def vision_inputs(pixels: NDArray[np.uint8], table: Floats, rotary: int, order: PositionOrder) -> VisionInputs:
    """pixels: [height, width, 3], whole cells of 28. table: [32, 32, width] of `pos_embed.bin`. rotary: angles of a
    patch, half of them for its column, half for its row."""
    rows, columns = pixels.shape[0] // _PATCH, pixels.shape[1] // _PATCH
    angles = _angles(rows, columns, rotary)
    sparse_order, tiles = _by_tile(rows, columns)
    size = rows * columns
    return VisionInputs(
        patches=_patches(pixels, rows, columns)[None],
        positions=_positions(table, rows, columns, order)[None],
        cosine=np.cos(angles),
        sine=np.sin(angles),
        sparse_order=sparse_order,
        inverse_order=np.argsort(sparse_order),
        global_mask=np.ones((1, 1, size, size), np.bool_),
        sparse_mask=(tiles[:, None] == tiles)[None, None],
        cell_order=_by_cell(rows, columns),
    )


def _patches(pixels: NDArray[np.uint8], rows: int, columns: int) -> Floats:
    """[patches, 1176]: inside a patch first the (equal) moments, then colours, then rows."""
    values = (pixels.astype(np.float32) / 255 - 0.5) / 0.5
    grid = values.reshape(rows, _PATCH, columns, _PATCH, 3).transpose(0, 2, 4, 1, 3)
    return np.tile(grid.reshape(rows * columns, -1), _TEMPORAL).astype(np.float32)


def _positions(table: Floats, rows: int, columns: int, order: PositionOrder) -> Floats:
    """[patches, width], read between the entries of the table; outside of it there is nothing. By columns: the n-th
    patch has the n-th place of a picture that has so many rows as this one has columns."""
    if order == "columns":
        rows, columns = columns, rows
    by_row = np.tensordot(_shares(rows), table, 1)
    grid = np.einsum("xc,rcw->rxw", _shares(columns), by_row, optimize=True)
    return grid.reshape(rows * columns, -1).astype(np.float32)


def _shares(count: int) -> Floats:
    """[count, 32]: how much of each entry goes into each place, by the distance of their centres."""
    centres = (np.arange(count) + 0.5) * (_GRID / count) - 0.5
    return np.maximum(1 - np.abs(centres[:, None] - np.arange(_GRID)), 0).astype(np.float32)


def _angles(rows: int, columns: int, rotary: int) -> Floats:
    """[patches, rotary]: the column's first, then the row's, both counted from one."""
    row, column = _grid(rows, columns)
    frequencies = _ROPE_BASE ** (-np.arange(rotary // 2) / (rotary // 2))
    parts = [(axis + 1)[:, None] * frequencies for axis in (column, row)]
    return np.concatenate(parts, 1).astype(np.float32)


def _by_tile(rows: int, columns: int) -> tuple[Ints, Ints]:
    """The patches ordered by tiles of 32 x 32, row by row inside of each, and the tile of each in that order."""
    row, column = _grid(rows, columns)
    tile = row // _TILE * (columns // _TILE + 1) + column // _TILE
    ordered = np.argsort(tile, kind="stable")
    return ordered, tile[ordered]


def _by_cell(rows: int, columns: int) -> Ints:
    """The patches ordered by cells of 2 x 2."""
    numbers = np.arange(rows * columns).reshape(rows // _MERGE, _MERGE, columns // _MERGE, _MERGE)
    return numbers.transpose(0, 2, 1, 3).reshape(-1)


def _grid(rows: int, columns: int) -> tuple[Ints, Ints]:
    """Row and column of each patch."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return row, column
