"""What the protocol loop asks of an engine, and what an engine is given.

An engine never sees a line of JSON: it gets commands of muse.protocol and hands events back. Every method
but `close` runs in a thread of its own, so it may block; several `generate` calls run at the same time, up to
the `max_inflight_requests` that `load` promised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from muse.protocol import (
    Close,
    Count,
    Done,
    ErrorCode,
    Generate,
    Open,
    Ready,
    Reset,
    Result,
    Show,
    WorkerEvent,
)

Emit = Callable[[WorkerEvent], None]
ReportLoading = Callable[[float | None, str], None]
"""Fraction 0..1 or null, and the stage in words."""


class EngineFault(Exception):
    """A request, or the load, failed for a reason worth telling. fatal: this engine answers no more. image: which of
    the prompt's pictures is to blame, from 0."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        fatal: bool = False,
        prompt_tokens: int | None = None,
        context_length: int | None = None,
        image: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.fatal = fatal
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        self.image = image


def context_overflow(prompt_tokens: int | None, context_length: int) -> EngineFault:
    """The prompt leaves no room for a single token. prompt_tokens None: it was not counted to its end."""
    tokens = f"more than {context_length}" if prompt_tokens is None else str(prompt_tokens)
    return EngineFault(
        "context_overflow",
        f"the prompt has {tokens} tokens, the context holds {context_length} with the answer",
        prompt_tokens=prompt_tokens,
        context_length=context_length,
    )


class CancelToken:
    """Tells a running request to end. Set from the protocol loop, looked at by the request's thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._hook: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Cancel: idempotent, never blocks long; runs the hook of the request, if there is one now."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            if self._hook:
                self._hook()

    def wait(self, timeout_s: float) -> bool:
        """Sleep, but no longer than until the cancel. Returns whether it came."""
        return self._event.wait(timeout_s)

    @contextmanager
    def hook(self, interrupt: Callable[[], None]) -> Generator[None]:
        """Within the block a cancel calls `interrupt` (at once if it came before); never after the block."""
        with self._lock:
            if self._event.is_set():
                interrupt()
            else:
                self._hook = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._hook = None


class Engine(Protocol):
    """One loaded model."""

    def load(self, report: ReportLoading) -> Ready:
        """Load, answer one request of its own, and describe what was loaded. Raises EngineFault."""
        ...

    def generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        """Run one request to its end, emitting accepted, progress and tokens. After a cancel the result says
        finish_reason cancelled and the engine no longer works on the request. Raises EngineFault."""
        ...

    def count(self, request: Count) -> Result:
        """Count the tokens of a prompt as generate would. Raises EngineFault."""
        ...

    def session(self, command: Open | Reset | Close | Show) -> Result:
        """Apply a session command; Show gives the ids believed to be resident. Raises EngineFault."""
        ...

    def check_alive(self) -> None:
        """Raise a fatal EngineFault, the best told, if the engine answers no more. Asked after a fault."""
        ...

    def close(self) -> None:
        """End child processes and remove files, quickly; the process exits right after. Any thread."""
        ...
