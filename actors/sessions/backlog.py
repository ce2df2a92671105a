"""Backlog: takes the worker's events one after another, long ones in parts, so that no event holds up the main process.

An ordinary event is taken at once, in the pipe reader. A long one waits for its turn's task, and so do those that come
behind it: the order is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs
import trio

from actors.supervisor.messages import RequestEvent
from muse.errors import MuseError
from muse.protocol import Tokens

Take: TypeAlias = Callable[[RequestEvent | MuseError], None]

PART_CHARS: Final = 4096
"""Of a text that is taken at once: 1 to 5 ms where it is dense with calls."""


class Backlog:
    """`take` is called with each event, or the fault that ended them, in order. It is not kept: a turn that its own
    parts hold would be freed by the garbage collector only, with all its text."""

    def __init__(self) -> None:
        self._waiting: deque[RequestEvent | MuseError] = deque()

    @property
    def is_waiting(self) -> bool:
        """Something waits for `drain`."""
        return bool(self._waiting)

    def offer(self, event: RequestEvent | MuseError, take: Take) -> None:
        """Take it now if it is short and nothing waits before it. Does not wait."""
        if self._waiting or _is_long(event):
            self._waiting.append(event)
        else:
            take(event)

    async def drain(self, take: Take) -> None:
        """Take what waits; others run in between."""
        while self._waiting:
            for part in _parts(self._waiting[0]):
                take(part)
                await trio.lowlevel.checkpoint()
            self._waiting.popleft()


def _is_long(event: RequestEvent | MuseError) -> bool:
    return isinstance(event, Tokens) and not event.control and len(event.text) > PART_CHARS


def _parts(event: RequestEvent | MuseError) -> Iterator[RequestEvent | MuseError]:
    """An event as several: the first has the ids, so their text is counted once."""
    if not isinstance(event, Tokens) or not _is_long(event):
        yield event
        return
    for start in range(0, len(event.text), PART_CHARS):
        ids = event.ids if not start or event.ids is None else ()
        yield attrs.evolve(event, ids=ids, text=event.text[start : start + PART_CHARS])
