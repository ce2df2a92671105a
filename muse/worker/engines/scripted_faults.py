"""Faults that the scripted engine commits on demand: data in the script, one entry a fault.

    {"at": "start" | "load" | "ready" | "idle" | "prefill" | "token" | "cancel",
     "token": 3,              with at=token: before this token of the answer, counted from 0 over resumes
     "processed": 128,        with at=prefill: once so many prompt tokens are done
     "do": KIND,
     "status": 1,             with exit
     "signal": "SIGSEGV",     with signal
     "ms": 100,               with delay: how long; with anything at=idle: so long after ready
     "bytes": 100000000,      with huge_line
     "request": true,         with hang: only the request hangs, the process goes on answering
     "counter": "/a/file", "times": 1,   commit it so often in all, counted in the file, over restarts
     "chance": 1.0}           probability each time

KIND: exit, signal, hang, delay, garbage_line, half_line, invalid_utf8, huge_line, empty_line, unknown_event,
unknown_request, duplicate_done, tokens_after_done, ready_twice, close_stdout, stop_reading, ignore_cancel,
stderr_flood, print_stdout, error_fatal, error_request, dead_end, draft_slower, grandchild.
dead_end fails the request as a constrained answer that cannot go on does.
error_request fails the request alone, as an engine does whose answer broke its form.
duplicate_done and tokens_after_done come after the end of the request, wherever they are set;
ignore_cancel lasts for its request. `start` comes before the first event, `load` in the middle of loading,
`ready` right after the ready event and before any command that follows it, `idle` the given time after it (as
soon as its counter allows it, if that is later), `cancel` when a cancel is noticed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs

from muse.protocol import Done, Error, Ready, Tokens, WorkerEvent
from muse.protocol_codec import encode_event
from muse.worker.engines.base import EngineFault
from muse.worker.stdio import EventWriter

At = Literal["start", "load", "ready", "idle", "prefill", "token", "cancel"]
Kind = Literal[
    "exit",
    "signal",
    "hang",
    "delay",
    "garbage_line",
    "half_line",
    "invalid_utf8",
    "huge_line",
    "empty_line",
    "unknown_event",
    "unknown_request",
    "duplicate_done",
    "tokens_after_done",
    "ready_twice",
    "close_stdout",
    "stop_reading",
    "ignore_cancel",
    "stderr_flood",
    "print_stdout",
    "error_fatal",
    "error_request",
    "dead_end",
    "draft_slower",
    "grandchild",
]
_AFTER_DONE: Final = frozenset({"duplicate_done", "tokens_after_done"})
_LOOK_AGAIN_S: Final = 0.05


@attrs.define(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a script."""

    at: At
    do: Kind
    token: int = 0
    processed: int = 0
    status: int = 1
    signal: str = "SIGKILL"
    ms: float = 0.0
    bytes: int = 100_000_000
    request: bool = False
    counter: str | None = None
    times: int = 1
    chance: float = 1.0

    @property
    def place(self) -> int:
        """Where in its phase the fault is committed: a token or a count of prompt tokens, else 0."""
        return {"token": self.token, "prefill": self.processed}.get(self.at, 0)

    def is_due(self) -> bool:
        """Whether to commit it this time; counts the time."""
        if self.chance < 1.0 and random.random() >= self.chance:  # noqa: S311 (no secret)
            return False
        if self.counter is None:
            return True
        descriptor = os.open(self.counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size >= self.times:
                return False
            os.write(descriptor, b"x")
            return os.fstat(descriptor).st_size <= self.times
        finally:
            os.close(descriptor)


class FaultWriter(EventWriter):
    """An event pipe that adds lines after the last event of a request, and repeats the ready event."""

    def __init__(self, fd: int, encode: Callable[[WorkerEvent], bytes]) -> None:
        super().__init__(fd, encode)
        self.descriptor = fd
        self.after_done: dict[str, list[Fault]] = {}  # by request id
        self.ready: Ready | None = None  # as it was sent
        self.after_ready: Callable[[], None] | None = None

    def send(self, event: WorkerEvent) -> None:
        super().send(event)
        if isinstance(event, Ready) and self.after_ready:
            self.ready = event
            threading.Thread(target=self.after_ready, name="faults", daemon=True).start()
        if isinstance(event, Done):
            for fault in self.after_done.pop(event.request_id, []):
                late = Tokens(request_id=event.request_id, ids=(1,), text="late")
                super().send(event if fault.do == "duplicate_done" else late)


class FaultPlayer:
    """Commits faults. What blocks for ever blocks the thread that committed it."""

    def __init__(self, writer: FaultWriter) -> None:
        self._writer = writer
        self._reading = threading.Event()
        self._reading.set()
        self._ready_over = threading.Event()
        self._ready_over.set()

    def before_command(self) -> None:
        """Hook of the protocol loop: blocks once the worker is to read no more."""
        self._ready_over.wait()
        self._reading.wait()

    def watch_ready(self, faults: Sequence[Fault]) -> None:
        """Commit the faults at `ready` and `idle` in their time; called before the ready event is sent.

        Who was told that we are ready may ask at once: no command is looked at until those at `ready` are over."""

        def later() -> None:
            began = time.monotonic()
            self.play(faults, "ready")
            self._ready_over.set()
            waiting = sorted((fault for fault in faults if fault.at == "idle"), key=lambda fault: fault.ms)
            while waiting:
                for fault in tuple(waiting):
                    time.sleep(max(0.0, began + fault.ms / 1000 - time.monotonic()))
                    if self.play([fault], "idle") or fault.counter is None:
                        waiting.remove(fault)
                time.sleep(_LOOK_AGAIN_S)

        self._ready_over.clear()
        self._writer.after_ready = later

    def watch_request(self, faults: Sequence[Fault], request_id: str) -> bool:
        """Arm the faults that come after the end of a request. Returns whether it ignores cancels."""
        after = [fault for fault in faults if fault.do in _AFTER_DONE and fault.is_due()]
        if after:
            self._writer.after_done[request_id] = after
        return any(fault.do == "ignore_cancel" for fault in faults)

    def play(self, faults: Sequence[Fault], at: At, place: range = range(1)) -> int:
        """Commit the faults of a phase whose place lies in the range; how many that were."""
        committed = 0
        for fault in faults:
            if fault.at == at and fault.place in place and fault.do not in _AFTER_DONE and fault.is_due():
                self._commit(fault)
                committed += 1
        return committed

    def _commit(self, fault: Fault) -> None:
        if fault.do == "stop_reading" or (fault.do == "hang" and not fault.request):
            self._reading.clear()
        os.write(2, f"scripted fault: {fault.do} at {fault.at}\n".encode())
        match fault.do:
            case "exit":
                os._exit(fault.status)
            case "signal":
                # To this very thread: another would die for it only after we had gone on a little.
                signal.pthread_kill(threading.get_ident(), signal.Signals[fault.signal])
            case "hang":
                threading.Event().wait()
            case "delay":
                time.sleep(fault.ms / 1000)
            case "close_stdout":
                self._writer.close()
            case "stop_reading":
                pass  # done above
            case "stderr_flood":
                for _ in range(1000):
                    os.write(2, b"flood " * 1000 + b"\n")
            case "error_request":
                raise EngineFault("engine_error", "scripted fault of a request")
            case "dead_end":
                raise EngineFault("constrained_dead_end", "scripted dead end of a constrained answer")
            case "print_stdout":
                os.write(1, b"written straight to descriptor 1\n")
                sys.stdout.write("printed to sys.stdout\n")
                sys.stdout.flush()
            case "grandchild":
                # Holds the event pipe open after this process is gone.
                sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
                subprocess.Popen(sleeper, pass_fds=(self._writer.descriptor,))
            case _:
                self._writer.write(self._line(fault))

    def _line(self, fault: Fault) -> bytes:
        stray = Tokens(request_id="never-asked", ids=(1,), text="stray")
        fatal = Error(request_id=None, code="engine_error", message="scripted end", fatal=True)
        match fault.do:
            case "garbage_line":
                return b"Loading weights: 42%|####\n"
            case "half_line":
                return encode_event(stray)[:20]
            case "invalid_utf8":
                return b'{"event":"tokens","text":"\xff\xfe"}\n'
            case "huge_line":
                return b'{"event":"tokens","text":"' + b"a" * fault.bytes + b'"}\n'
            case "empty_line":
                return b"\n"
            case "unknown_event":
                return b'{"event":"weather","sun":true}\n'
            case "unknown_request":
                return encode_event(stray)
            case "error_fatal":
                return encode_event(fatal)
            case "draft_slower":
                return encode_event(Error(request_id=None, code="draft_slower", message="scripted loss"))
            case "ready_twice" if self._writer.ready:
                return encode_event(self._writer.ready)
            case _:
                return b""
