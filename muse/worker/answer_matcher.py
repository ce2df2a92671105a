"""Follows a constrained answer along its grammar, beside the engine that writes it.

Nothing goes out before the matcher has taken it, so no text outside the grammar does, whatever the engine makes of its
own constraint. Advanced by what an earlier worker has sent, it also tells which tokens may come next: so a constrained
answer goes on behind a crash.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Final

import attrs

from muse.worker.engines.base import EngineFault

_SHOWN_CHARS: Final = 60
_BITS: Final = re.compile("1+")


@attrs.frozen(kw_only=True)
class MatcherTokens:
    """The tokens that a matcher reads. size: ids from here on are no tokens of the model. byte_ids: for each byte a
    token that is this byte, also where the model has none."""

    tokenizer: Any
    size: int
    byte_ids: Sequence[int]


@cache
def plain_bytes() -> MatcherTokens:
    """Each byte is a token, for those who only follow."""
    # By name, since it is for this alone and costs time to load.
    library: Any = importlib.import_module("llguidance")
    return MatcherTokens(tokenizer=library.LLTokenizer("byte"), size=256, byte_ids=range(256))


def matcher_tokens(spelled: Sequence[bytes], *, control: Collection[int], end: Collection[int]) -> MatcherTokens:
    """Of a model. spelled: the bytes of each token; control: those that are no text; end: those that end an answer.
    Takes a second for 200,000 tokens."""
    library: Any = importlib.import_module("llguidance")
    # Of two tokens with the same bytes llguidance knows the last.
    of_byte = {text: token for token, text in enumerate(spelled) if len(text) == 1 and token not in control}
    every = [bytes((value,)) for value in range(256)]
    missing = [byte for byte in every if byte not in of_byte]
    of_byte |= {byte: len(spelled) + number for number, byte in enumerate(missing)}
    vocabulary = _Vocabulary(
        tokens=[*spelled, *missing],
        special_token_ids=sorted(control),
        byte_ids=[of_byte[byte] for byte in every],
        eos_token_id=min(end),
    )
    tokenizer = library.LLTokenizer(
        importlib.import_module("llguidance._tokenizer").TokenizerWrapper(vocabulary),
        n_vocab=len(vocabulary.tokens),
        eos_token=sorted(end),
    )
    return MatcherTokens(tokenizer=tokenizer, size=len(spelled), byte_ids=vocabulary.byte_ids)


@attrs.frozen(kw_only=True)
class _Vocabulary:
    """What llguidance must know of one."""

    tokens: list[bytes]
    special_token_ids: list[int]
    byte_ids: list[int]
    eos_token_id: int
    bos_token_id: int | None = None

    def __call__(self, text: bytes) -> Sequence[int]:
        """Tokens of a text. Grammars of ours have none that is demanded (`no_forcing`), so any will do."""
        return [self.byte_ids[byte] for byte in text]


def dead_end(fault: str, behind: str = "") -> EngineFault:
    """fault: of the library, if it has one to tell. behind: the end of what was generated."""
    place = f" behind {behind!r}" if behind else ""
    reason = f" ({fault.splitlines()[0]})" if fault else ""
    return EngineFault(
        "constrained_dead_end",
        f"the answer cannot go on by its schema{place}{reason}. Nothing outside the schema was sent. Make the schema "
        "simpler there: parts that contradict each other, large patterns, and texts that spell control tokens lead to "
        "this",
    )


def wrong_prefix() -> EngineFault:
    """What was sent of an answer is no beginning of one."""
    return EngineFault("bad_request", "the beginning of the answer, as it was sent, does not follow its schema")


class AnswerMatcher:
    """Of one answer. prefix: what of it was sent before, by another worker. Raises EngineFault `bad_request` for a
    prefix that is none."""

    def __init__(self, grammar: str, *, prefix: str = "", tokens: MatcherTokens | None = None) -> None:
        library: Any = importlib.import_module("llguidance")
        self._tokens = tokens or plain_bytes()
        self._matcher = library.LLMatcher(self._tokens.tokenizer, grammar, log_level=0)
        self._tail = b""
        if not self._accepts(prefix.encode("utf-8", "replace")):
            raise wrong_prefix()

    @property
    def is_complete(self) -> bool:
        """The answer may end here."""
        return self._matcher.is_accepting()

    @property
    def is_over(self) -> bool:
        """The answer is complete, and nothing can follow."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    def take_text(self, text: str) -> bool:
        """More of the answer; false if it leaves the grammar there."""
        return self._accepts(text.encode("utf-8", "replace"))

    def take_token(self, token: int, spelled: bytes) -> bool:
        """One more token of the model; false if it may not come, and then nothing has changed."""
        if token >= self._tokens.size or self._matcher.try_consume_tokens([token]) != 1:
            return False
        self._note(spelled)
        return True

    def allowed(self) -> list[range]:
        """The tokens that may come next, ascending, end tokens among them where the answer may end. Raises EngineFault
        `constrained_dead_end` when there is none."""
        mask: bytes = self._matcher.compute_bitmask()
        bits = f"{int.from_bytes(mask, 'little'):b}"[::-1][: self._tokens.size]
        ranges = [range(*found.span()) for found in _BITS.finditer(bits)]
        if self._matcher.is_error() or not ranges:
            raise self.dead_end()
        return ranges

    def check_end(self) -> None:
        """The model has ended the answer. Raises EngineFault `constrained_dead_end` where it is not complete."""
        if not self.is_complete:
            raise self.dead_end()

    def dead_end(self) -> EngineFault:
        """What to say where nothing that follows the grammar can come."""
        return dead_end(self._matcher.get_error(), self._tail.decode("utf-8", "replace")[-_SHOWN_CHARS:])

    def _accepts(self, data: bytes) -> bool:
        ids = [self._tokens.byte_ids[byte] for byte in data]
        taken: int = self._matcher.try_consume_tokens(ids)
        self._note(data[:taken])
        return taken == len(ids)

    def _note(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-4 * _SHOWN_CHARS :]
