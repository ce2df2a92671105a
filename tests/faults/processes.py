"""Processes that have to end, watched by descriptors, so that no pid can be mistaken for a later one."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

GONE_WITHIN_S: Final = 2.0
"""The promise: 2 s after a server's death its worker is gone."""


class Watched:
    """Some living processes. Those that ended before this are not among them."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._descriptors: dict[int, int] = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                self._descriptors[pid] = os.pidfd_open(pid)

    def left_after(self, patience_s: float) -> list[int]:
        """Which of them still run after so many seconds (for each: a killed process needs a moment to be gone)."""
        left: list[int] = []
        for pid, descriptor in self._descriptors.items():
            # A pid descriptor is readable once its process has ended.
            if not select.select([descriptor], [], [], patience_s)[0]:
                left.append(pid)
            os.close(descriptor)
        return left
