"""The loop without a draft (contracts/pte-contract.md section 6).

Upstream gives a token one evaluation after it was chosen. Here it is given at once, so the last token of an answer may
not be in the cache yet; `Given.evaluated` tells.
"""

from __future__ import annotations

from muse.worker.engines.executorch.decoding import Array, Given, Logits, SoloModel
from muse.worker.engines.executorch.sampling import Sampler


class SoloDecoder:
    """One token a step."""

    def __init__(self, model: SoloModel, end_ids: frozenset[int]) -> None:
        self._model = model
        self._end_ids = end_ids
        self._position = 0
        self._pending: int | None = None
        self.proposed = self.accepted = 0

    def begin(self, sampler: Sampler, position: int) -> None:
        """See Decoder."""
        self._sampler = sampler
        self._position = position
        self._pending = None
        self._logits: Logits | None = None

    def prefill(self, embeddings: Array) -> None:
        """See Decoder."""
        self._logits = self._model.forward(embeddings, self._position)
        self._position += embeddings.shape[1]

    def step(self) -> Given:
        """See Decoder."""
        if self._pending is not None:
            self._logits = self._model.forward(self._model.embed([self._pending]), self._position)
            self._position += 1
        assert self._logits is not None, "a prompt has at least one token"
        self._pending = token = self._sampler.choose(self._logits)
        return Given(tokens=(token,), is_end=token in self._end_ids, evaluated=self._position)
