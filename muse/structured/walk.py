"""Walks through the grammar of a schema, to find where an answer could not go on.

A walk has two parts: for a while it takes whatever may come, at random but the same each time; then it makes for the
end. The first walks make for the end at once.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from muse.structured.grammar_readers import END, Reader

_END_WITHIN: Final = 4_000
"""Bytes. A walk that is not at its end then looks for something that it does not find."""

_WANDER_BYTES: Final = (10, 30, 60, 100, 200)
_STRUCTURE: Final = frozenset(b'"}],{[:\\')
_MAX_ZEROS: Final = 100
"""In a walk: they help to the end of a multiple or of a pattern, but a number may have zeros without end."""
_WAYS: Final = 3
"""Of making for the end: closing, then what came least so far; closing, then zeros; closing, else at random."""


class DeadEnd(Exception):
    """Nothing may come after `answer`. reason: the library's words, or empty."""

    def __init__(self, answer: bytes, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer
        self.reason = reason


def walk(reader: Reader, number: int) -> bytes | None:
    """The answer of the walk with a number; None: it found no end in time. Raises DeadEnd."""
    way = number % _WAYS
    going = _Walk(reader, number)
    if number >= _WAYS:
        going.anywhere(_WANDER_BYTES[number % len(_WANDER_BYTES)])
    return going.to_end(way)


def cpu_seconds() -> float:
    """What this process has computed: other work on the machine must not change a verdict."""
    return time.process_time()


class _Walk:
    """One answer from its beginning. seed: the same walk each time, so that a verdict does not change."""

    def __init__(self, reader: Reader, seed: int) -> None:
        reader.restart()
        self._reader = reader
        self._dice = random.Random(seed)  # noqa: S311 - no secret
        self._answer = bytearray()
        self._ended = False
        self._in_string = False
        self._escaped = False

    def anywhere(self, size: int) -> None:
        """Go on by so many bytes."""
        while len(self._answer) < size and not self._ended:
            allowed = self._allowed()
            structure = [token for token in allowed if token == END or token in _STRUCTURE]
            self._take(self._dice.choice(structure if structure and self._dice.random() < 0.5 else allowed))

    def to_end(self, way: int) -> bytes | None:
        """The whole answer; None: there was no end in sight."""
        seen = Counter[int]()
        start = len(self._answer)
        while not self._ended:
            if len(self._answer) - start == _END_WITHIN:
                return None
            allowed = self._allowed()
            token = allowed[0] if len(allowed) == 1 else self._nearest_end(allowed, way, seen)
            seen[token] += 1
            self._take(token)
        return bytes(self._answer)

    def _allowed(self) -> Sequence[int]:
        allowed = self._reader.allowed()
        if not allowed:
            raise DeadEnd(bytes(self._answer), self._reader.error())
        if self._escaped:  # the engines' versions differ in whether names may have these; no schema needs them
            return [token for token in allowed if token not in b"/u"] or allowed
        return allowed

    def _nearest_end(self, allowed: Sequence[int], way: int, seen: Counter[int]) -> int:
        for token in (END, *(b'"' if self._in_string else b"}]")):
            if token in allowed:
                return token
        if way == 1 and ord("0") in allowed and seen[ord("0")] < _MAX_ZEROS:
            return ord("0")
        if way == 2:
            return self._dice.choice(allowed)
        # No loop of a pattern is run for ever, and what opens something comes last.
        return min(allowed, key=lambda token: (seen[token], token in b"{[\\-", token))

    def _take(self, token: int) -> None:
        if token == END:
            self._ended = True
            return
        self._reader.take(token)
        self._answer.append(token)
        if self._in_string and not self._escaped and token == ord("\\"):
            self._escaped = True
            return
        if token == ord('"') and not self._escaped:
            self._in_string = not self._in_string
        self._escaped = False
