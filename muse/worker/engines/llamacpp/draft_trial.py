"""Does the draft pay? Speed with it against what one step without it costs, over the last answers. Pure.

A draft that guesses badly, or is slow for its model, costs more than it gives, and neither shows in an answer. The
engine cannot generate without a draft that it has loaded, but it drafts nothing where only one more token is wanted:
so next to each answer one such step is timed. The draft follows that step too, so a step of a worker without a draft
is a little faster still, and what is judged here errs on the draft's side.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Final

import attrs

WINDOW_TOKENS: Final = 512
LEAST_ANSWERS: Final = 4
LEAST_TOKENS: Final = 16
"""A shorter answer is over before its speed is one."""
MARGIN: Final = 1.1
"""A loss of less is worth no reload, and near what a busy machine makes of two equal runs."""


@attrs.define(frozen=True, slots=True)
class _Answer:
    tokens: int
    with_ms: float
    without_ms: float


@attrs.define(frozen=True, slots=True, kw_only=True)
class Loss:
    """Tokens a second with the draft, and the least that would come without it, measured over so many answers."""

    with_draft: float
    without: float
    answers: int
    tokens: int

    @property
    def words(self) -> str:
        """One sentence for people."""
        return (
            f"The draft costs more than it gives: {self.with_draft:.1f} tokens/s with it, at least {self.without:.1f} "
            f"without (the last {self.answers} answers, {self.tokens} tokens)."
        )


class DraftTrial:
    """The last answers: as many as hold 512 tokens, at least four."""

    def __init__(self) -> None:
        self._answers: deque[_Answer] = deque()
        self._tokens = 0

    def note(self, *, tokens: int, decode_ms: float, step_ms: float) -> Loss | None:
        """Take an answer of so many decoded tokens, and what a step without drafting took right after it.

        Returns the loss when there is one; each time that it is asked, as long as there is.
        """
        if tokens < LEAST_TOKENS or decode_ms <= 0 or step_ms <= 0:
            return None
        self._answers.append(_Answer(tokens, decode_ms / tokens, step_ms))
        self._tokens += tokens
        while len(self._answers) > LEAST_ANSWERS and self._tokens - self._answers[0].tokens >= WINDOW_TOKENS:
            self._tokens -= self._answers.popleft().tokens
        if len(self._answers) < LEAST_ANSWERS or self._tokens < WINDOW_TOKENS:
            return None
        # Medians: one answer beside another program's work must not decide.
        with_ms = statistics.median(answer.with_ms for answer in self._answers)
        without_ms = statistics.median(answer.without_ms for answer in self._answers)
        if with_ms <= MARGIN * without_ms:
            return None
        return Loss(
            with_draft=1000 / with_ms, without=1000 / without_ms, answers=len(self._answers), tokens=self._tokens
        )
