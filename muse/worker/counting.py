"""Refuses a prompt that cannot fit, without counting it to its end.

A tokeniser takes seconds for megabytes, and a long one inside a native library looks like a hang. So long prompts are
first counted piece by piece, and the count stops once it is over the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from muse.worker.engines.base import context_overflow

COUNTED_CHARS: Final = 1024 * 1024
"""Prompts up to this are counted exactly, which takes at most seconds: the number is worth telling."""
PIECE_CHARS: Final = 256 * 1024
CUT_TOKENS: Final = 8192
"""Left out of the count of a part of a text: where it is cut, the words at its two seams can have more tokens than in
the whole text. Tokenisers split texts into words first; in a word without end (a run of letters) merges reach some
tokens far. This many cover 4 KiB at each seam, even if every byte of them were a token."""


def refuse_longer(texts: Sequence[str], count: Callable[[list[str]], int], context: int) -> None:
    """Raise EngineFault `context_overflow`, without a number of tokens, if these texts must have as many tokens as the
    context or more. Short texts are not counted here.

    Args:
        texts: of the prompt, each tokenised on its own.
        count: how many tokens these pieces have together, each tokenised on its own.
        context: in tokens.
    """
    if sum(map(len, texts)) <= COUNTED_CHARS:
        return
    least = 0
    for pieces, cuts in _batches(texts):
        least += max(0, count(pieces) - cuts * CUT_TOKENS)
        if least >= context:
            raise context_overflow(None, context)


def _batches(texts: Sequence[str]) -> Iterator[tuple[list[str], int]]:
    """Pieces of about PIECE_CHARS together, and how many of them are parts of a text that was cut."""
    batch: list[str] = []
    size = cuts = 0
    for text in texts:
        for start in range(0, len(text), PIECE_CHARS):
            piece = text[start : start + PIECE_CHARS]
            batch.append(piece)
            size += len(piece)
            cuts += len(piece) < len(text)
            if size >= PIECE_CHARS:
                yield batch, cuts
                batch, size, cuts = [], 0, 0
    if batch:
        yield batch, cuts
