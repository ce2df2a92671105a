"""What the user sees of a set-up: one line a stage, with a live sign while it works.

On a terminal the line of the running stage is rewritten in place. Elsewhere (a log, CI) it is printed when the stage
starts, then now and then, then once more with the result. ASCII only, no colours.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Callable, TextIO

REWRITE_EVERY_S = 0.2
# Often enough that nobody takes a quiet log for a hang, seldom enough to keep it readable.
REPEAT_EVERY_S = 10.0
LOG_WIDTH = 100


class Console:
    """The screen. Never raises: a set-up whose output nobody reads still finishes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_live = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._label = ""
        self._started = 0.0
        self._shown_at = 0.0
        self._is_open = False
        self._is_gone = False

    def line(self, text: str = "") -> None:
        """Print a whole line, below whatever is on the screen."""
        self._close_live()
        self._write(text + "\n")

    def begin(self, number: int, total: int, title: str) -> None:
        """Start the line of a stage."""
        self._label = f"[{number}/{total}] {title}"
        self._started = self._shown_at = time.monotonic()
        if self.is_live:
            self._rewrite(f"{self._label} ...")
        else:
            self.line(f"{self._label} ...")

    def tick(self, sign: Callable[[], str]) -> None:
        """Show that the running stage lives; cheap to call often, since `sign` is asked only when it is shown."""
        now = time.monotonic()
        if now - self._shown_at < (REWRITE_EVERY_S if self.is_live else REPEAT_EVERY_S):
            return
        self._shown_at = now
        took = f"{now - self._started:.0f} s"
        detail = sign()
        text = f"{self._label} ... {took}, {detail}" if detail else f"{self._label} ... {took}"
        if self.is_live:
            self._rewrite(text)
        else:
            self.line(text[:LOG_WIDTH])

    def end(self, result: str) -> None:
        """Replace the running stage's line by its result; the time it took is added."""
        took = f"{time.monotonic() - self._started:.1f} s"
        self._finish(f"{result}, {took}" if result else took)

    def end_failed(self) -> None:
        self._finish(f"failed after {time.monotonic() - self._started:.1f} s")

    def already(self, number: int, total: int, title: str) -> None:
        """A stage with nothing to do."""
        self.line(f"[{number}/{total}] {title} ... ready")

    def _finish(self, result: str) -> None:
        text = f"{self._label} ... {result}"
        if self._is_open:
            self._rewrite(text, whole=True)
            self._close_live()
        else:
            self.line(text)

    def _rewrite(self, text: str, *, whole: bool = False) -> None:
        width = shutil.get_terminal_size().columns - 1
        if len(text) > width and not whole:
            text = text[: max(width - 3, 0)] + "..."
        self._write(f"\r\x1b[K{text}")
        self._is_open = True

    def _close_live(self) -> None:
        if self._is_open:
            self._is_open = False
            self._write("\n")

    def _write(self, text: str) -> None:
        if self._is_gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The reader is gone (`| head`), or the disk is full. What the stream still holds goes nowhere, else Python
            # complains at exit.
            self._is_gone = True
            if self._stream is sys.stdout:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


def megabytes(size_bytes: int) -> str:
    """A size for people: decimal megabytes, as registries and disks count."""
    value = size_bytes / 1e6
    if value >= 1000:
        return f"{value / 1000:.1f} GB"
    return f"{value:.0f} MB" if value >= 10 else f"{value:.1f} MB"


def plain(text: str) -> str:
    """Text of a tool made safe for one line of a terminal: no control characters, no escape sequences."""
    return "".join(mark if mark.isprintable() else " " for mark in text).strip()
