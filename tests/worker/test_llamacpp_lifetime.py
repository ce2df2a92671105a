"""The llama.cpp engine's native process: it ends with its worker, its death is told, its folders are private."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muse.protocol import (
    Accepted,
    Error,
    IdsSegment,
    Loading,
    Progress,
    Tokens,
)
from tests.worker.client import WorkerProcess, chat, children_of, group_members, wait_for, worker_pid
from tests.worker.llama import LONG_TEXT, socket_of

pytestmark = [pytest.mark.model, pytest.mark.thorough]


def engine_pid(worker: WorkerProcess) -> int:
    """The native server's process; while it loads, the worker has other children for moments."""
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    parent = worker_pid(worker.process.pid)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    (found,) = [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "llamacpp.serve" in args]
    return found


@pytest.fixture
def own(builtin_model: Path) -> Iterator[WorkerProcess]:
    """A worker of one's own, still loading, to be hurt."""
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "1024", "--slots", "1"]
    with WorkerProcess(*arguments) as worker:
        yield worker
    wait_for(lambda: not group_members(worker.process.pid))


@pytest.mark.parametrize("phase", ["load", "prefill", "decode"])
def test_end_of_input_ends_everything(own: WorkerProcess, phase: str) -> None:
    """Also while the library loads or computes: status 0, no process, no socket left."""
    if phase == "load":
        own.wait(Loading)
        own.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
    else:
        own.ready()
        folder = socket_of(own).parent
        own.wait(Progress if phase == "prefill" else Tokens, own.start(chat(LONG_TEXT if phase == "prefill" else "Hi")))
    own.end_of_input()
    assert own.wait_exit() == 0
    wait_for(lambda: not group_members(own.process.pid))
    if phase != "load":
        assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_death_of_the_native_process_is_told_and_passed_on(own: WorkerProcess, number: signal.Signals) -> None:
    """A fatal error says how it died, and the worker ends by the same signal."""
    own.ready()
    own.wait(Accepted, own.start(chat("Write a long story.")))
    (engine,) = children_of(worker_pid(own.process.pid))
    os.kill(engine, number)
    error = own.wait(Error)
    assert error.fatal
    assert number.name in error.message
    assert error.code == ("engine_killed" if number == signal.SIGKILL else "engine_error")
    assert ("the memory did not suffice" in error.message) == (number == signal.SIGKILL)
    assert own.wait_exit() == -number


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, "engine_killed"), (signal.SIGTERM, "engine_killed"), (signal.SIGSEGV, "engine_error")],
)
def test_a_death_in_the_load_is_told(own: WorkerProcess, number: signal.Signals, code: str) -> None:
    """One from outside is told apart from a crash, which the next load would repeat."""
    own.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
    os.kill(engine_pid(own), number)
    error = own.wait(Error)
    assert (error.code, error.fatal) == (code, True)
    assert f"cannot load this model: the engine's process died by {number.name}" in error.message
    assert own.wait_exit() == 3


def test_sigkill_of_the_worker_takes_the_native_process_along(own: WorkerProcess) -> None:
    """The guard ends what the worker could not."""
    own.ready()
    os.kill(worker_pid(own.process.pid), signal.SIGKILL)
    assert own.wait_exit() == -signal.SIGKILL
    wait_for(lambda: not group_members(own.process.pid))


def test_folders_of_dead_workers_are_removed(builtin_model: Path, tmp_path: Path) -> None:
    """And those of living ones are not."""
    run = tmp_path / "run"
    dead, living = run / "muse-llamacpp-4194300-abc", run / f"muse-llamacpp-{os.getpid()}-abc"
    for folder in (dead, living, run / "other"):
        folder.mkdir(parents=True)
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "256"]
    with WorkerProcess(*arguments, env={"MUSE_HOME": str(tmp_path)}) as worker:
        worker.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
        assert not dead.exists()
        assert {living, run / "other"} <= set(run.iterdir())


def test_a_long_home_is_no_obstacle_and_a_full_context_ends(builtin_model: Path, tmp_path: Path) -> None:
    """A socket path has a limit of about 100 bytes; a longer home means another folder. An answer has as many
    tokens as accepted promised room for, then it ends with length."""
    home = tmp_path / ("long" * 30)
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "256"]
    with WorkerProcess(*arguments, env={"MUSE_HOME": str(home)}) as worker:
        assert worker.ready().context_length == 256
        assert len(os.fsencode(socket_of(worker))) <= 100
        answer = worker.ask((IdsSegment(ids=(338,) * 248),))
        assert answer.accepted
        assert answer.accepted.room == answer.done.completion_tokens == 8
        assert answer.done.finish_reason == "length"
        progress = [event.processed for event in answer.progress]
        assert progress == sorted(set(progress))
        assert progress[-1] == 248
