"""Drafts: what a client is about to say in a session, kept for it so that a reload of its page loses nothing.

Opaque here: the bytes come back as they were sent. Each part of a draft has a version, and the highest one stands:
a save that was overtaken on its way, by the last one of a page that is being left, changes nothing. What a client adds
without having seen the rest stands beside it, until something newer replaces all of it.

Memory only, and never more than MAX_DRAFTS sessions and MAX_ALL_BYTES: the one saved longest ago is forgotten first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

import attrs

from actors.transcripts.messages import DraftPart, SaveDraft

log = logging.getLogger("muse.transcripts")

MAX_DRAFTS: Final = 64
"""As many as sessions (sessions.py)."""
MAX_ALL_BYTES: Final = 128 * 1024 * 1024
MAX_ADDED: Final = 16
"""Of one part: as often as somebody may reload a page that gets no answer."""


@attrs.frozen
class _Saved:
    version: int
    body: bytes


@attrs.define
class _Part:
    """What one part has. added: in the order of versions, all newer than the body."""

    kept: _Saved | None = None
    added: tuple[_Saved, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(len(saved.body) for saved in (self.kept, *self.added) if saved is not None)


class Drafts:
    """All drafts, the one saved last at the end. Plain state, no await; the store owns it."""

    def __init__(self) -> None:
        self._drafts: OrderedDict[str, dict[DraftPart, _Part]] = OrderedDict()
        self._bytes = 0

    def save(self, command: SaveDraft) -> bool:
        """Keep this part; false if what is kept is as new or newer, or too much was added to it."""
        part = self._drafts.get(command.session_id, {}).get(command.part, _Part())
        saved = _Saved(command.version, command.body)
        newest = part.added[-1] if part.added and command.adds else part.kept
        if newest is not None and newest.version >= saved.version:
            return False
        if command.adds:
            if len(part.added) == MAX_ADDED or part.size_bytes + len(saved.body) > MAX_ALL_BYTES:
                return False
            changed = _Part(part.kept, (*part.added, saved))
        else:
            changed = _Part(saved, tuple(one for one in part.added if one.version > saved.version))
        self._bytes += changed.size_bytes - part.size_bytes
        self._drafts.setdefault(command.session_id, {})[command.part] = changed
        self._drafts.move_to_end(command.session_id)
        while len(self._drafts) > MAX_DRAFTS or (self._bytes > MAX_ALL_BYTES and len(self._drafts) > 1):
            oldest = next(iter(self._drafts))
            log.info("draft-forgotten id=%r", oldest[:40])
            self.forget(oldest)
        return True

    def show(self, session_id: str, part: DraftPart) -> tuple[bytes | None, tuple[bytes, ...]]:
        """A part as it was saved, None if there is none, and what was added to it."""
        found = self._drafts.get(session_id, {}).get(part, _Part())
        return found.kept.body if found.kept else None, tuple(saved.body for saved in found.added)

    def forget(self, session_id: str) -> None:
        """Drop a draft; an unknown one is fine."""
        self._bytes -= sum(part.size_bytes for part in self._drafts.pop(session_id, {}).values())
