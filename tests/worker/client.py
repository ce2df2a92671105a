"""A plain client of a worker process behind its guard: threads and pipes, no event loop."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from muse.protocol import (
    Accepted,
    Cancel,
    Count,
    Done,
    Error,
    Generate,
    Progress,
    Ready,
    Result,
    Sampling,
    Segment,
    Shutdown,
    TextSegment,
    Tokens,
    WorkerCommand,
    WorkerEvent,
)
from muse.protocol_codec import ProtocolError, decode_event, encode_command
from muse.worker import guard
from tests.server_process import ONE_THREAD

PROJECT = Path(__file__).resolve().parents[2]
HANG_S = 60.0
"""Nothing here takes so long; a wait that does is a hang."""

Event = TypeVar("Event", bound=WorkerEvent)


def chat(text: str) -> tuple[Segment, ...]:
    """One user message in the built-in model's form, the answer begun."""
    return (
        TextSegment(text="<|im_start|>user\n", special=True),
        TextSegment(text=text, special=False),
        TextSegment(text="<|im_end|>\n<|im_start|>assistant\n", special=True),
    )


class WorkerProcess:
    """A worker. Events are read by a thread from the start; lines that are no event are kept as well."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None, script: str | None = None) -> None:
        """arguments: of the worker. script: Python source to run instead of the worker (for the guard)."""
        if "llamacpp" in arguments and "--threads" not in arguments:
            arguments = (*arguments, *ONE_THREAD)
        command = [sys.executable, "-c", script] if script else [sys.executable, "-m", "muse.worker", *arguments]
        life_read, self.life_fd = os.pipe()
        self.process = subprocess.Popen(
            guard.command(command, life_fd=life_read),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(life_read,),
            process_group=0,
            cwd=PROJECT,
            env={**os.environ, **(env or {})},
        )
        os.close(life_read)
        self.lines: list[bytes] = []
        self.events: list[WorkerEvent] = []
        self.faults: list[ProtocolError] = []
        self.stderr = b""
        self._arrived: queue.Queue[WorkerEvent | None] = queue.Queue()
        self._numbers = iter(range(1, 1_000_000))
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the group through the life pipe and release everything."""
        if self.life_fd >= 0:
            os.close(self.life_fd)
            self.life_fd = -1
        self.process.wait(HANG_S)
        for thread in self._threads:
            thread.join(HANG_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            with contextlib.suppress(BrokenPipeError):  # unsent bytes of a worker that is gone
                pipe.close()

    # ------------------------------------------------------------ events

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                event = decode_event(line)
            except ProtocolError as fault:
                self.faults.append(fault)
            else:
                self.events.append(event)
                self._arrived.put(event)
        self._arrived.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.stderr = (self.stderr + line)[-200_000:]

    def next(self, wanted: Callable[[WorkerEvent], bool] = lambda _: True) -> WorkerEvent | None:
        """The next event that is wanted; None at the end of the worker's output."""
        while (event := self._arrived.get(timeout=HANG_S)) is not None:
            if wanted(event):
                return event
        self._arrived.put(None)
        return None

    def wait(self, kind: type[Event], request_id: str | None = None) -> Event:
        """The next event of a kind, of one request if it is named."""
        found = self.next(lambda e: isinstance(e, kind) and request_id in {None, getattr(e, "request_id", None)})
        assert isinstance(found, kind), f"no {kind.__name__}: {self.events[-3:]} {self.stderr[-2000:].decode()}"
        return found

    def wait_exit(self) -> int:
        return self.process.wait(HANG_S)

    def wait_line(self, number: int) -> bytes:
        """Line `number` of the output, also when it is no event."""
        wait_for(lambda: len(self.lines) > number)
        return self.lines[number]

    # ------------------------------------------------------------ commands

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, command: WorkerCommand) -> None:
        self.write(encode_command(command))

    def new_id(self) -> str:
        return f"r{next(self._numbers)}"

    def start(
        self,
        segments: Sequence[Segment],
        *,
        session: str | None = None,
        limit: int | None = None,
        json_schema: str | None = None,
        constrained_prefix: str = "",
        **sampling: Any,
    ) -> str:
        """Send a generate command; gives its id."""
        request_id = self.new_id()
        self.send(
            Generate(
                request_id=request_id,
                session_id=session,
                prompt_segments=tuple(segments),
                max_new_tokens=limit,
                sampling=Sampling(**sampling),
                json_schema=json_schema,
                constrained_prefix=constrained_prefix,
            )
        )
        return request_id

    def cancel(self, target: str) -> None:
        self.send(Cancel(request_id=self.new_id(), target_request_id=target))

    def count(self, segments: Iterable[Segment]) -> int:
        request_id = self.new_id()
        self.send(Count(request_id=request_id, prompt_segments=tuple(segments)))
        tokens = self.wait(Result, request_id).prompt_tokens
        assert tokens is not None
        return tokens

    def shutdown(self) -> None:
        self.send(Shutdown(request_id=self.new_id()))

    def end_of_input(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def finish(self, request_id: str) -> Answer:
        """All events of a request, once it is over."""
        return self.collect([request_id])[request_id]

    def collect(self, request_ids: Sequence[str]) -> dict[str, Answer]:
        """The answers of several requests that run at the same time, once all are over."""
        open_ids = set(request_ids)
        while open_ids:
            event = self.next(lambda e: isinstance(e, (Done, Error)) and e.request_id in open_ids)
            assert isinstance(event, (Done, Error)), f"the worker ended: {self.stderr[-2000:].decode()}"
            open_ids.discard(event.request_id or "")
        return {request_id: Answer(self.events, request_id) for request_id in request_ids}

    def ask(self, segments: Sequence[Segment], **options: Any) -> Answer:
        """Run one generation to its end."""
        return self.finish(self.start(segments, **options))

    def ready(self) -> Ready:
        """The ready event, waited for if it has not come yet."""
        come = [event for event in self.events if isinstance(event, Ready)]
        return come[0] if come else self.wait(Ready)


class Answer:
    """What one request brought, its order checked against the protocol."""

    def __init__(self, events: Iterable[WorkerEvent], request_id: str) -> None:
        self.accepted: Accepted | None = None
        self.progress: list[Progress] = []
        self.tokens: list[Tokens] = []
        self.end: Done | Error | None = None
        for event in tuple(events):
            if getattr(event, "request_id", None) == request_id:
                self._add(event)

    def _add(self, event: WorkerEvent) -> None:
        assert self.end is None, f"{event} after {self.end}"
        match event:
            case Accepted():
                assert self.accepted is None
                assert not self.progress
                self.accepted = event
            case Progress():
                assert self.accepted is not None
                assert not self.tokens
                self.progress.append(event)
            case Tokens():
                assert self.accepted is not None
                self.tokens.append(event)
            case Done() | Error():
                self.end = event
            case _:
                raise AssertionError(event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.tokens)

    @property
    def done(self) -> Done:
        assert isinstance(self.end, Done), self.end
        return self.end

    @property
    def error(self) -> Error:
        assert isinstance(self.end, Error), self.end
        return self.end


class Workers:
    """Workers that a test starts. `stop` ends them, and waits until their groups are gone."""

    def __init__(self) -> None:
        self._started: list[WorkerProcess] = []

    def start(self, *arguments: str, ready: bool) -> WorkerProcess:
        """One more, by the arguments of WorkerProcess; ready: wait until it is."""
        worker = WorkerProcess(*arguments)
        self._started.append(worker)
        if ready:
            worker.ready()
        return worker

    def stop(self) -> None:
        """End all of them."""
        for worker in self._started:
            worker.stop()
            wait_for(lambda pid=worker.process.pid: not group_members(pid))


def group_members(group: int) -> list[int]:
    """Processes of a process group that are not zombies."""
    return [pid for pid, _ in _members(group)]


def _members(group: int) -> list[tuple[int, str]]:
    """Living processes of a group, with their states in the letters of `ps`."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True)
    rows = [row.split() for row in listing.stdout.splitlines()]
    return [(int(pid), state) for pid, pgid, state in rows if int(pgid) == group and not state.startswith("Z")]


def stop_group(group: int) -> None:
    """Stop all processes of a group, and wait until each has stopped: the signal alone only says that it will."""
    os.killpg(group, signal.SIGSTOP)
    wait_for(lambda: all(state.startswith("T") for _, state in _members(group)))


def worker_pid(guard_pid: int) -> int:
    """The worker itself: the guard's only child."""
    return children_of(guard_pid)[0]


def children_of(parent: int) -> list[int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    return [int(pid) for pid, ppid in map(str.split, listing.stdout.splitlines()) if int(ppid) == parent]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something outside our control has come about."""
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)
