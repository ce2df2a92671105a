"""The bound on what all request bodies may hold at once.

A body counts from its first byte until its request has ended, since what was read from it (texts, images) is held as
long. Two rules keep it fair:

* A body of at most FREE_BYTES does not count. All connections together can hold a small, known sum of these, and an
  ordinary request passes while large ones fill the budget.
* An upload counts with its declared length as long as it keeps pace, from then on only with what has come. So uploads
  that begin together are admitted or refused at once, and one that stalls holds no place that it does not fill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from muse.errors import Unavailable
from muse.sizes import MIB

FREE_BYTES: Final = 64 * 1024
START_S: Final = 1.0
"""An upload keeps pace until then, whatever has come."""
RETRY_AFTER_S: Final = 2


@attrs.define(eq=False)
class BodyShare:
    """One body. received, declared: bytes; declared is 0 for a chunked body, and for one that lost pace. began: on the
    Trio clock."""

    declared: int
    began: float
    received: int = 0

    def held(self, now: float, whole_s: float) -> int:
        """Bytes that count now. whole_s: the time that a whole upload may take."""
        held = self.received
        elapsed = now - self.began - START_S
        if self.declared > held and held * whole_s >= self.declared * elapsed:
            held = self.declared
        return held if held > FREE_BYTES else 0


class BodyBudget:
    """total_bytes: the bound. whole_s: the time that one upload may take, which sets its pace."""

    def __init__(self, total_bytes: int, whole_s: float, clock: Callable[[], float] = trio.current_time) -> None:
        self._total = total_bytes
        self._whole_s = whole_s
        self._clock = clock
        self._shares: set[BodyShare] = set()

    @contextmanager
    def share(self, declared: int) -> Generator[BodyShare]:
        """Count one body within the block. Raises Unavailable 503 when it does not fit beside the others."""
        share = BodyShare(declared, self._clock())
        self._check(share, declared)
        self._shares.add(share)
        try:
            yield share
        finally:
            self._shares.discard(share)

    def grow(self, share: BodyShare, count: int) -> None:
        """More bytes of a body arrived. Raises Unavailable 503 when they do not fit any more."""
        counted = share.held(self._clock(), self._whole_s)
        if counted < share.declared:
            share.declared = 0  # its place may be another's by now, so it does not come back
        share.received += count
        # Within what counts already nothing changes for anybody.
        if share.received > max(counted, FREE_BYTES):
            self._check(share, share.received)

    def held_bytes(self) -> int:
        """What counts now."""
        now = self._clock()
        return sum(share.held(now, self._whole_s) for share in self._shares)

    def _check(self, share: BodyShare, wanted: int) -> None:
        now = self._clock()
        others = sum(other.held(now, self._whole_s) for other in self._shares if other is not share)
        if wanted > FREE_BYTES and others + wanted > self._total:
            raise Unavailable(
                "bodies_too_large_together",
                f"Other requests hold {others / MIB:.1f} of the {self._total / MIB:.1f} MiB that all request bodies "
                "may have together. Send this one again when one of them has ended.",
                retry_after_s=RETRY_AFTER_S,
            )
