"""The system refuses threads, processes and descriptors, or answers by macOS's rules: events, never the end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from actors.front.context import FrontContext
from actors.front.routes_chat import _whole
from actors.process_group import signal_group
from actors.supervisor import policy
from actors.supervisor.left_over import LeftOver
from actors.supervisor.link import WorkerLink
from actors.threads import run_in_thread
from muse.errors import Unavailable
from muse.exhaustion import explain
from muse.settings import Limits
from tests.actors.conftest import Core
from tests.actors.test_resume import TEXT, WORDS
from tests.actors.test_sessions import chat, finished, start, wait_text

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
SCRIPT: dict[str, Any] = {"answers": [{"tokens": WORDS, "token_ms": 5}]}
REFUSALS = {
    "no process": BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    "no memory": OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    "no descriptor": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
}


class Refusing:
    """Stands for a call that the system refuses so many times, from when `left` is set."""

    def __init__(self, real: Callable[..., Any], fault: BaseException) -> None:
        self.left = 0
        self.met = trio.Event()
        self._real = real
        self._fault = fault

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.left:
            self.left -= 1
            if not self.left:
                self.met.set()
            raise self._fault
        return self._real(*arguments, **named)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "REFUSAL_PAUSES_S", (0.01,))
    monkeypatch.setattr(policy, "BACK_OFF_S", (0.01, 0.01, 0.01))
    monkeypatch.setattr("actors.threads.PAUSES_S", (0.01,))


async def kill_and_recover(running: Core, refusing: Refusing, times: int) -> None:
    """Kill the worker in an answer, have starts refused, and see that the answer goes on all the same."""
    reply = await start(running, chat("hi"))
    await wait_text(reply)
    refusing.left = times
    os.killpg(worker_group(running), signal.SIGKILL)
    await refusing.met.wait()
    outcome = await finished(reply)
    assert reply.text("answer") == TEXT
    assert outcome.metrics.resumed == 1
    assert running.board.value.worker.state in ("ready", "busy")


def worker_group(running: Core) -> int:
    import json

    return json.loads((running.settings.home / "run" / "worker.json").read_text())["pid"]


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
async def test_starts_that_are_refused_are_tried_again(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch, no_pauses: None, fault: OSError
) -> None:
    """More often than a model that dies may: such a refusal says nothing about the model."""
    refusing = Refusing(trio.lowlevel.open_process, fault)
    monkeypatch.setattr(trio.lowlevel, "open_process", refusing)
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        await kill_and_recover(running, refusing, times=12)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [("no process", "ulimit -u"), ("no memory", "Close other programs"), ("no descriptor", "ulimit -n")],
)
async def test_what_is_exhausted_is_said(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch, no_pauses: None, fault: str, advice: str
) -> None:
    """In the state that everybody is shown, and to who waits for a whole answer; until a worker is ready."""
    refusing = Refusing(trio.lowlevel.open_process, REFUSALS[fault])
    refusing.left = 10**6
    monkeypatch.setattr(trio.lowlevel, "open_process", refusing)
    async with core(SCRIPT, limits=Limits(load_wait_s=0.01)) as running:
        await running.wait_worker("restarting")
        shown = running.board.value.worker.as_dict()
        assert shown["exhausted"]
        assert advice in shown["reason"]
        with pytest.raises(Unavailable) as caught:
            await _whole(cast("FrontContext", running), chat("hi"), await start(running, chat("hi")))
        assert (caught.value.code, caught.value.detail) == ("system_exhausted", shown["reason"])
        refusing.left = 0
        await running.wait_worker("ready")
        shown = running.board.value.worker.as_dict()
        assert (shown["exhausted"], shown["reason"]) == (False, None)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("muse guard: cannot start /x: [Errno 11] Resource temporarily unavailable", "ulimit -u"),
        ("can't start new thread", "ulimit -u"),
        ("the engine's process ended with status 1; its last words: Too many open files", "ulimit -n"),
        ("[Errno 28] No space left on device", "Free some space"),
        ("MemoryError", "Close other programs"),
        ("", "Close other programs"),
    ],
)
def test_what_the_system_said_is_explained(said: str, advice: str) -> None:
    """Wherever it was said."""
    assert advice in explain(said)


async def test_refused_threads_are_tried_again(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    """As under `pids.max` of a container: the start of a worker, its record and a template need threads."""
    refusing = Refusing(trio.to_thread.run_sync, RuntimeError("can't start new thread"))
    monkeypatch.setattr(trio.to_thread, "run_sync", refusing)
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        await kill_and_recover(running, refusing, times=9)


async def test_a_start_that_is_wrong_still_gives_up(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    """A program that is not there stays away: four tries, as for any other early death."""
    refusing = Refusing(trio.lowlevel.open_process, FileNotFoundError(errno.ENOENT, "No such file or directory"))
    refusing.left = 1000
    monkeypatch.setattr(trio.lowlevel, "open_process", refusing)
    async with core(SCRIPT) as running:
        await running.wait_worker("failed")
        assert "could not be started" in str(running.board.value.worker.reason)


@pytest.mark.parametrize("status", [126, 5], ids=["guard", "worker"])
async def test_a_worker_that_gets_no_room_is_tried_again(
    core: CoreFactory, tmp_path: Path, no_pauses: None, status: int
) -> None:
    """Its guard got no process, or it got no thread to load with."""
    fault = {"at": "start", "do": "exit", "status": status, "counter": str(tmp_path / "deaths"), "times": 4}
    async with core({**SCRIPT, "faults": [fault]}) as running:
        reply = await start(running, chat("hi"))
        while not running.board.value.worker.exhausted:
            await running.board.wait_newer(running.board.version)
        await finished(reply)
        assert reply.text("answer") == TEXT
        assert running.board.value.worker.epoch == 5


async def test_work_without_a_thread_is_refused_for_now(monkeypatch: pytest.MonkeyPatch, no_pauses: None) -> None:
    """503, after some tries; a fault of the work itself comes through."""

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def broken() -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        await run_in_thread(broken)
    monkeypatch.setattr("trio._core._thread_cache.THREAD_CACHE._idle_workers", {})
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(Unavailable) as caught:
        await run_in_thread(int)
    assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (503, "out_of_threads", 5)


# ------------------------------------------------------------ signals by macOS's rules


def as_on_macos(leader: int, number: int, real: Callable[[int, int], None] = os.killpg) -> None:
    """EPERM where only zombies are left (or nobody is), as macOS answers."""
    try:
        living = [p for p in Path("/proc").glob("[0-9]*") if _group_and_state(p) == (leader, False)]
        if not living:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        real(leader, number)
    except ProcessLookupError:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM)) from None


def _group_and_state(folder: Path) -> tuple[int, bool] | None:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[2]), fields[0] == "Z"


def test_a_group_of_zombies_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever error the system gives."""
    process = subprocess.Popen([sys.executable, "-c", ""], process_group=0)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(os, "killpg", as_on_macos)
    assert not signal_group(process.pid, signal.SIGKILL)
    process.wait()
    assert not signal_group(process.pid, signal.SIGKILL)


