"""The pictures of one prompt: read before it is accepted, so that a damaged one is refused then, and encoded when it
is their turn."""

from __future__ import annotations

import time

from muse.worker.engines.base import CancelToken
from muse.worker.engines.executorch.answer import Answer
from muse.worker.engines.executorch.decoding import Array
from muse.worker.engines.executorch.prompt import Prompt
from muse.worker.engines.executorch.vision import PictureEncoder, Pixels, read_pixels
from muse.worker.picture_fit import blamed_on


class Looking:
    """encoder None: the artifact sees nothing, and pictures were refused before."""

    def __init__(self, encoder: PictureEncoder | None, prompt: Prompt, answer: Answer) -> None:
        self._encoder = encoder
        self._prompt = prompt
        self._answer = answer
        self._pixels: dict[int, Pixels] = {}
        self._features: dict[int, Array] = {}

    def read(self, begin: int, cancel: CancelToken) -> None:
        """Read what stands behind so many tokens, until the cancel comes. Raises EngineFault `bad_image`."""
        for number, placed in enumerate(self._prompt.pictures):
            if cancel.is_set:
                return
            if placed.place.stop > begin:
                with blamed_on(number):
                    self._pixels[number] = read_pixels(placed.picture)

    def features(self, number: int) -> Array:
        """The embeddings of a picture, which may stand in several chunks, one after the other. Raises EngineFault."""
        features = self._features.get(number)
        if features is None:
            assert self._encoder is not None, "without an encoder pictures were refused before"
            placed = self._prompt.pictures[number]
            self._answer.looks_at(number, len(self._prompt.pictures))
            began = time.monotonic()
            with blamed_on(number):
                # Not read before only if the session was reset meanwhile.
                pixels = self._pixels.pop(number, None)
                features = self._encoder.encode(read_pixels(placed.picture) if pixels is None else pixels)
            self._answer.looked(time.monotonic() - began)
            self._features = {number: features}
        return features
