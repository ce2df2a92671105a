"""How a worker process ends: its exit statuses, and ending as a child of it ended."""

from __future__ import annotations

import os
import resource
import signal
from typing import Final, NoReturn

ASKED: Final = 0
BUG: Final = 1
USAGE: Final = 2
LOAD_FAILED: Final = 3
ENGINE_GONE: Final = 4


def end_like(returncode: int) -> NoReturn:
    """End by the signal that ended a child (negative return code), else with ENGINE_GONE."""
    if returncode < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left the core file worth having
        if -returncode != signal.SIGKILL:
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    os._exit(ENGINE_GONE)
