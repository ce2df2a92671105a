"""How far back the program's cache can go (contracts/pte-contract.md section 5).

Layers with a sliding window keep a ring of 2048 + chunk - 1 rows. A row of the past is overwritten by a position a
whole ring later. So it is safe to go back if what is dropped is shorter than a chunk, or if the ring was never full.
Proof: the window of position p begins at p - 2047; the row of that position is overwritten by p - 2047 + ring = p +
chunk - 1, which was not written while `written - p` is less than a chunk.
"""

from __future__ import annotations

from typing import Final

import attrs

WINDOW: Final = 2048
"""Positions that a sliding layer sees, in every artifact of the model."""


@attrs.define(slots=True)
class KvCache:
    """ids: what it holds, one for each position, known to be right. written: positions up to which it was ever written
    since it began at 0 the last time."""

    chunk: int
    ids: list[int] = attrs.Factory(list[int])
    written: int = 0

    def can_go_back(self, position: int) -> bool:
        """Whether the cache is right up to a position at or before its end."""
        return self.written - position < self.chunk or self.written <= WINDOW + self.chunk - 1

    def go_back(self, position: int) -> None:
        """Drop what lies behind a position; 0 begins anew."""
        del self.ids[position:]
        if not position:
            self.written = 0

    def add(self, ids: list[int], *, lookahead: int = 0) -> None:
        """These were evaluated, and so many behind them that do not count."""
        self.ids += ids
        self.written = max(self.written, len(self.ids) + lookahead)
