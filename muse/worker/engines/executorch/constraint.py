"""An answer held to a JSON Schema: which tokens may come next, by llguidance over the model's whole vocabulary.

Nothing needs to be refused for its text here: what spells a control token is written by ordinary tokens, since control
tokens are no text to the grammar, and runs of any length are tokens like others.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from muse.worker.answer_matcher import dead_end, wrong_prefix
from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.distribution import Ids, Row
from muse.worker.json_form import check_answer, check_followed, grammar_of

# What a logit may be at most, for each bit of each byte of a mask: anything, or nothing.
_LIMITS: Final = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view(np.bool_),
    np.float32(np.inf),
    np.float32(-np.inf),
)
# Up to this share of the vocabulary the tokens that may come are looked at alone.
_FEW: Final = 1 / 8


class JsonConstraint:
    """Of one answer. tokenizer: `JsonTokenizer.for_grammars`; the program may have more tokens, which never come. An
    answer may end where it is complete, by any of the tokens for it, and nowhere else."""

    def __init__(self, tokenizer: LLTokenizer, schema_text: str, prefix: str = "") -> None:
        """prefix: what of the answer was sent before, by another worker. Raises EngineFault `bad_request` for a schema
        that cannot be followed, and for a prefix that does not follow it."""
        self._grammar = grammar_of(schema_text)
        self._prefix = prefix.encode("utf-8", "replace")
        self._size = tokenizer.vocab_size
        self._matcher = LLMatcher(tokenizer, self._grammar, log_level=0)
        check_followed(self._matcher)
        sent = tokenizer.tokenize_bytes(self._prefix)
        if self._matcher.try_consume_tokens(sent) != len(sent):
            raise wrong_prefix()
        self._limits = np.empty((math.ceil(self._size / 8), 8), np.float32)

    def narrow(self, row: Row) -> tuple[Row, Ids | None]:
        """See Constraint. Raises EngineFault."""
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint8, count=len(self._limits))
        if self._matcher.is_error() or not mask.any():
            raise self._dead_end()
        if np.bitwise_count(mask).sum() <= self._size * _FEW:
            ids = np.flatnonzero(np.unpackbits(mask, count=self._size, bitorder="little").view(np.bool_))
            return row.take(ids), ids
        # Into the same memory each time: what is fetched from the system anew costs more than the work.
        _LIMITS.take(mask, axis=0, out=self._limits, mode="clip")
        limits = self._limits.reshape(-1)[: self._size]
        return np.minimum(row[: self._size], limits, out=limits), None

    def take(self, token: int) -> None:
        """See Constraint. Raises EngineFault."""
        self._matcher.consume_token(token)
        if self._matcher.is_error():
            raise self._dead_end()

    def _dead_end(self) -> EngineFault:
        return dead_end(self._matcher.get_error())

    def check(self, answer: bytes, *, complete: bool) -> None:
        """The answer, or the beginning of one, as it went out. Raises EngineFault."""
        check_answer(self._grammar, self._prefix + answer, complete=complete)
