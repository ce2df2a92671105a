"""Times a step without drafting next to each answer, and says when the draft turns out to be a loss.

Only answers that had the engine for themselves count, and only steps that nothing disturbed: two requests at once
share the machine. A request that comes during a step waits for that step at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from muse.exhaustion import is_exhaustion
from muse.protocol import Done, Generate
from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.client import Refused
from muse.worker.engines.llamacpp.draft_trial import LEAST_TOKENS, DraftTrial, Loss

THREAD: Final = "draft watch"


class DraftWatch:
    """step: run the engine for one step without drafting, sampled as the request is; gives its milliseconds, raises
    EngineFault or Refused. lost: called once, from a thread of its own, when the draft costs more than it gives."""

    def __init__(self, step: Callable[[Generate], float], lost: Callable[[Loss], None]) -> None:
        self._step = step
        self._lost = lost
        self._trial = DraftTrial()
        self._lock = threading.Lock()
        self._running = 0
        self._begun = 0
        self._is_over = False

    def follow(self, request: Generate, run: Callable[[], Done]) -> Done:
        """Run a request, and consider its answer."""
        with self._lock:
            self._running += 1
            self._begun += 1
            alone_at = self._begun if self._running == 1 else 0
        try:
            done = run()
        finally:
            with self._lock:
                self._running -= 1
        tokens = done.completion_tokens - (done.finish_reason != "stop")  # the first one was the prompt's
        is_fit = done.finish_reason != "cancelled" and request.json_schema is None and tokens >= LEAST_TOKENS
        if is_fit and not self._is_over:
            arguments = (request, tokens, done.decode_ms, alone_at)
            try:
                threading.Thread(target=self._consider, args=arguments, name=THREAD, daemon=True).start()
            except RuntimeError as fault:
                if not is_exhaustion(fault):
                    raise  # else another answer will be considered
        return done

    def _consider(self, request: Generate, tokens: int, decode_ms: float, alone_at: int) -> None:
        if not self._is_undisturbed(alone_at):
            return
        try:
            step_ms = self._step(request)
        except (EngineFault, Refused):
            return  # whoever asks the engine for an answer hears of it
        with self._lock:
            if self._running or self._begun != alone_at or self._is_over:
                return
            loss = self._trial.note(tokens=tokens, decode_ms=decode_ms, step_ms=step_ms)
            self._is_over = loss is not None
        if loss is not None:
            self._lost(loss)

    def _is_undisturbed(self, alone_at: int) -> bool:
        """No other request has begun since that one did, and none runs."""
        with self._lock:
            return not self._running and self._begun == alone_at
