"""Long runs of one kind of character, which the native server's tokeniser does not survive.

It cuts a text into words with the C++ library's regular expressions, which call themselves once for each character of
a word: 20,000 letters without a break fit a stack of 8 MiB and 21,000 did not, about 410 bytes each. Threads of
macOS have 512 KiB. One word is at most a run of symbols and the run of line breaks behind it, so two runs must fit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Final

LONGEST_RUN: Final = 510
"""Characters; two such runs take about 410 KiB. Divisible by three, as vocabularies take digits by threes."""

# Blanks and line breaks are one word to some models, so they are one kind here.
_STRETCH: Final = re.compile(r"\s+|\S+")


def cut_runs(text: str) -> list[str]:
    """Pieces that joined are the text, cut only inside runs that are too long, each from its own beginning on: so a
    text that grows keeps the pieces that it had."""
    if len(text) <= LONGEST_RUN:
        return [text]
    pieces: list[str] = []
    start = 0
    for begin, end in _long_runs(text):
        for place in range(begin + LONGEST_RUN, end, LONGEST_RUN):
            pieces.append(text[start:place])
            start = place
    return [*pieces, text[start:]]


def has_long_run(text: str) -> bool:
    """Whether the tokeniser must not get the text in one piece."""
    return next(_long_runs(text), None) is not None


def _long_runs(text: str) -> Iterator[tuple[int, int]]:
    """Where they begin and end."""
    for stretch in _STRETCH.finditer(text):
        begin, end = stretch.span()
        if end - begin <= LONGEST_RUN:
            continue
        if text[begin].isspace():
            yield begin, end
            continue
        for _, run in groupby(text[begin:end], _kind):
            length = sum(1 for _ in run)
            if length > LONGEST_RUN:
                yield begin, begin + length
            begin += length


def _kind(char: str) -> str:
    """Letters with their marks, digits, or anything else."""
    category = unicodedata.category(char)[0]
    return {"L": "L", "M": "L", "N": "N"}.get(category, "S")
