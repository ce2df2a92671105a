"""A real `muse serve` in a process of its own, for tests: started on a free port, stopped by SIGTERM."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx

PROJECT = Path(__file__).resolve().parent.parent
HANG_GUARD_S = 60.0
ONE_THREAD = ("--threads", "1")
"""Of engines in tests, of which several run at a time: threads wait for each other by spinning, which costs more than
it gives where there are more of them than cores."""
STATE_GUARD_S = 3 * HANG_GUARD_S


LEFT_AFTER_S = 10.0
"""A process that still runs so long after its server is left over. The promise is 2 s, on an idle machine; tests of its
own measure it."""


class ServerProcess:
    """`url` and `home` of a running server; `stop` ends it and returns the exit status."""

    def __init__(self, arguments: Sequence[str], *, home: Path, env: Mapping[str, str] | None = None) -> None:
        self.home = home
        name, value = "MUSE_TEST_SERVER", str(uuid.uuid4())
        self.mark = f"{name}={value}\0".encode()
        """In the environment of the server and of all that it starts."""
        self.stderr_path = home / "server-stderr.log"
        home.mkdir(parents=True, exist_ok=True)
        if "--threads" not in arguments and "native" not in arguments:
            arguments = [*arguments, *ONE_THREAD]
        with self.stderr_path.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "muse", "serve", "--port", "0", "--no-open", *arguments],
                cwd=PROJECT,
                env={**os.environ, "MUSE_HOME": str(home), "PYTHONUNBUFFERED": "1", name: value, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._wait_url()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _wait_url(self) -> str:
        while True:
            line = self._lines.get(timeout=HANG_GUARD_S)
            if line is None:
                raise AssertionError(f"the server ended at start:\n{self.stderr()}")
            if line.startswith("Muse is at "):
                return line.split()[3].rstrip("/")

    def stderr(self) -> str:
        """Everything it logged so far."""
        return self.stderr_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Process id of the main process."""
        return self.process.pid

    def get(self, path: str) -> httpx.Response:
        """GET, whatever the status."""
        return httpx.get(self.url + path, timeout=HANG_GUARD_S)

    def post(self, path: str, body: Any) -> httpx.Response:
        """POST JSON and read the whole answer, whatever the status."""
        return httpx.post(self.url + path, json=body, timeout=HANG_GUARD_S)

    def stream_chat(self, text: str = "hi", **fields: Any) -> AbstractContextManager[httpx.Response]:
        """Open a streamed answer; leaving the context closes the connection."""
        body = {"messages": [{"role": "user", "content": text}], "stream": True, **fields}
        return httpx.stream("POST", self.url + "/v1/chat/completions", json=body, timeout=HANG_GUARD_S)

    def wait_until(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Follow /api/events until a state event fulfils `reached`; returns that event."""
        deadline = time.monotonic() + STATE_GUARD_S
        with httpx.stream("GET", self.url + "/api/events", timeout=HANG_GUARD_S) as stream:
            for line in stream.iter_lines():
                # Signs of life come for as long as the server lives, so the connection's own limit is never reached.
                assert time.monotonic() < deadline, f"the state awaited never came:\n{self.stderr()}"
                if line.startswith("data:"):
                    state: dict[str, Any] = json.loads(line[5:])
                    if "worker" in state and reached(state):
                        return state
        raise AssertionError(f"the event stream ended early:\n{self.stderr()}")

    def wait_state(self, *states: str) -> dict[str, Any]:
        """Wait until the worker is in one of `states`."""
        return self.wait_until(lambda state: state["worker"]["state"] in states)

    def wait_idle(self) -> None:
        """Wait until the worker is ready and no request runs or waits."""
        self.wait_until(
            lambda state: (
                state["worker"]["state"] == "ready" and not state["requests"]["running"] + state["requests"]["queued"]
            )
        )

    def wait_ready(self) -> dict[str, Any]:
        """Wait until the model answers; fails if loading failed."""
        state = self.wait_state("ready", "busy", "failed")
        assert state["worker"]["state"] != "failed", state["worker"]["reason"]
        return state

    def processes(self) -> set[int]:
        """Process ids of everything that this server started and that lives (Linux), itself included."""
        return processes_with(self.mark)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the server and return its exit status. Fails if a process of it is left."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout=HANG_GUARD_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        # Its output ends with the last process that holds it; a reader must not find it closed.
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        deadline = time.monotonic() + LEFT_AFTER_S
        while left := self.processes():
            assert time.monotonic() < deadline, f"left over of the server: {left}"
            time.sleep(0.01)
        return status


def processes_with(mark: bytes) -> set[int]:
    """All processes whose environment holds these bytes, wherever they are in the tree (Linux), without zombies."""
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes() and " Z " not in (folder / "stat").read_text():
                found.add(int(folder.name))
    return found


def children_of(pid: int, *, without: Collection[int] = ()) -> list[int]:
    """Process ids of all living descendants (Linux). without: some that are left out, with all of theirs."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(folder.name)] = int(fields[1])
    found: list[int] = []
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier and child not in without}
        found += frontier
    return found


def isolated_of(pid: int) -> list[int]:
    """Process ids of a server's isolated processes and their guards (Linux), each guard before its process."""
    found: list[int] = []
    for child in children_of(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"\0muse.isolated\0" in command:
            found.append(child)
    return found


def worker_group_of(pid: int) -> list[int]:
    """Process ids of a server's worker (Linux): its guard, itself, and what it started."""
    return children_of(pid, without=isolated_of(pid))


def is_running(pid: int) -> bool:
    """Does this process run? One that ended but was not reaped yet by its (foreign) parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_until(lines: Iterator[str], marker: str) -> list[str]:
    """Read lines of a stream until one holds `marker`; returns all of them."""
    seen: list[str] = []
    for line in lines:
        seen.append(line)
        if marker in line:
            return seen
    raise AssertionError(f"the stream ended before {marker!r}: {seen[-5:]}")
