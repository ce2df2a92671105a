"""The server's processes (Linux): the tree below the main process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

WORKER: Final = "muse.worker"
"""The module of the worker."""
_PROC: Final = Path("/proc")


@attrs.frozen(kw_only=True)
class Process:
    """A living process. name: what it runs, for people. is_helper: it, or the child of the main process above it, is
    neither the worker nor its guard."""

    pid: int
    name: str
    is_helper: bool


def tree_of(main_pid: int) -> list[Process]:
    """All living descendants, without zombies."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[Process] = []
    for child in children.get(main_pid, ()):
        is_helper = WORKER not in _name(child)
        level = [child]
        while level:
            found += [Process(pid=pid, name=_name(pid), is_helper=is_helper) for pid in level]
            level = [below for pid in level for below in children.get(pid, ())]
    return found


def _name(pid: int) -> str:
    """The Python module or script that it runs, or its program; of a guard also whom it guards."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "gone"
    module = words[words.index("-m") + 1] if "-m" in words else Path(words[0]).name
    is_guard = any(Path(word).name == "guard.py" for word in words)
    return f"guard of {module}" if is_guard else module


def send(pid: int, number: signal.Signals) -> int | None:
    """Send a signal; a descriptor of the process, for more of them. None: it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    send_more(descriptor, number)
    return descriptor


def send_more(descriptor: int, number: signal.Signals) -> None:
    """Send a signal to exactly that process, if it still lives."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)


@attrs.frozen(kw_only=True)
class MainProcess:
    """What a leak would show in. memory_mib: resident."""

    memory_mib: float
    descriptors: int
    threads: int

    @classmethod
    def now(cls, pid: int) -> MainProcess:
        """As the kernel counts. Raises OSError when it is gone."""
        folder = _PROC / str(pid)
        pages = int((folder / "statm").read_text().split()[1])
        return cls(
            memory_mib=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
            descriptors=len(list((folder / "fd").iterdir())),
            threads=len(list((folder / "task").iterdir())),
        )
