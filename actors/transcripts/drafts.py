"""Drafts: what a client is about to say in a session, kept for it so that a reload of its page loses nothing.

Opaque here: the bytes come back as they were sent. Each part of a draft has a version, and the highest one stands:
a save that was overtaken on its way, by the last one of a page that is being left, changes nothing.

Memory only, and never more than MAX_DRAFTS sessions and MAX_ALL_BYTES: the one saved longest ago is forgotten first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

import attrs

from actors.transcripts.messages import DraftPart

log = logging.getLogger("muse.transcripts")

MAX_DRAFTS: Final = 64
"""As many as sessions (sessions.py)."""
MAX_ALL_BYTES: Final = 128 * 1024 * 1024


@attrs.frozen
class _Saved:
    version: int
    body: bytes


class Drafts:
    """All drafts, the one saved last at the end. Plain state, no await; the store owns it."""

    def __init__(self) -> None:
        self._drafts: OrderedDict[str, dict[DraftPart, _Saved]] = OrderedDict()
        self._bytes = 0

    def save(self, session_id: str, part: DraftPart, version: int, body: bytes) -> bool:
        """Keep this part; false if the one that is kept is as new or newer."""
        parts = self._drafts.setdefault(session_id, {})
        known = parts.get(part)
        if known is not None and known.version >= version:
            return False
        self._bytes += len(body) - (len(known.body) if known is not None else 0)
        parts[part] = _Saved(version, body)
        self._drafts.move_to_end(session_id)
        while len(self._drafts) > MAX_DRAFTS or (self._bytes > MAX_ALL_BYTES and len(self._drafts) > 1):
            oldest = next(iter(self._drafts))
            log.info("draft-forgotten id=%r", oldest[:40])
            self.forget(oldest)
        return True

    def show(self, session_id: str, part: DraftPart) -> bytes | None:
        """A part as it was saved, None if there is none."""
        saved = self._drafts.get(session_id, {}).get(part)
        return saved.body if saved is not None else None

    def forget(self, session_id: str) -> None:
        """Drop a draft; an unknown one is fine."""
        self._bytes -= sum(len(saved.body) for saved in self._drafts.pop(session_id, {}).values())
