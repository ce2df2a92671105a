"""Who listens on a port of this machine; for reports only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

LISTENING = "0A"


def is_free(port: int) -> bool:
    """Whether a server could listen there on the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def owner_of(port: int) -> str:
    """The listening process in words, or why it cannot be told."""
    found = _owner_on_linux(port) if sys.platform.startswith("linux") else _owner_by_lsof(port)
    return found or "a process that cannot be told (perhaps another user's)"


def _owner_on_linux(port: int) -> str:
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(entry) in wanted for entry in (process / "fd").iterdir()):  # noqa: PTH115 - text, no path
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"process {process.name} ({command[:120]})"
        except OSError:
            continue
    return ""


def _listening_inodes(port: int) -> list[str]:
    found: list[str] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.append(fields[9])
    return found


def _owner_by_lsof(port: int) -> str:
    try:
        told = subprocess.run(
            ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    fields = {line[:1]: line[1:] for line in told.stdout.decode(errors="replace").splitlines() if line}
    return f"process {fields['p']} ({fields.get('c', '?')})" if "p" in fields else ""
