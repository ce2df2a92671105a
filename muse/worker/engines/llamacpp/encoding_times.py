"""How long the image encoder of the native server took, by its log.

The server encodes a picture and evaluates it in one go, and tells both as one time. Apart they are only in its log,
which names the slot where the encoder begins, and has a line of its own where the evaluation does. These lines are of
the level that tells each step, so all of that level is kept from our log.
"""

from __future__ import annotations

import re
import threading
from typing import Final

VERBOSITY: Final = 4
"""Of the server's log, at which it has the lines that are looked for."""
_LINE: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)\.(\d+) I ?(.*)")
_BEGIN: Final = re.compile(r"slot +encode_mtmd_\S*: id +(\d+) .*\bn_chunks = (\d+)")
_END: Final = "decoding image batch 1/"
_WAIT_S: Final = 1.0
"""For lines that were written but not read: they come by another way than the answer. Nothing else waits for it."""


class EncodingTimes:
    """Times by slot. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun: tuple[int, int, float] | None = None  # slot, pictures, milliseconds of the log
        self._found: dict[int, tuple[int, float]] = {}
        self._is_skipping = False

    def read(self, line: str) -> bool:
        """Take a line of the log; says whether it is for ours, too."""
        found = _LINE.match(line)
        if found is None:
            # Further lines of one that was skipped are indented.
            return not (self._is_skipping and line[:1].isspace())
        self._is_skipping = True
        *parts, words = found.groups()
        minutes, seconds, milliseconds, microseconds = map(int, parts)
        self._read(words, (minutes * 60 + seconds) * 1000 + milliseconds + microseconds / 1000)
        return False

    def _read(self, words: str, at_ms: float) -> None:
        if begin := _BEGIN.match(words):
            self._begun = int(begin[1]), int(begin[2]), at_ms
        elif words.startswith(_END) and self._begun is not None:
            slot, pictures, began_ms = self._begun
            self._begun = None
            with self._changed:
                count, sum_ms = self._found.get(slot, (0, 0.0))
                self._found[slot] = count + pictures, sum_ms + at_ms - began_ms
                self._changed.notify_all()

    def forget(self, slot: int) -> None:
        """A request takes the slot."""
        with self._changed:
            self._found.pop(slot, None)

    def take(self, slot: int, pictures: int) -> float | None:
        """Milliseconds that encoding took since then, of at least so many pictures; None: not told."""
        with self._changed:
            self._changed.wait_for(lambda: self._found.get(slot, (0, 0.0))[0] >= pictures, _WAIT_S)
            count, sum_ms = self._found.pop(slot, (0, 0.0))
        return sum_ms if count >= max(pictures, 1) else None
