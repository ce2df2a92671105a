"""Finds and ends a worker that an earlier server left behind.

The guard makes sure that a worker dies with its server; only a guard that was itself killed by SIGKILL
can leave one. So each start writes down pid, start time and executable, and the next start ends that
process group if, and only if, all three still agree (a pid alone may have been reused).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

log = logging.getLogger("muse.supervisor")

RECORD_NAME: Final = "worker.json"
PS_TIMEOUT_S: Final = 2.0


def _identity(pid: int) -> tuple[str, str] | None:
    """Start time and command of a process, as text that stays equal for its life; None if it is gone."""
    proc = Path("/proc") / str(pid)
    try:
        # Field 22 of stat is the start time in clock ticks; the name before it may hold spaces.
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        return fields[19], str((proc / "exe").readlink())
    except (OSError, IndexError):
        if proc.parent.is_dir() and (proc.parent / "self").exists():
            return None
    try:
        seen = subprocess.run(
            ["/bin/ps", "-o", "lstart=,comm=", "-p", str(pid)],
            capture_output=True, text=True, timeout=PS_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    line = seen.stdout.strip()
    return (line[:24], line[24:].strip()) if line else None


class LeftOver:
    """The record file of the running worker. Failing to write it is logged, never fatal."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD_NAME

    def note(self, pid: int) -> None:
        """Write down a started worker's guard (the group leader)."""
        identity = _identity(pid)
        if identity is None:
            return
        started, executable = identity
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({"pid": pid, "started": started, "executable": executable}))
            partial.replace(self._path)
        except OSError as fault:
            log.warning("worker-record-not-written reason=%s", fault.strerror)

    def forget(self) -> None:
        """The worker is gone."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as fault:
            log.warning("worker-record-not-removed reason=%s", fault.strerror)

    def end(self) -> bool:
        """End a left-over worker of an earlier server; true if there was one."""
        try:
            record: Any = json.loads(self._path.read_text())
            pid, known = int(record["pid"]), (str(record["started"]), str(record["executable"]))
        except (OSError, ValueError, KeyError, TypeError):
            return False
        ended = False
        if pid > 1 and _identity(pid) == known:
            try:
                os.killpg(pid, signal.SIGKILL)
                ended = True
                log.warning("left-over-ended pid=%d", pid)
            except (ProcessLookupError, PermissionError) as fault:
                log.warning("left-over-not-ended pid=%d reason=%s", pid, fault.strerror)
        self.forget()
        return ended
