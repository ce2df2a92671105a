"""Which process listens on a port, for the message about a taken port.

Best effort throughout: another user's process cannot be looked into, and a missing tool is no error. Nothing
here raises.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

LSOF_S: Final = 3.0
LISTENING: Final = "0A"
"""State column of /proc/net/tcp (kernel: include/net/tcp_states.h)."""


@attrs.frozen
class PortOwner:
    """A listening process."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def describe_port_owner(port: int) -> PortOwner | None:
    """The process that listens on the TCP port, if that can be known."""
    try:
        if Path("/proc/net/tcp").exists():
            return _owner_by_proc(port)
        return _owner_by_lsof(port)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _owner_by_proc(port: int) -> PortOwner | None:
    """Linux: socket inode of the port from /proc/net, then the process that has it open."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not wanted:
        return None
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _has_open(process, wanted):
            return PortOwner(int(process.name), (process / "comm").read_text().strip())
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not Path(table).exists():
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                yield columns[9]


def _has_open(process: Path, links: set[str]) -> bool:
    try:
        return any(str(fd.readlink()) in links for fd in (process / "fd").iterdir())
    except OSError:
        return False  # another user's, or just ended


def _owner_by_lsof(port: int) -> PortOwner | None:
    """macOS: lsof's field output, one letter and a value a line (`p123`, `cpython3`)."""
    lsof = shutil.which("lsof") or "/usr/sbin/lsof"
    done = subprocess.run(
        [lsof, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"],
        capture_output=True,
        text=True,
        timeout=LSOF_S,
        check=False,
    )
    fields = {line[:1]: line[1:] for line in reversed(done.stdout.splitlines())}
    return PortOwner(int(fields["p"]), fields["c"]) if {"p", "c"} <= fields.keys() else None
