"""A picture's whole way in the engine, from the file to embeddings, against a plain forward of the same weights.

Also that the comparison would notice: with the other order of positions, or other windows, the plain forward is many
times farther away than the engine is.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import attrs
import numpy as np
import pytest
from PIL import Image

from muse.protocol import TextSegment
from muse.settings import POSITION_ORDERS, PositionOrder
from muse.worker.command_line import parse
from muse.worker.engines.executorch.loading import Loaded, load
from muse.worker.engines.executorch.vision import read_pixels
from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.vision_forward import Forward, pixels_of
from tests.picture_files import segment_of
from tests.server_process import ONE_THREAD

Engine = Callable[[PositionOrder], Loaded]
NEAR = 0.001
"""Relative, over all of a picture's embeddings: half precision, and positions in bfloat16."""
FAR = 10 * NEAR
SIZES: dict[tuple[int, int], tuple[int, int]] = {
    (28, 28): (1, 1),
    (10, 60): (3, 1),  # made wider
    (56, 84): (3, 2),
    (84, 56): (2, 3),
    (225, 225): (8, 8),  # made a little smaller
    (448, 448): (16, 16),  # as large as the table of positions
    (1000, 28): (1, 36),  # three windows side by side, the last one narrower
    (28, 1000): (36, 1),
    (700, 1000): (19, 13),  # made smaller since the program takes 256 cells, and more than one window high
    (2000, 300): (6, 41),
}
"""Width and height, and what contracts/vision.md section 2 makes of them with at most 256 cells: rows, columns."""
SEVERAL_WINDOWS = [size for size, cells in SIZES.items() if max(cells) > 16]


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    """Something else at every place."""
    chance = np.random.default_rng(width * 10_000 + height)
    row, column = np.mgrid[0:height, 0:width]
    slopes = np.stack([row * 255 / height, column * 255 / width, (row + column) % 256], 2)
    noise = chance.normal(0, 40, (height, width, 3))
    content = io.BytesIO()
    Image.fromarray((slopes + noise).clip(0, 255).astype(np.uint8)).save(content, kind)
    return content.getvalue()


@pytest.fixture(scope="module")
def engine(artifact: Artifact) -> Engine:
    """The engine's loaded artifact, in this process, for each order of positions."""
    known: dict[PositionOrder, Loaded] = {}

    def loaded(order: PositionOrder) -> Loaded:
        if order not in known:
            arguments = ["--engine", "executorch", "--model", str(artifact("dflash")), *ONE_THREAD]
            options = parse([*arguments, "--picture-positions", order])
            known[order] = load(options, lambda _fraction, _stage: None)[0]
        return known[order]

    return loaded


def embeddings(loaded: Loaded, content: bytes) -> tuple[tuple[int, int], np.ndarray]:
    """Cells and embeddings of a picture in a prompt."""
    prompt = loaded.prompts.encode((TextSegment(text="?", special=False), segment_of(content)))
    (placed,) = prompt.pictures
    assert loaded.pictures is not None
    found = loaded.pictures.encode(read_pixels(placed.picture)).astype(np.float64)
    assert len(placed.cells) == len(found)
    return (placed.picture.rows, placed.picture.columns), found


def apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """How far they are apart."""
    assert found.shape == wanted.shape
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_embeddings_are_those_of_a_plain_forward(engine: Engine, size: tuple[int, int], kind: str) -> None:
    """In the order of rows, which is ours unless asked otherwise."""
    content = picture(*size, kind)
    cells, found = embeddings(engine("rows"), content)
    assert cells == SIZES[size]
    assert apart(found, Forward().features(pixels_of(content, *cells))) < NEAR


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_order_of_positions_is_the_one_asked_for(engine: Engine, size: tuple[int, int]) -> None:
    """By columns near to a forward by columns, and far from one by rows; and the other way round. Of a square picture
    both are the same."""
    content, cells = picture(*size), SIZES[size]
    by_rows, by_columns = (embeddings(engine(order), content)[1] for order in POSITION_ORDERS)
    rows, columns = (Forward(order=order).features(pixels_of(content, *cells)) for order in POSITION_ORDERS)
    assert apart(by_columns, columns) < NEAR
    if cells[0] == cells[1]:
        assert apart(by_columns, by_rows) == 0
    else:
        assert min(apart(by_columns, rows), apart(by_rows, columns)) > FAR


@pytest.mark.parametrize("size", SEVERAL_WINDOWS, ids=str)
def test_other_windows_would_show(engine: Engine, size: tuple[int, int]) -> None:
    """None at all, or smaller ones."""
    content = picture(*size)
    found = embeddings(engine("rows"), content)[1]
    pixels = pixels_of(content, *SIZES[size])
    for tile in (1024, 16):
        assert apart(found, attrs.evolve(Forward(), tile=tile).features(pixels)) > FAR
