"""Text that knows where each of its characters comes from.

A chat template mixes control tokens of its own with text that a client wrote. Only the former may become
control tokens of the prompt. MarkedText is a `str` whose operations carry the origin along, so that a
template may trim, cut, search and join as it likes, on the real text, and the result still tells what is
whose. Origins only ever come in through `scaffold`, `from_source` and `data`; an operation that is not
followed here (any `str` method not defined below) returns a plain `str`, which counts as UNKNOWN, and
UNKNOWN text is never given control tokens. A gap can thus cost a template its effect, not a user's text
its harmlessness.

Owns no limits of time; those of size are here, because the operations are.
tests/unit/test_chat_marked_text.py proves each operation against a character by character model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, SupportsIndex

SCAFFOLD: Final = -1
"""Written by the template, or vetted by us: may be control tokens."""
UNKNOWN: Final = -2
"""Made by an operation that is not followed."""
DATA: Final = -3
"""Values of the request that no single message owns, such as JSON of a tool."""

MAX_CHARS: Final = 80 * 1024 * 1024
"""Longest text: the longest body that the server takes (64 MiB) and ample scaffold around it."""
MAX_PIECES: Final = 1_000_000
"""Most pieces that one text is taken apart into; about 100 bytes each."""

Runs = tuple[tuple[int, int], ...]
"""(length, origin) from left to right, covering the text. No empty run, no two neighbours alike."""


class TextLimitExceeded(Exception):
    """A template asked for a text or a number of pieces beyond the limits above."""


class MarkedText(str):
    """A string with an origin for each character. `MarkedText(text)` without runs is UNKNOWN text."""

    __slots__ = ("_ends", "_runs")  # the underscore also hides them from sandboxed templates
    _runs: Runs
    _ends: Sequence[int] | None
    """Where each run ends; made when the text is cut for the first time."""

    def __new__(cls, text: str = "", runs: Runs | None = None) -> MarkedText:
        self = super().__new__(cls, text)
        self._runs = ((len(text), UNKNOWN),) if runs is None and text else (runs or ())
        self._ends = None
        return self

    # str(x) is what Jinja writes around every output; it must not drop the marks.
    def __str__(self) -> str:
        return self

    def __iter__(self) -> Iterator[str]:
        if len(self) > MAX_PIECES:
            raise TextLimitExceeded(f"more than {MAX_PIECES} characters one by one")
        position = 0
        for length, origin in self._runs:
            for char in str.__str__(self[position : position + length]):
                yield MarkedText(char, ((1, origin),))
            position += length

    def __add__(self, other: object) -> str:
        # Text that escapes its neighbours (markupsafe) has its own idea of adding; it comes out UNKNOWN.
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented
        return join_marked((self, other))

    def __radd__(self, other: object) -> str:
        if not isinstance(other, str) or hasattr(other, "__html__"):
            return NotImplemented
        return join_marked((other, self))

    def __mul__(self, count: SupportsIndex) -> str:
        times = count.__index__()
        if len(self) * times > MAX_CHARS or times > MAX_PIECES:
            raise TextLimitExceeded(f"a text of more than {MAX_CHARS} characters")
        return join_marked([self] * times)

    def __rmul__(self, count: SupportsIndex) -> str:
        return self * count

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._cut(start, max(start, stop))
            origins = [origin for length, origin in self._runs for _ in range(length)]
            return MarkedText(super().__getitem__(key), _to_runs((1, origin) for origin in origins[key]))
        index = key.__index__()
        char = super().__getitem__(index)  # raises IndexError as str does
        index %= len(self)
        return MarkedText(char, self._runs_within(index, index + 1))

    # ------------------------------------------------------------ parts

    def strip(self, chars: str | None = None, /) -> str:
        return self._cut(len(self) - len(super().lstrip(chars)), len(super().rstrip(chars)))

    def lstrip(self, chars: str | None = None, /) -> str:
        return self._cut(len(self) - len(super().lstrip(chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> str:
        return self._cut(0, len(super().rstrip(chars)))

    def removeprefix(self, prefix: str, /) -> str:
        return self._cut(len(self) - len(super().removeprefix(prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> str:
        return self._cut(0, len(super().removesuffix(suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        self._check_pieces(sep)
        return self._locate(super().split(sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        self._check_pieces(sep)
        return self._locate(super().rsplit(sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[str]:
        if super().count("\n") + super().count("\r") > MAX_PIECES:
            raise TextLimitExceeded(f"more than {MAX_PIECES} lines")
        lines: list[str] = []
        position = 0
        for line, shown in zip(super().splitlines(True), super().splitlines(keepends), strict=True):
            lines.append(self._cut(position, position + len(shown)))
            position += len(line)
        return lines

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, _ = super().partition(sep)
        return self._cut_three(len(before), len(before) + len(found))

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        before, found, _ = super().rpartition(sep)
        return self._cut_three(len(before), len(before) + len(found))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        limit = count.__index__()
        times = super().count(old)
        times = times if limit < 0 else min(times, limit)
        if len(self) + times * (len(new) - len(old)) > MAX_CHARS or times > MAX_PIECES:
            raise TextLimitExceeded(f"a text of more than {MAX_CHARS} characters")
        if not old:
            return MarkedText(super().replace(old, new, limit))
        pieces: list[str] = []
        position = 0
        for _ in range(times):
            found = super().find(old, position)
            pieces += (self._cut(position, found), new)
            position = found + len(old)
        return join_marked([*pieces, self._cut(position, len(self))])

    def join(self, iterable: Iterable[str], /) -> str:
        pieces: list[str] = []
        for item in iterable:
            pieces += (self, item)
            if len(pieces) > 2 * MAX_PIECES:
                raise TextLimitExceeded(f"more than {MAX_PIECES} texts joined")
        return join_marked(pieces[1:])

    # ------------------------------------------------------------ letters

    def lower(self) -> str:
        return same_shape(self, super().lower())

    def upper(self) -> str:
        return same_shape(self, super().upper())

    def title(self) -> str:
        return same_shape(self, super().title())

    def capitalize(self) -> str:
        return same_shape(self, super().capitalize())

    def casefold(self) -> str:
        return same_shape(self, super().casefold())

    def swapcase(self) -> str:
        return same_shape(self, super().swapcase())

    # ------------------------------------------------------------ inner work

    def _cut(self, start: int, stop: int) -> MarkedText:
        if start >= stop:
            return MarkedText("", ())
        return MarkedText(super().__getitem__(slice(start, stop)), self._runs_within(start, stop))

    def _runs_within(self, start: int, stop: int) -> Runs:
        """The runs of a part that is not empty: found, not counted, so that taking a text apart is linear."""
        runs = self._runs
        if len(runs) == 1:
            return ((stop - start, runs[0][1]),)
        if self._ends is None:
            self._ends = tuple(accumulate(length for length, _ in runs))
        ends = self._ends
        kept: list[tuple[int, int]] = []
        index = bisect_right(ends, start)
        while start < stop:
            end = min(ends[index], stop)
            kept.append((end - start, runs[index][1]))
            start, index = end, index + 1
        return tuple(kept)

    def _cut_three(self, first: int, second: int) -> tuple[str, str, str]:
        return self._cut(0, first), self._cut(first, second), self._cut(second, len(self))

    def _check_pieces(self, sep: str | None) -> None:
        most = super().count(sep) if sep else len(self) // 2
        if most > MAX_PIECES:
            raise TextLimitExceeded(f"a text taken apart into more than {MAX_PIECES} pieces")

    def _locate(self, parts: list[str], sep: str | None) -> list[str]:
        """Find the parts of a split again. With a separator they follow each other at its distance.
        Without one, only white space lies between them, and only the first may begin with it (rsplit)."""
        located: list[str] = []
        position = 0
        for part in parts:
            start = position if sep is not None else super().find(part, position)
            located.append(self._cut(start, start + len(part)))
            position = start + len(part) + len(sep or "")
        return located


class JsonText(MarkedText):
    """Stands for a value that is kept as JSON text (muse/json_text.py); `tojson` writes it as it is, and so does
    printing."""

    __slots__ = ()


def scaffold(text: str) -> MarkedText:
    """Text of the template itself, or of ours: may become control tokens."""
    return _of(text, SCAFFOLD)


def data(text: str) -> MarkedText:
    """Text of the request that no message owns."""
    return _of(text, DATA)


def from_source(text: str, source: int) -> MarkedText:
    """Text that a client wrote. source: 0 or more, any numbering of the caller's."""
    return _of(text, source)


