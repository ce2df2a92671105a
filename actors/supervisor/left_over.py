"""Finds and ends a worker that an earlier server left behind.

The guard makes sure that a worker dies with its server; only a guard that was itself killed by SIGKILL
can leave one. So each start writes down pid, start time and executable of worker and server, and the next
start ends that process group if, and only if, all three still agree for the worker and the server is gone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import attrs

from actors.process_group import signal_group

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


@attrs.frozen
class _Process:
    """A process as a record names it: a pid alone may have been reused."""

    pid: int
    started: str
    executable: str

    @classmethod
    def of(cls, pid: int) -> _Process | None:
        identity = _identity(pid)
        return None if identity is None else cls(pid, *identity)

    @property
    def is_alive(self) -> bool:
        return self.pid > 1 and _identity(self.pid) == (self.started, self.executable)


@attrs.frozen
class _Record:
    """Which worker (its guard, the group leader) belongs to which server."""

    server: _Process
    worker: _Process


class LeftOver:
    """The record file of the running worker. Failing to write it is logged, never fatal.

    Several servers may share the folder (on several ports): the first uses `worker.json`, others a file
    with their pid in its name, and nobody touches a worker whose server lives.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None

    def note(self, worker_pid: int) -> None:
        """Write down a started worker."""
        server, worker = _Process.of(os.getpid()), _Process.of(worker_pid)
        if server is None or worker is None:
            return
        if self._path is None:
            first = self._folder / RECORD_NAME
            known = _read(first)
            taken = known is not None and known.server != server and known.server.is_alive
            self._path = self._folder / f"worker-{server.pid}.json" if taken else first
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({**attrs.asdict(worker), "server": attrs.asdict(server)}))
            partial.replace(self._path)
        except OSError as fault:
            log.warning("worker-record-not-written reason=%s", fault.strerror)

    def forget(self) -> None:
        """The worker is gone."""
        if self._path is not None:
            _remove(self._path)

    def end(self) -> int:
        """End the workers whose servers are gone; how many there were."""
        ended = 0
        for path in sorted(self._folder.glob("worker*.json")):
            record = _read(path)
            if record is not None and record.server.is_alive:
                continue
            if record is not None and record.worker.is_alive and signal_group(record.worker.pid, signal.SIGKILL):
                ended += 1
                log.warning("left-over-ended pid=%d", record.worker.pid)
            _remove(path)
        return ended


def _read(path: Path) -> _Record | None:
    try:
        value: Any = json.loads(path.read_text())
        server, worker = (
            _Process(int(part["pid"]), str(part["started"]), str(part["executable"]))
            for part in (value["server"], value)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Record(server, worker)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as fault:
        log.warning("worker-record-not-removed reason=%s", fault.strerror)
