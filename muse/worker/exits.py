"""How a worker process ends: its exit statuses, and ending as a child of it ended."""

from __future__ import annotations

import os
import resource
import signal
import threading
from typing import Final, NoReturn

ASKED: Final = 0
BUG: Final = 1
USAGE: Final = 2
LOAD_FAILED: Final = 3
ENGINE_GONE: Final = 4
REFUSED: Final = 5
"""The system gave it no thread to begin with."""


def end_like(returncode: int) -> NoReturn:
    """End by the signal that ended a child (negative return code), else with ENGINE_GONE. Any thread."""
    if returncode < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of this process it would tell nothing, and hold prompts
        signal.pthread_kill(threading.get_ident(), -returncode)
    os._exit(ENGINE_GONE)  # also for a signal that does not end this process
