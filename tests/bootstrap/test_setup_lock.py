"""The set-up lock: notes of dead, reused and unknown owners never keep a set-up out, living owners do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bootstrap.console import Console
from bootstrap.processes import end_group, identity_from_ps, identity_of, is_alive
from bootstrap.setup_lock import SetupLock, living_owner, read_note
from bootstrap.stop import StopRequest

HANG_GUARD_S = 30


class Screen(io.StringIO):
    """A screen that others can wait on."""

    def __init__(self) -> None:
        super().__init__()
        self.said_something = threading.Event()

    def write(self, text: str) -> int:
        self.said_something.set()
        return super().write(text)


def lock_at(path: Path, screen: Screen) -> SetupLock:
    return SetupLock(path, purpose="test", console=Console(screen), stop=StopRequest())


def sleeper() -> subprocess.Popen[bytes]:
    """A process that leads a group of its own and sleeps."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"[]",
        b'{"pid": "x", "tool": 5}',
        json.dumps({"pid": dead_pid(), "started": "1", "tool": {"pid": dead_pid(), "started": "1"}}).encode(),
        json.dumps({"pid": os.getpid(), "started": "some other time", "tool": None}).encode(),
    ],
    ids=["empty", "half written", "no object", "wrong types", "dead owner", "reused pid"],
)
def test_stale_notes_keep_nobody_out(tmp_path: Path, note: bytes) -> None:
    """The system frees the lock; whatever the file says about an owner that is no more is ignored."""
    path = tmp_path / "setup.lock"
    path.write_bytes(note)
    screen = Screen()

    with lock_at(path, screen):
        assert living_owner(path).startswith(f"process {os.getpid()} ")

    assert screen.getvalue() == ""
    assert path.read_bytes() == b""


def test_left_tool_of_a_dead_owner_is_ended(tmp_path: Path) -> None:
    """A tool that outlived its set-up would go on writing; the next owner ends its group first."""
    path = tmp_path / "setup.lock"
    with sleeper() as tool:
        note = {"pid": dead_pid(), "started": "1", "tool": {"pid": tool.pid, "started": identity_of(tool.pid)}}
        path.write_text(json.dumps(note))
        screen = Screen()

        with lock_at(path, screen):
            code = tool.wait(HANG_GUARD_S)

    assert code == -15
    assert f"Ending process {tool.pid}" in screen.getvalue()


def test_reused_pid_of_a_tool_is_left_alone(tmp_path: Path) -> None:
    """A stranger that got the pid of an old tool is not the tool."""
    path = tmp_path / "setup.lock"
    with sleeper() as stranger:
        path.write_text(json.dumps({"pid": dead_pid(), "started": "1", "tool": {"pid": stranger.pid, "started": "1"}}))

        with lock_at(path, Screen()):
            alive = stranger.poll() is None
        stranger.kill()

    assert alive


def test_living_owner_is_waited_for(tmp_path: Path) -> None:
    """A second owner waits, says for whom, and gets the lock when the first lets go."""
    path = tmp_path / "setup.lock"
    screen = Screen()
    got_it = threading.Event()

    def second() -> None:
        with lock_at(path, screen):
            got_it.set()

    with lock_at(path, Screen()):
        thread = threading.Thread(target=second)
        thread.start()
        assert screen.said_something.wait(HANG_GUARD_S)
        assert not got_it.is_set()
    thread.join(HANG_GUARD_S)

    assert got_it.is_set()
    assert f"Waiting: process {os.getpid()} (bootstrap test)" in screen.getvalue()


def test_a_note_is_whole_at_every_moment(tmp_path: Path) -> None:
    """Whoever reads it meanwhile, or after a kill, finds the owner."""
    path = tmp_path / "setup.lock"
    notes: list[dict[str, object]] = []
    with lock_at(path, Screen()) as lock:
        writing = threading.Thread(target=lambda: [lock.tool_started(os.getpid()) for _ in range(500)])
        writing.start()
        while writing.is_alive():
            notes.append(read_note(path))
        writing.join()

    assert notes
    assert all(note.get("pid") == os.getpid() for note in notes)


def test_end_group_takes_the_whole_group() -> None:
    """A leader that ignores SIGTERM and its child both go."""
    script = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        grandchild = int(leader.stdout.readline())
        identity = identity_of(grandchild)

        end_group(leader.pid, grace_s=0.1)
        leader.wait(HANG_GUARD_S)

    assert leader.returncode == -9
    deadline = time.monotonic() + HANG_GUARD_S
    while is_alive(grandchild, identity):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("identity", [identity_of, identity_from_ps], ids=["this system's", "any system's"])
def test_only_living_processes_have_an_identity(identity: Callable[[int], str | None]) -> None:
    """The same as long as it lives; none once it ended, also when nobody collected it yet (it holds nothing then)."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    alive, still = identity(child.pid), identity(child.pid)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = identity(child.pid)
    child.wait()

    assert alive
    assert alive == still
    assert zombie is None
    assert identity(child.pid) is None
