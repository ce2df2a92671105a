"""A model of a few tokens whose every distribution is known, with a draft that is as good as it is told to be.

The row behind a token depends on that token and on the one before. Like a program it keeps what it was given by
position, answers from that, and asserts that nothing is left out. Embeddings are the ids themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muse.worker.engines.executorch.decoding import Array, Logits
from muse.worker.engines.executorch.distribution import Ids, Row

VOCABULARY = 7
MASK = 6


class ToyForm:
    """Holds an answer to a form: what may follow depends on the token before, which is `last`."""

    def __init__(self, last: int) -> None:
        self.last = last

    def narrow(self, row: Row) -> tuple[Row, Ids | None]:
        allowed = self.allowed_behind(self.last)
        if self.last % 2:
            return row.take(allowed), allowed
        left = np.full_like(row, -np.inf)
        left[allowed] = row[allowed]
        return left, None

    def take(self, token: int) -> None:
        assert token in self.allowed_behind(self.last)
        self.last = token

    @staticmethod
    def allowed_behind(token: int) -> Ids:
        """Four tokens or five of the seven."""
        return np.flatnonzero((np.arange(VOCABULARY) + token) % 3)


class ToyModel:
    """Solo and drafted at once. skill: share of the draft's guesses that are the target's own best token. reached:
    positions that were ever written."""

    def __init__(self, seed: int, skill: float = 0.5) -> None:
        random = np.random.default_rng(seed)
        self.rows: NDArray[np.float32] = random.normal(0, 1.2, (VOCABULARY, VOCABULARY, VOCABULARY)).astype(np.float32)
        self._random = np.random.default_rng(seed + 1)
        self._skill = skill
        self.ids: list[int] = []
        self.draft_seen: list[int] = []
        self.calls: list[str] = []
        self.reached = 0

    def embed(self, ids: Sequence[int]) -> Array:
        assert ids
        return np.asarray([[[token] for token in ids]], np.float16)

    def row_behind(self, ids: Sequence[int]) -> Logits:
        """Logits of what follows these ids."""
        return self.rows[ids[-2] if len(ids) > 1 else 0, ids[-1]]

    def target(self, embeddings: Array, position: int, *, last_only: bool = False) -> tuple[Logits, Array]:
        assert position <= len(self.ids), "a position was left out"
        self.calls.append(f"target {embeddings.shape[1]}")
        self.reached = max(self.reached, position + embeddings.shape[1])
        del self.ids[position:]
        rows: list[Logits] = []
        hidden: list[list[float]] = []
        for token in embeddings[0, :, 0]:
            self.ids.append(int(token))
            rows.append(self.row_behind(self.ids))
            hidden.append([float(len(self.ids) - 1), float(token)])
        return np.asarray(rows[-1:] if last_only else rows), np.asarray([hidden], np.float16)

    def forward(self, embeddings: Array, position: int) -> Logits:
        return self.target(embeddings, position, last_only=True)[0][0]

    def draft(self, block: Sequence[int], hidden: Array, start: int) -> Logits:
        """Sees the ids through the hidden states, each of which says its position."""
        self.calls.append(f"draft {hidden.shape[1]}")
        assert hidden[0, :, 0].tolist() == list(range(start, start + hidden.shape[1])), "rows do not belong there"
        # Rows that were left out lie outside its window.
        self.draft_seen = [*self.draft_seen[:start], *[0] * (start - len(self.draft_seen))]
        self.draft_seen += [int(token) for token in hidden[0, :, 1]]
        so_far = [*self.draft_seen, block[0]]
        found = [self.row_behind(so_far)]
        for mask in block[1:]:
            assert mask == MASK
            best = int(self.row_behind(so_far).argmax())
            guess = best if self._random.random() < self._skill else int(self._random.integers(VOCABULARY))
            found.append(np.eye(VOCABULARY, dtype=np.float32)[guess])
            so_far.append(guess)
        return np.asarray(found)
