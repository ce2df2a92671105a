"""The one session that is in the program's cache, and what of it a new prompt may use.

There is one cache, so a request of another session takes it over; what both begin with (the template's system message,
tools) stays. A session that was reset, and a request without one, use nothing.
"""

from __future__ import annotations

import threading
from typing import Final

from muse.protocol import ResetReason
from muse.worker.engines.executorch.cache import KvCache
from muse.worker.residency import common_prefix, reset_reason

_COLD_KEPT: Final = 1024


class Residency:
    """Who owns the cache. Thread-safe: session commands come while a request runs."""

    def __init__(self, cache: KvCache) -> None:
        self.cache = cache
        self._lock = threading.Lock()
        self._owner: str | None = None
        self._cold: dict[str, None] = {}
        self._failed: str | None = None

    def take(self, session_id: str | None, prompt: list[int]) -> tuple[int, ResetReason]:
        """Give the cache to a request: how many tokens of the prompt are in it, and why not more. Never all of them,
        since the last has to be evaluated for what follows it."""
        with self._lock:
            reused = self._reusable(session_id, prompt)
            own: list[int] | None = self.cache.ids if session_id is not None and session_id == self._owner else []
            if session_id is not None and session_id == self._failed:
                own = None
            reason = reset_reason(own, prompt, reused)
            self._owner, self._failed = session_id, None
            if session_id is not None:
                self._cold.pop(session_id, None)
            self.cache.go_back(reused)
            return reused, reason

    def reusable(self, session_id: str | None, prompt: list[int]) -> int:
        """How many tokens of the prompt `take` would find now; a reset meanwhile makes it none."""
        with self._lock:
            return self._reusable(session_id, prompt)

    def _reusable(self, session_id: str | None, prompt: list[int]) -> int:
        if session_id is None or session_id in self._cold:
            return 0
        reused = min(common_prefix(self.cache.ids, prompt), len(prompt) - 1)
        return reused if self.cache.can_go_back(reused) else 0

    def fail(self) -> None:
        """The request that had the cache failed: nothing in it can be trusted."""
        with self._lock:
            self.cache.go_back(0)
            self._owner, self._failed = None, self._owner

    def resident(self, session_id: str) -> tuple[int, ...] | None:
        """The ids that are in the cache of a session."""
        with self._lock:
            if session_id == self._failed:
                return None
            return tuple(self.cache.ids) if session_id == self._owner else ()

    def reset(self, session_id: str) -> None:
        """Nothing of a session may be used any more, nor by it."""
        with self._lock:
            self._cold[session_id] = None
            if len(self._cold) > _COLD_KEPT:
                del self._cold[next(iter(self._cold))]
            if session_id == self._owner:
                self._owner = None

    def close(self, session_id: str) -> None:
        """A session ended."""
        with self._lock:
            self._cold.pop(session_id, None)
            if session_id == self._owner:
                self._owner = None
