"""Logging: one formatter for everything, which no text from outside can break out of.

Lines hold ids, counts and times, never prompt or answer text. Control characters, line separators and
bidirectional marks are escaped, so a forged message cannot look like a line of its own
(reliability.md section 1, class 12).
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MAX_MESSAGE_CHARS: Final = 2000


def escape(text: str) -> str:
    """Make text harmless for a log or a terminal: one line, printable, bounded."""
    safe = _UNSAFE.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode("ascii"), text)
    return safe if len(safe) <= MAX_MESSAGE_CHARS else safe[:MAX_MESSAGE_CHARS] + f"...({len(safe)} characters)"


class EscapingFormatter(logging.Formatter):
    """Time, level, logger and the escaped message; a traceback follows, each of its lines escaped."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        record.message = escape(record.getMessage())
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n    {escape(part)}" for part in trace.split("\n"))
        return line


def set_up_logging(level: str = "INFO") -> None:
    """Send all logging to stderr through the formatter. Third parties speak from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EscapingFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("muse").setLevel(level)
