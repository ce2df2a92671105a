"""The tokeniser of the scripted engine: reversible, deterministic, and a real one.

Ids 0..255 are the bytes of UTF-8, one id a byte; then come the special tokens, then the words that the
script's answers are made of. Text is always cut into bytes (words are only generated, never recognised), so
any ids decode to the bytes they stand for and the count of a prompt is easy to foretell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_FIRST_SPECIAL = 256


class ScriptedTokenizer:
    """special: spellings of the control tokens, the first being the end of a turn."""

    def __init__(self, special: Sequence[str]) -> None:
        self._special = {spelling: _FIRST_SPECIAL + i for i, spelling in enumerate(special)}
        self._bytes = [bytes([i]) for i in range(_FIRST_SPECIAL)] + [s.encode() for s in special]
        self._words = {word: token for token, word in enumerate(self._bytes)}
        longest_first = sorted(special, key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def word_id(self, word: bytes) -> int:
        """Id of a word of an answer; a new word gets the next free id. The spelling of a control token is that
        token."""
        if word not in self._words:
            self._words[word] = len(self._bytes)
            self._bytes.append(word)
        return self._words[word]

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Ids of a text. special: spellings of control tokens become them; else they stay text."""
        if not special:
            return list(text.encode("utf-8", "replace"))
        ids: list[int] = []
        for part in self._cut.split(text):
            ids += [self._special[part]] if part in self._special else part.encode("utf-8", "replace")
        return ids

    def is_known(self, token: int) -> bool:
        return 0 <= token < len(self._bytes)

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes that ids stand for, special tokens as their spelling."""
        return b"".join(self._bytes[i] for i in ids)
