"""Pictures of a prompt made as large as fit beside its text, and how each stands among token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from muse.worker.engines.base import EngineFault
from muse.worker.picture_size import FRAME, MOST_CELLS
from muse.worker.pictures import Sized

# How many cells a picture may have where the prompt does not fit: halved until it does, so that a conversation that
# grows makes its pictures smaller, and has them read again, but a few times. 64 cells are 224 x 224 pixels.
_LADDER: Final = (MOST_CELLS, 2048, 1024, 512, 256, 128, 64)
_ANSWER_SHARE: Final = 8
"""Pictures become smaller before an answer has less room than this part of the context."""
_KEY_BYTES: Final = 6


@attrs.frozen(kw_only=True)
class ScaledPicture:
    """A picture of a prompt, and how many cells it is to have. most_cells: that the model could see of it."""

    sized: Sized
    rows: int
    columns: int
    most_cells: int

    @property
    def tokens(self) -> int:
        """What it costs."""
        return self.rows * self.columns + FRAME

    @property
    def is_smaller(self) -> bool:
        """The model could see it larger than it is given it."""
        return self.sized.cells(self.most_cells) != (self.rows, self.columns)

    @property
    def key(self) -> int:
        """Stands for it among ids."""
        identity = f"{self.sized.segment.sha256} {self.rows} {self.columns}".encode()
        return -1 - int.from_bytes(hashlib.sha256(identity).digest()[:_KEY_BYTES], "big")


@contextmanager
def blamed_on(number: int) -> Generator[None]:
    """A fault inside the block is that of this picture, from 0."""
    try:
        yield
    except EngineFault as fault:
        fault.image = number
        fault.message = f"picture {number + 1} of this conversation: {fault.message}"
        raise


def fit_pictures(sizes: Sequence[Sized], *, text_tokens: int, context: int, most_cells: int) -> list[ScaledPicture]:
    """The pictures as large as may be: all of them at the model's largest size, or else an equal bound for each."""
    wanted = context - context // _ANSWER_SHARE
    scaled: list[ScaledPicture] = []
    for most in (most_cells, *(step for step in _LADDER if step < most_cells)):
        scaled = [
            ScaledPicture(sized=sized, rows=rows, columns=columns, most_cells=most_cells)
            for sized, (rows, columns) in ((sized, sized.cells(most)) for sized in sizes)
        ]
        if text_tokens + sum(picture.tokens for picture in scaled) <= wanted:
            break
    return scaled