def _of(text: str, origin: int) -> MarkedText:
    return MarkedText(text, ((len(text), origin),) if text else ())


def runs_of(text: str) -> Runs:
    """The origins of any string; a plain one is UNKNOWN throughout."""
    if isinstance(text, MarkedText):
        return text._runs  # pyright: ignore[reportPrivateUsage] - hidden from templates, not from this module
    return ((len(text), UNKNOWN),) if text else ()


def join_marked(pieces: Iterable[str]) -> MarkedText:
    """Concatenate strings of any kind, keeping what is known of each. Raises TextLimitExceeded."""
    texts = list(pieces)  # str.join below raises TypeError for anything that is no text
    if sum(map(len, texts)) > MAX_CHARS:
        raise TextLimitExceeded(f"a text of more than {MAX_CHARS} characters")
    return MarkedText("".join(texts), _to_runs(run for text in texts for run in runs_of(text)))


def same_shape(original: str, changed: str) -> MarkedText:
    """Marks for a text whose characters were changed one by one, such as by a change of case. Case changes
    never shorten a text, so an equal length means that every character stands where it stood."""
    runs = runs_of(original)
    if len(changed) == len(original):
        return MarkedText(changed, runs)
    if len(runs) == 1:
        return MarkedText(changed, ((len(changed), runs[0][1]),))
    return MarkedText(changed)


def _to_runs(runs: Iterable[tuple[int, int]]) -> Runs:
    merged: list[tuple[int, int]] = []
    for length, origin in runs:
        if merged and merged[-1][1] == origin:
            merged[-1] = (merged[-1][0] + length, origin)
        else:
            merged.append((length, origin))
    return tuple(merged)
