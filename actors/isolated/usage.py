"""How much memory another process has resident, and how much processor time it has used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import attrs

from actors.threads import run_in_thread
from muse.errors import Unavailable

PS_TIMEOUT_S: Final = 2.0
_HAS_PROC: Final = Path("/proc/self/stat").exists()
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _RSS = 11, 12, 21
"""Places in /proc/PID/stat, counted from behind the program's name."""


@attrs.frozen
class Usage:
    """Of one process, all threads together."""

    resident_bytes: int
    processor_s: float


async def usage_of(pid: int) -> Usage | None:
    """What a process uses now. None: it is gone, or it cannot be told."""
    if _HAS_PROC:
        return _from_proc(pid)
    try:
        return await run_in_thread(_from_ps, pid, abandon_on_cancel=True)
    except Unavailable:
        return None


def _from_proc(pid: int) -> Usage | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read in the event loop, 20 times a second
            fields = file.read().rpartition(b")")[2].split()  # the name before may hold blanks
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        return Usage(int(fields[_RSS]) * _PAGE_BYTES, ticks / _TICKS_PER_S)
    except (OSError, ValueError, IndexError):
        return None


def _from_ps(pid: int) -> Usage | None:
    try:
        seen = subprocess.run(
            ["/bin/ps", "-o", "rss=", "-o", "time=", "-p", str(pid)],
            capture_output=True, timeout=PS_TIMEOUT_S, check=False,
        )  # fmt: skip
        resident, time = seen.stdout.decode().split()
        return Usage(int(resident) * 1024, _seconds(time))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _seconds(time: str) -> float:
    """ps writes `[days-][hours:]minutes:seconds`; macOS with hundredths."""
    days, _, rest = time.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)
