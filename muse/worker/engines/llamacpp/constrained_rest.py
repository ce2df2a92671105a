"""The rest of a constrained answer, of which an earlier worker has sent the beginning, or which the native server's own
grammar would let go on as our matcher does not.

The native server can only begin a grammar at its beginning. So the matcher is advanced by what was sent, and the rest
is asked for a few tokens at a time, without the grammar. The tokens that the matcher takes are kept; where it refuses
one, the same place is drawn again among those that it allows. That is the native server's own rule of constrained
sampling (draw freely; if the token is not allowed, draw among the allowed ones), so the rest is distributed as that of
an undisturbed answer. A draft guesses ahead as ever. Tokens that leave no choice are not asked for.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import attrs

from muse.worker.answer_matcher import AnswerMatcher

# Tokens that are asked for at a time: more as long as all of them are allowed, and it takes no longer than this.
_MOST_AHEAD: Final = 16
_STEP_S: Final = 0.25
# Makes sure that the token that was refused is drawn, and refused, once more: only then the native server draws among
# the allowed ones.
_CERTAIN: Final = 1e9

Ask = Callable[[Sequence[int], dict[str, Any]], dict[str, Any] | None]
"""Ask the native server for tokens behind these ones of the answer, with more members of the request; None if the
cancel came."""


@attrs.frozen(kw_only=True)
class Step:
    """tokens: of the answer, all allowed. is_end: the answer is complete. timings: the native server's, if it was
    asked."""

    tokens: tuple[int, ...]
    is_end: bool = False
    timings: dict[str, Any] = attrs.field(factory=dict[str, Any])


class ConstrainedRest:
    """spelled: the bytes of each token. end: tokens that end an answer. as_text: the engine takes the answer so far as
    text, so it cannot begin inside a character. refused: the token that was drawn here and may not come. evaluated: how
    many of the tokens are in the native server's memory; what was not asked for is not, nor is what was drawn last."""

    def __init__(
        self,
        matcher: AnswerMatcher,
        *,
        spelled: Sequence[bytes],
        end: Collection[int],
        ask: Ask,
        as_text: bool,
        refused: int | None = None,
    ) -> None:
        self._matcher = matcher
        self._spelled = spelled
        self._end = end
        self._ask = ask
        self._as_text = as_text
        self._ahead = 2
        self._refused = refused
        self.evaluated = 0

    def next(self, known: Sequence[int], most: int) -> Step:
        """Further tokens, at most so many; none when the cancel came, or those of the native server were refused.
        known: all that this object gave so far. Raises EngineFault."""
        if self._matcher.is_over:
            return Step(tokens=(), is_end=True)
        allowed = self._matcher.allowed()
        if len(allowed) == 1 and len(allowed[0]) == 1:
            return self._take(allowed[0], {})
        held = self._inside_character(known) if self._as_text else []
        options: dict[str, Any] = {"n_predict": min(self._ahead, most)}
        is_masked = self._refused is not None or self._ahead == 1 or bool(held)
        if is_masked:
            # What is held has to come once more before the token that is wanted.
            of_each = [*([range(token, token + 1)] for token in held), allowed]
            options = {"n_predict": len(of_each), "grammar": _grammar(of_each)}
        if self._refused is not None:
            options["logit_bias"] = [[self._refused, _CERTAIN]]
        began = time.monotonic()
        answer = self._ask(known[: len(known) - len(held)], options)
        if answer is None:
            return Step(tokens=())
        drawn: list[int] = answer["tokens"]
        step = self._take(drawn[len(held) :], answer["timings"])
        self.evaluated = len(known) - len(held) + min(len(drawn) - 1, len(held) + len(step.tokens))
        if is_masked:
            if not step.tokens and not step.is_end:
                raise self._matcher.dead_end()
            self._ahead = 1 if "logit_bias" in options else 2
        elif not step.tokens:
            self._ahead = 1
        elif self._refused is None and time.monotonic() - began < _STEP_S:
            self._ahead = min(2 * self._ahead, _MOST_AHEAD)
        return step

    def _take(self, tokens: Iterable[int], timings: dict[str, Any]) -> Step:
        """As many of the tokens as may come."""
        self._refused = None
        taken: list[int] = []
        for token in tokens:
            if token in self._end and self._matcher.is_complete:
                return Step(tokens=tuple(taken), is_end=True, timings=timings)
            if token in self._end or not self._matcher.take_token(token, self._spelled[token]):
                self._refused = token
                break
            taken.append(token)
        return Step(tokens=tuple(taken), timings=timings)

    def _inside_character(self, known: Sequence[int]) -> list[int]:
        """The last tokens, back to where a character begins."""
        held: list[int] = []
        while not _is_text(b"".join(self._spelled[token] for token in known[: len(known) - len(held)])):
            held.insert(0, known[len(known) - len(held) - 1])
        return held


def _is_text(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    decoder.decode(data)
    return not decoder.getstate()[0]


def _grammar(of_each: Sequence[Sequence[range]]) -> str:
    """A grammar of one token out of each."""
    tokens = (",".join(f"{one.start}-{one.stop - 1}" for one in ranges) for ranges in of_each)
    return f"%llguidance {{}}\nstart: {' '.join(f'<[{ranges}]>' for ranges in tokens)}"
