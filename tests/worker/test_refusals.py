"""A worker, its guard and its child, where the system refuses threads, processes or tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from muse.protocol import Count, Error
from muse.worker import child, exits, guard
from muse.worker.child import cpu_seconds
from tests.worker.client import PROJECT, WorkerProcess, chat, group_members, wait_for

PATCHED = """
import runpy, sys, threading
{patch}
sys.argv = ["muse.worker", "--engine", "scripted", "--script", {script!r}]
runpy.run_module("muse.worker", run_name="__main__", alter_sys=True)
"""
NO_THREAD = """
real, refused = threading.Thread.start, []
def start(self):
    if self.name in {names} and len(refused) < {times}:
        refused.append(self)
        raise RuntimeError("can't start new thread")
    real(self)
threading.Thread.start = start
"""
NO_MEMORY = """
from muse.worker.engines.scripted import ScriptedEngine
real, refused = ScriptedEngine.{method}, []
def {method}(self, *arguments):
    if not refused:
        refused.append(1)
        raise MemoryError
    return real(self, *arguments)
ScriptedEngine.{method} = {method}
"""


def patched(tmp_path: Path, patch: str) -> WorkerProcess:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"answers": [{"tokens": ["ok"]}]}))
    return WorkerProcess(script=PATCHED.format(patch=patch, script=str(script)))


@pytest.mark.parametrize("name", ["generate", "small"])
def test_a_request_without_a_thread_is_refused_and_the_next_one_runs(tmp_path: Path, name: str) -> None:
    """Generations and small commands; the worker lives, and their places are free again."""
    with patched(tmp_path, NO_THREAD.format(names=(name,), times=10)) as worker:
        worker.ready()
        for number in range(10):
            if name == "generate":
                worker.start(chat("hi"))
            else:
                worker.send(Count(request_id=f"c{number}", prompt_segments=chat("hi")))
            refused = worker.wait(Error)
            assert (refused.code, refused.fatal) == ("capacity_exhausted", False)
        assert worker.ask(chat("hi")).text == "ok"
        assert worker.count(chat("hi")) > 0


def test_a_worker_without_a_thread_to_load_says_so_by_its_status(tmp_path: Path) -> None:
    """Which is no word about the model."""
    with patched(tmp_path, NO_THREAD.format(names=("load",), times=1)) as worker:
        assert worker.wait_exit() == exits.REFUSED


@pytest.mark.parametrize("method", ["generate", "load"])
def test_a_lack_of_memory_is_called_so(tmp_path: Path, method: str) -> None:
    """In a request it is that request's alone."""
    with patched(tmp_path, NO_MEMORY.format(method=method)) as worker:
        if method == "load":
            error = worker.wait(Error)
            assert (error.code, error.fatal) == ("out_of_memory", True)
            return
        worker.ready()
        end = worker.finish(worker.start(chat("hi"))).end
        assert isinstance(end, Error)
        assert (end.code, end.fatal) == ("out_of_memory", False)
        assert worker.ask(chat("hi")).text == "ok"


@pytest.mark.parametrize(("number", "code"), [("EMFILE", "capacity_exhausted"), ("ENOENT", "bad_request")])
def test_a_file_that_cannot_be_opened_now_is_no_broken_file(tmp_path: Path, number: str, code: str) -> None:
    """Whatever the engine made of it: the cause tells."""
    patch = f"""
import errno
from muse.worker.engines.base import EngineFault
from muse.worker.engines.scripted import ScriptedEngine
def load(self, report):
    try:
        raise OSError(errno.{number}, "x")
    except OSError as fault:
        raise EngineFault("bad_request", "the model file cannot be read", fatal=True) from fault
ScriptedEngine.load = load
"""
    with patched(tmp_path, patch) as worker:
        error = worker.wait(Error)
        assert (error.code, error.fatal) == (code, True)
        assert worker.wait_exit() == exits.LOAD_FAILED


# ------------------------------------------------------------ the guard

GUARD = """
import errno, os, runpy, sys
def refuse(*_arguments):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.{call} = refuse
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LEAVES_ONE_BEHIND = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
sys.exit(3)
"""


def guarded(call: str) -> tuple[int, int]:
    """Run a guard for which a call is refused; its group, its status."""
    life_read, life_write = os.pipe()
    python, *options, path, life, number, dashes, program, option, script = guard.command(
        [sys.executable, "-c", LEAVES_ONE_BEHIND], life_fd=life_read
    )
    command = [python, *options, "-c", GUARD.format(call=call), path, life, number, dashes, program, option, script]
    process = subprocess.Popen(command, pass_fds=(life_read,), process_group=0, stderr=subprocess.DEVNULL)
    os.close(life_read)
    status = process.wait(60)
    os.close(life_write)
    return process.pid, status


def test_a_guard_that_gets_no_process_says_that_it_is_for_now() -> None:
    """Told apart from a program that cannot be started."""
    assert guarded("posix_spawn")[1] == guard.START_REFUSED


@pytest.mark.parametrize("call", ["fork", "setpgid"])
def test_a_guard_leaves_nobody_behind_also_without_a_process_more(call: str) -> None:
    """That nobody is left counts more than how the worker ended."""
    group, status = guarded(call)
    assert status == -signal.SIGKILL
    wait_for(lambda: not group_members(group))


# ------------------------------------------------------------ what a child does


def test_processor_time_is_told_without_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on slim images; and no tool at all is no fault."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert str(cpu_seconds(os.getpid())).isdigit()
    monkeypatch.setattr(Path, "read_text", _no_proc)
    assert cpu_seconds(os.getpid()) is None


def _no_proc(path: Path, **_: str) -> str:
    raise FileNotFoundError(path)


def test_processor_time_is_told_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """By ps, as on macOS."""
    monkeypatch.setattr(Path, "read_text", _no_proc)
    assert ":" in str(cpu_seconds(os.getpid()))
    assert cpu_seconds(2**22 + 1) is None


def test_a_load_of_which_nobody_can_tell_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, so that nobody takes it for a hang."""
    monkeypatch.setattr(child, "resident_bytes", lambda _pid: None)
    monkeypatch.setattr(child, "cpu_seconds", lambda _pid: None)
    monkeypatch.setattr(child, "_SIGN_OF_LIFE_S", 0.001)
    reports: list[float | None] = []
    over = threading.Event()
    thread = threading.Thread(target=child._report_progress, args=(1, 100, lambda f, _s: reports.append(f), over))
    thread.start()
    end = time.monotonic() + 60
    while len(reports) < 4 and time.monotonic() < end:
        time.sleep(0.001)
    over.set()
    thread.join()
    assert reports[:4] == [0.0, None, None, None]


def test_a_child_is_read_also_when_nobody_reads_us() -> None:
    """Its log would fill the pipe and stop it."""
    script = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "import os; from muse.worker.child import Child\n"
        "os.close(2)\n"
        "c = Child([sys.executable, '-c', 'import sys; sys.stderr.write(\"x\" * 300000); print(7)'])\n"
        "os.write(1, next(c.lines))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"7"
