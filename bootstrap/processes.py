"""Other processes, told apart safely: a pid alone is not enough, since the system uses it again.

The identity of a process is its start time as the system tells it; pid and identity together name one process for
as long as the machine is up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TERM_GRACE_S = 3.0


def identity_of(pid: int) -> str | None:
    """Start time of a living process; None when there is none with this pid (a zombie counts as gone)."""
    return identity_from_proc(pid) if sys.platform.startswith("linux") else identity_from_ps(pid)


def identity_from_proc(pid: int) -> str | None:
    """The identity as Linux tells it: clock ticks since boot."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold spaces and brackets itself.
    fields = stat[stat.rindex(b")") + 2 :].split()
    state, started = fields[0], fields[19]
    return None if state in (b"Z", b"X") else started.decode()


def identity_from_ps(pid: int) -> str | None:
    """The identity as every ps tells it: date and time to the second."""
    try:
        told = _ask_ps(pid)
    except OSError:  # no ps, or no process for it: nobody can tell, which is no identity
        return None
    state, _, started_at = told.stdout.decode(errors="replace").strip().partition(" ")
    return None if not state or state.startswith("Z") else started_at.strip()


def _ask_ps(pid: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        # One -o for each field: after a `=` BSD's ps takes the rest, commas too, for a heading.
        ["/bin/ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        env={"LC_ALL": "C"},
    )


def is_alive(pid: int, identity: str | None) -> bool:
    """Whether the process that had this identity still runs; an unknown identity never matches."""
    return identity is not None and identity_of(pid) == identity


def end_group(leader: int, *, grace_s: float = TERM_GRACE_S) -> None:
    """End a process group: SIGTERM, up to `grace_s` for a clean end of its leader, then SIGKILL to what is left.

    The caller must know that `leader` still is the process it means.
    """
    identity = identity_of(leader)
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while is_alive(leader, identity) and time.monotonic() < deadline:
        time.sleep(0.02)
    _signal_group(leader, signal.SIGKILL)


def _signal_group(leader: int, signum: int) -> None:
    # Not there: gone already. Not permitted: on macOS only a zombie is left of it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
