"""The guard: no process of a worker's group outlives the worker or the main process, in any state."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from muse.worker import guard
from tests.worker.client import PROJECT, WorkerProcess, group_members, stop_group, wait_for, worker_pid

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
GRANDCHILD = (
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print('up', flush=True);"
)
# A main process: starts a guard over a sleeping worker, says which group it is, and waits to be killed.
PARENT = f"""
import os, subprocess, sys, time
sys.path.insert(0, {str(PROJECT)!r})
from muse.worker import guard
life, keep = os.pipe()
command = guard.command([sys.executable, "-c", {SLEEPER!r}], life_fd=life)
child = subprocess.Popen(command, process_group=0, pass_fds=(life,), stdout=subprocess.PIPE)
os.close(life)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGABRT)", -signal.SIGABRT),
        ("os.kill(0, signal.SIGTERM); signal.pause()", -signal.SIGTERM),
    ],
)
def test_guard_ends_as_the_worker_ended(end: str, status: int) -> None:
    """The supervisor sees the worker's own exit code or signal, also when SIGTERM went to the whole group."""
    with WorkerProcess(script=f"import os, signal, sys; {end}") as worker:
        assert worker.wait_exit() == status


def test_no_core_file_is_left() -> None:
    """It would hold conversations. Whatever the limit is where the server was started; the guard has the same."""
    look = "import os, resource, sys; sys.exit(resource.getrlimit(resource.RLIMIT_CORE)[0] or 0)"
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (min(1, limit[1]) if limit[1] != resource.RLIM_INFINITY else 1, limit[1]))
    try:
        with WorkerProcess(script=look) as worker:
            assert worker.wait_exit() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limit)


def test_grandchildren_die_with_the_worker() -> None:
    """A worker that leaves a process behind is over all the same, and its pipes end."""
    with WorkerProcess(script=GRANDCHILD + "sys.exit(3)") as worker:
        assert worker.wait_exit() == 3
        wait_for(lambda: not group_members(worker.process.pid))
        assert worker.next() is None


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_end_of_the_life_pipe_kills_the_group(stopped: bool) -> None:
    """The end of the main process needs no help of the worker, which may hang or be stopped."""
    with WorkerProcess(script=GRANDCHILD + "import time; time.sleep(600)") as worker:
        assert worker.wait_line(0) == b"up\n"
        if stopped:
            os.kill(worker_pid(worker.process.pid), signal.SIGSTOP)
        os.close(worker.life_fd)
        worker.life_fd = -1
        assert worker.wait_exit() == -signal.SIGKILL
        wait_for(lambda: not group_members(worker.process.pid))


@pytest.mark.parametrize("stop", [None, stop_group], ids=["running", "whole group stopped"])
def test_sigkill_of_the_main_process_leaves_nothing(stop: Callable[[int], None] | None) -> None:
    """The life pipe ends with its holder, however that dies. A group that has stopped is woken by the kernel, since
    nobody else can any more."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        group = int(parent.stdout.readline())
        assert len(group_members(group)) == 2
        if stop:
            stop(group)
        parent.kill()
    wait_for(lambda: not group_members(group))


def test_worker_does_not_hold_the_life_pipe() -> None:
    """Else the guard would wait for itself: the worker has the three standard descriptors and no other."""
    listing = "import os, sys; print(sorted(int(n) for n in os.listdir('/dev/fd') if int(n) < 50), flush=True)"
    with WorkerProcess(script=listing) as worker:
        assert worker.wait_line(0) == b"[0, 1, 2, 3]\n"  # 3: the folder being listed


def test_end_of_output_passes_while_the_worker_lives() -> None:
    """The guard keeps no copy of the worker's stdout."""
    with WorkerProcess(script="import os, time; os.close(1); time.sleep(600)") as worker:
        assert worker.next() is None
        assert worker.process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--life-fd", "0", "--", "/no/such/program"], guard.START_FAILED),
        (["--life-fd", "77", "--", sys.executable], guard.USAGE_FAULT),
        (["--life-fd", "x", "--", sys.executable], guard.USAGE_FAULT),
        ([], guard.USAGE_FAULT),
    ],
)
def test_bad_command_lines_end_the_guard(arguments: list[str], status: int) -> None:
    """A guard that cannot do its work starts nothing and says why."""
    command = [sys.executable, "-I", "-S", guard.__file__, *arguments]
    ended = subprocess.run(command, process_group=0, stdin=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode == status
    assert ended.stderr.startswith(b"muse guard: ")


def test_guard_refuses_to_lead_a_session() -> None:
    """A session leader could not leave its group, so it could not report the worker's end."""
    life_read, life_write = os.pipe()
    command = guard.command([sys.executable, "-c", ""], life_fd=life_read)
    ended = subprocess.run(command, start_new_session=True, pass_fds=(life_read,), stderr=subprocess.PIPE, timeout=60)
    os.close(life_read)
    os.close(life_write)
    assert ended.returncode == guard.USAGE_FAULT
