"""The shelf: replies that can still be read, continued or told something, by id.

Rule of forgetting: a running turn is never forgotten. A finished one is kept for KEEP_S seconds, but at
most MAX_FINISHED of them, MAX_CHARS characters of text and MAX_PICTURE_BYTES of pictures in all, each of these
counted once; the one that finished first goes first. With its session all of a session's go. What is gone is answered
404 by name, never as if it had not been.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import attrs

from actors.sessions.turn import Turn
from muse.api.images import Picture, bytes_in_memory
from muse.api.message import pictures_of, text_chars
from muse.protocol import IdsSegment, ImageSegment, TextSegment

KEEP_S: Final = 300.0
MAX_FINISHED: Final = 64
MAX_CHARS: Final = 16 * 1024 * 1024
"""The prompt of a turn holds most of its messages' text again."""
MAX_PICTURE_BYTES: Final = 64 * 1024 * 1024
"""As they are kept: in base64. The pictures of a request may have 54 MiB then."""


@attrs.frozen
class _Finished:
    """at: when. chars: what it costs, without its pictures."""

    turn: Turn
    at: float
    chars: int
    pictures: frozenset[Picture]


class Shelf:
    """Turns by reply id. Time comes in as monotonic seconds."""

    def __init__(self) -> None:
        self._running: dict[str, Turn] = {}
        self._finished: OrderedDict[str, _Finished] = OrderedDict()
        self._chars = 0

    def put(self, turn: Turn) -> None:
        """A turn begins."""
        self._running[turn.reply.id] = turn

    def finish(self, turn: Turn, now: float) -> None:
        """It has its outcome: the time of keeping begins. One that was forgotten meanwhile is not kept."""
        if self._running.pop(turn.reply.id, None) is None:
            return
        finished = _Finished(turn, now, _size(turn), pictures_of(turn.request.messages))
        self._finished[turn.reply.id] = finished
        self._chars += finished.chars
        self.tidy(now)

    def find(self, reply_id: str, now: float) -> Turn | None:
        """The turn, running or finished; None if unknown or forgotten."""
        self.tidy(now)
        if reply_id in self._running:
            return self._running[reply_id]
        kept = self._finished.get(reply_id)
        return kept.turn if kept is not None else None

    def of_session(self, session_id: str) -> tuple[Turn, ...]:
        """The turns of a session that are here, running and finished."""
        turns = [*self._running.values(), *(finished.turn for finished in self._finished.values())]
        return tuple(turn for turn in turns if turn.reply.session_id == session_id)

    def forget(self, turns: Iterable[Turn]) -> None:
        """Drop turns; those that are gone already are fine."""
        for turn in turns:
            self._running.pop(turn.reply.id, None)
            finished = self._finished.pop(turn.reply.id, None)
            if finished is not None:
                self._chars -= finished.chars

    @property
    def next_due(self) -> float | None:
        """When the time of the turn that finished first is over; None: none is finished."""
        first = next(iter(self._finished.values()), None)
        return first.at + KEEP_S if first is not None else None

    def tidy(self, now: float) -> None:
        """Forget what the rule says."""
        while self._finished:
            first = next(iter(self._finished.values()))
            if (
                now < first.at + KEEP_S
                and len(self._finished) <= MAX_FINISHED
                and self._chars <= MAX_CHARS
                and bytes_in_memory(finished.pictures for finished in self._finished.values()) <= MAX_PICTURE_BYTES
            ):
                return
            self._finished.popitem(last=False)
            self._chars -= first.chars


def _size(turn: Turn) -> int:
    """Characters (an id counts as four) that keeping the turn costs: messages, tools, prompt, answer; no pictures."""
    size = turn.reply.end + text_chars(turn.request.messages) + turn.request.tool_use.chars
    if turn.answer is None:
        return size
    size += sum(len(part.spelled) for part in turn.answer.parts) + len(turn.answer.generated.text)
    for segment in turn.answer.prompt + turn.answer.generated.segments():
        match segment:
            case TextSegment():
                size += len(segment.text)
            case IdsSegment():
                size += 4 * len(segment.ids)
            case ImageSegment():
                pass
    return size
