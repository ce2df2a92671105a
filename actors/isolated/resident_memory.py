"""How much memory another process has resident."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from actors.threads import run_in_thread
from muse.errors import Unavailable

PS_TIMEOUT_S: Final = 2.0
_HAS_PROC: Final = Path("/proc/self/statm").exists()
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


async def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process in bytes. None: it is gone, or it cannot be told."""
    if _HAS_PROC:
        return _from_proc(pid)
    try:
        return await run_in_thread(_from_ps, pid, abandon_on_cancel=True)
    except Unavailable:  # no thread can be started now
        return None


def _from_proc(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - read in the event loop, 20 times a second
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def _from_ps(pid: int) -> int | None:
    try:
        seen = subprocess.run(
            ["/bin/ps", "-o", "rss=", "-p", str(pid)],
            capture_output=True, timeout=PS_TIMEOUT_S, check=False,
        )  # fmt: skip
        return int(seen.stdout) * 1024
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