async def test_a_death_is_survived_where_zombies_answer_eperm(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill after death, terminate, the ladder, the end of the server: all of them signal the group once more."""
    monkeypatch.setattr(os, "killpg", as_on_macos)
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        reply = await start(running, chat("hi"))
        await wait_text(reply)
        os.kill(worker_group(running), signal.SIGKILL)
        await finished(reply)
        assert reply.text("answer") == TEXT


async def test_a_group_is_left_alone_once_its_worker_is_over() -> None:
    """Its number may be another group's by then."""
    link = await WorkerLink.open([sys.executable, "-c", ""], env={}, cwd="/")
    await link.run(lambda _line: None)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
    try:
        link._process = stranger  # type: ignore[assignment]  # the system gave the number to somebody else
        link.kill("late")
        link.terminate("late")
        with pytest.raises(subprocess.TimeoutExpired):
            stranger.wait(0.2)
    finally:
        stranger.communicate()


def test_a_left_over_of_zombies_is_not_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Looked for at a start: nothing to end, nothing to fail on."""
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
    LeftOver(tmp_path).note(worker.pid)
    text = (tmp_path / "worker.json").read_text().replace(f'"pid": {os.getpid()}', '"pid": 4194303')
    (tmp_path / "worker.json").write_text(text)

    def refuse(_leader: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refuse)
    try:
        assert LeftOver(tmp_path).end() == 0
    finally:
        worker.communicate()


# ------------------------------------------------------------ writing


async def test_a_long_line_is_read_in_its_own_time() -> None:
    """A worker that is busy takes it later, and slowly; `unread_since` says since when it took nothing."""
    slow = "import sys, time; time.sleep(0.5); n = len(sys.stdin.buffer.readline()); print(n, flush=True); input()"
    link = await WorkerLink.open([sys.executable, "-c", slow], env={}, cwd="/")
    lines: list[bytes] = []
    seen: list[float | None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run, lines.append)
        link.send(b"x" * 2_000_000 + b"\n")
        with trio.fail_after(30):
            while not lines:
                seen.append(link.unread_since)
                await trio.sleep(0.01)
        assert lines == [b"2000001"]
        assert len(set(seen)) > 1
        assert link.unread_since is None
        link.kill()
