"""What the loops ask of a model, and what they give: tokens, a few at a time.

A model is a program with its cache. Positions are counted by whoever calls; a call at an older position than before
goes back, which is sound within the bound of `cache.py`. Arrays are as they come out of the program: embeddings and
hidden states in its own 16 bits, logits in single precision. Logits are true only until the next call of their method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from muse.worker.engines.executorch.sampling import Sampler

Array = NDArray[Any]
Logits = NDArray[np.float32]


class SoloModel(Protocol):
    """A program without a draft."""

    def embed(self, ids: Sequence[int]) -> Array:
        """Embeddings [1, tokens, width] of ids, at most a chunk of them."""
        ...

    def forward(self, embeddings: Array, position: int) -> Logits:
        """Evaluate at most a chunk from a position on; logits [vocabulary] behind the last."""
        ...


class DraftedModel(Protocol):
    """A program with a DFlash draft."""

    def embed(self, ids: Sequence[int]) -> Array:
        """As above."""
        ...

    def target(self, embeddings: Array, position: int, *, last_only: bool = False) -> tuple[Logits, Array]:
        """Evaluate from a position on; logits [tokens, vocabulary] behind each token or behind the last one, and hidden
        states [1, tokens, taps] of all."""
        ...

    def draft(self, block: Sequence[int], hidden: Array, start: int) -> Logits:
        """Fill in a block, whose first token is known, behind hidden states that the draft has not seen, the first of
        them at position `start`; logits [block, vocabulary] of each place."""
        ...


@attrs.frozen(kw_only=True)
class Given:
    """What one step of a loop gave. tokens: in order; after an end token there is none. is_end: the last is one.
    evaluated: tokens that the model's cache holds now, of prompt and answer; never more than were given."""

    tokens: tuple[int, ...]
    is_end: bool
    evaluated: int


class Decoder(Protocol):
    """A loop over one model."""

    proposed: int
    accepted: int

    def begin(self, sampler: Sampler, position: int) -> None:
        """A new prompt, of which so many tokens are in the cache: what was ahead of it is dropped."""
        ...

    def prefill(self, embeddings: Array) -> None:
        """Evaluate the next tokens of the prompt, at most a chunk."""
        ...

    def step(self) -> Given:
        """One or more further tokens. The first call after a prefill gives the one behind the prompt."""
        ...


def upto_end(tokens: Sequence[int], end_ids: frozenset[int]) -> tuple[int, ...]:
    """The tokens up to the first end token, that included."""
    for place, token in enumerate(tokens):
        if token in end_ids:
            return tuple(tokens[: place + 1])
    return tuple(tokens)
