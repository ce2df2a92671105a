"""One set-up at a time for a home folder.

The lock is `flock` on a file that is never removed: the system frees it when its last holder is gone, however that
ended, so nothing can be left locked. Tools that the owner starts (pip, npm) inherit the descriptor and thereby keep
the lock, since a tool that outlives a killed set-up still writes into the home folder.

The file's content is only a note for others: who the owner is, and which tool runs for it. It may be empty, stale or
half written; pid and start time together decide whether the process it names still exists. Is the owner dead and its
tool alive, the next set-up ends that tool and takes over.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from bootstrap.console import Console
from bootstrap.faults import SetupFault
from bootstrap.layout import unwritable
from bootstrap.processes import end_group, identity_of, is_alive
from bootstrap.stop import StopRequest

POLL_S = 0.2
REPEAT_MESSAGE_S = 15.0
# A holder that nobody knows is in the middle of dying or of writing its note; neither takes long.
UNKNOWN_HOLDER_S = 20.0
# More than any note takes.
NOTE_BYTES = 512


class SetupLock:
    """Held while in its `with` block; entering waits for a living owner and says so."""

    def __init__(self, path: Path, *, purpose: str, console: Console, stop: StopRequest) -> None:
        self.path = path
        self.descriptor = -1
        self._console = console
        self._stop = stop
        self._note: dict[str, Any] = {
            "pid": os.getpid(),
            "started": identity_of(os.getpid()),
            "purpose": purpose,
            "tool": None,
        }

    def __enter__(self) -> SetupLock:
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as fault:
            raise unwritable(self.path, fault) from fault
        try:
            self._acquire()
            self._end_left_tool(self._read_note())
            self._write_note()
        except BaseException:
            os.close(self.descriptor)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.ftruncate(self.descriptor, 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)

    def tool_started(self, pid: int) -> None:
        """Note the process group that now works for the owner."""
        self._note["tool"] = {"pid": pid, "started": identity_of(pid)}
        self._write_note()

    def tool_ended(self) -> None:
        self._note["tool"] = None
        self._write_note()

    def _acquire(self) -> None:
        unknown_since: float | None = None
        said_at: float | None = None
        while not self._try_lock():
            note = self._read_note()
            now = time.monotonic()
            if _names_living(note):
                unknown_since = None
                if said_at is None or now - said_at >= REPEAT_MESSAGE_S:
                    said_at = now
                    self._console.line(f"Waiting: {_in_words(note)} is setting up the same folder.")
            elif not self._end_left_tool(note):
                unknown_since = now if unknown_since is None else unknown_since
                if now - unknown_since > UNKNOWN_HOLDER_S:
                    raise SetupFault(
                        f"{self.path} is held by a process that cannot be told.",
                        advice="End what is left of an earlier set-up (pip or npm), or restart the computer.",
                    )
            time.sleep(POLL_S)
            self._stop.check()

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            if fault.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise SetupFault(
                f"The file system of {self.path} cannot lock files ({fault.strerror}).",
                advice="Set MUSE_HOME to a folder on a local disk.",
            ) from fault
        return True

    def _end_left_tool(self, note: dict[str, Any]) -> bool:
        """End the tool of an owner that is dead; says whether there was one."""
        tool = note.get("tool")
        if _names_living(note) or not isinstance(tool, dict) or not _names_living(tool):
            return False
        self._console.line(f"Ending process {tool['pid']}, left over from a set-up that was killed.")
        end_group(tool["pid"])
        return True

    def _read_note(self) -> dict[str, Any]:
        return read_note(self.path)

    def _write_note(self) -> None:
        # In one piece and always as long: whoever is killed here leaves the old note or the new one.
        os.pwrite(self.descriptor, json.dumps(self._note).encode().ljust(NOTE_BYTES), 0)


def read_note(path: Path) -> dict[str, Any]:
    """What the lock file says about its owner; empty when nothing can be read from it."""
    try:
        note = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def living_owner(path: Path) -> str:
    """The living owner of the lock in words, or an empty string; for reports, decides nothing."""
    note = read_note(path)
    return _in_words(note) if _names_living(note) else ""


def _names_living(note: dict[str, Any]) -> bool:
    pid, started = note.get("pid"), note.get("started")
    # One's own pid can only stand in a note that an earlier process with the same pid left.
    return isinstance(pid, int) and isinstance(started, str) and is_alive(pid, started)


def _in_words(note: dict[str, Any]) -> str:
    return f"process {note.get('pid')} (bootstrap {note.get('purpose', '?')})"
