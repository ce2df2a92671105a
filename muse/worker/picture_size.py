"""How many cells a picture is cut into: rows and columns of 28 x 28 pixels, one prompt token each.

The rule of the reference and of llama.cpp (contracts/vision.md section 2). It decides ties by the order in which
CPython walks a set of pairs of small integers, so that set is built here in the same way, and must stay.
"""

from __future__ import annotations

import itertools
import math
from typing import Final

CELL: Final = 28
"""Pixels of a cell's side: 2 x 2 patches of 14."""
MOST_CELLS: Final = 4096
"""Of one picture, where an artifact or projector takes no fewer."""
PATCHES_OF_CELL: Final = 4
FRAME: Final = 2
"""Tokens around a picture, which say where it begins and ends."""


def cells_of(width: int, height: int, most: int = MOST_CELLS) -> tuple[int, int]:
    """(rows, columns) for a picture of so many pixels, at most `most` cells in all."""
    rows, columns = height / CELL, width / CELL
    if rows * columns > most:
        ratio = columns / rows
        rows = math.sqrt(most / ratio)
        columns = rows * ratio
    around = [(math.floor(side), math.ceil(side)) for side in (rows, columns)]
    pairs = set(itertools.product(around[0], around[1]))
    found = [pair for pair in pairs if min(pair) >= 1 and pair[0] * pair[1] <= most]
    if not found:
        # Thinner than a cell, and too long for fewer cells than the model could see: as long as may be.
        return min(max(round(rows), 1), most), min(max(round(columns), 1), most)
    return min(found, key=lambda pair: abs(pair[0] / pair[1] - height / width))
