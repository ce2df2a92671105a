"""Pictures to embeddings, through the program's `vision_encoder`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muse.settings import PositionOrder
from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.decoding import Array
from muse.worker.engines.executorch.library import Program
from muse.worker.engines.executorch.program_facts import VISION, VisionFacts
from muse.worker.engines.executorch.vision_tables import Floats, vision_inputs
from muse.worker.picture_fit import ScaledPicture
from muse.worker.picture_size import CELL
from muse.worker.pictures import scaled_image

_GRID: Final = 32

Pixels = NDArray[np.uint8]
"""[height, width, 3], whole cells."""


def read_positions(path: Path, facts: VisionFacts) -> Floats:
    """The table of positions, [32, 32, width]. Raises EngineFault `bad_request`."""
    size = path.stat().st_size
    if size != facts.table_bytes:
        raise EngineFault(
            "bad_request",
            f"{path} has {size} bytes, and {facts.table_bytes} were expected ({_GRID} x {_GRID} positions of "
            f"{facts.latent} numbers): it belongs to another program",
            fatal=True,
        )
    return np.fromfile(path, "<f4").reshape(_GRID, _GRID, facts.latent).astype(np.float32)


def read_pixels(picture: ScaledPicture) -> Pixels:
    """Decode a picture, at the size that it is to have. Raises EngineFault `bad_image`."""
    return np.asarray(scaled_image(picture.sized.segment, picture.rows, picture.columns))


class PictureEncoder:
    """A loaded `vision_encoder`."""

    def __init__(self, program: Program, facts: VisionFacts, table: Floats, order: PositionOrder, width: int) -> None:
        self._library = program.library
        self._method = program.method(VISION, keeps=False)
        self._facts = facts
        self._table = table
        self._order: PositionOrder = order
        self._width = width

    def encode(self, pixels: Pixels) -> Array:
        """Embeddings [cells, width], row by row. Raises EngineFault."""
        inputs = vision_inputs(pixels, self._table, self._facts.rotary, self._order)
        tensors = [self._library.tensor(array, dtype) for array, dtype in inputs.as_list()]
        found = self._library.array(self._method(tensors)[0])
        wanted = (1, pixels.shape[0] // CELL * (pixels.shape[1] // CELL), self._width)
        if found.shape != wanted:
            raise EngineFault("engine_error", f"{VISION} gave {list(found.shape)}; {list(wanted)} was expected")
        return found[0]
