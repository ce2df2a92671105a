"""How many prompt tokens are evaluated at a time.

The native server looks for a cancel only between two evaluations, and there is no way into one. So a long
prompt is handed to it in steps, one native request each, and the length of a step is how long a cancel
may have to wait. Small steps cost speed; on a fast device only large ones use it.
"""

from __future__ import annotations

from typing import Final

LARGEST: Final = 512
LAST_APART: Final = 4
"""For a model with a sliding window llama.cpp keeps checkpoints, to go back to, and makes the last one of a request
before its last four tokens, which it therefore evaluates apart. A step holds as many more, so that the rest is a
whole step. Measured on 2 cores with the tiny test model: steps of 64 (60 and 4) 3.1 s for 3,000 tokens, of 68 (64
and 4) 0.3 s, and 0.4 s without checkpoints."""
# llama.cpp's attention on the CPU has a fast way for 64 rows or more. Measured on 2 cores at 2,048 tokens
# of context: 64 rows take 0.29 s, 48 take 0.46 s, 32 take 0.30 s. So less than this makes no cancel quicker.
SMALLEST: Final = 64
_TOO_LONG_S: Final = 0.3
_SHORT_S: Final = 0.1


class PrefillStep:
    """`size` follows the device: it doubles while a step takes under 0.1 s and halves after one over 0.3 s,
    also because a long context makes every token dearer. A fixed size, if given, never changes: with the
    same steps, sums are the same from run to run."""

    def __init__(self, fixed: int | None = None) -> None:
        self.size = fixed or SMALLEST
        self.apart = 0  # tokens of a step that are evaluated behind the others
        self._is_fixed = fixed is not None

    @property
    def tokens(self) -> int:
        """How many tokens a step takes in."""
        return self.size + self.apart

    def took(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens was evaluated in so many seconds."""
        if self._is_fixed or tokens < self.size:
            return  # a smaller step was in the way of nobody, and tells too little
        if seconds > _TOO_LONG_S:
            self.size = max(self.size // 2, SMALLEST)
        elif seconds < _SHORT_S:
            self.size = min(self.size * 2, LARGEST)
