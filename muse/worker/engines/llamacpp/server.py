"""Starts, watches and ends the native server's process.

The worker outlives it by a moment, so that a crash in native code is told in words: a fatal error event, then
the worker ends by the same signal. The server's log goes to our standard error; its last lines explain a
failed load, since the library itself gives no reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from muse.protocol import ErrorCode
from muse.worker.engines.base import EngineFault, ReportLoading

_FOLDER_PREFIX: Final = "muse-llamacpp-"
_SOCKET_NAME: Final = "e.sock"  # the ending tells the server that this is no host name
# A socket address holds 104 bytes on macOS, 108 on Linux; the server's own prefix and the end take some.
_MAX_SOCKET_PATH: Final = 100
_LOG_LINES: Final = 60
_SIGN_OF_LIFE_S: Final = 1.0
# Signals that a program does not end itself by. They prove nothing about the model.
_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_MORE_MEMORY: Final = "close other programs, or use a smaller --context or model"
# Threads that wait by spinning cost the whole speed as soon as anything else runs. Measured on 2 cores with
# libgomp: 105 tokens/s idle with the default and with 1000 spins alike; beside one busy process 1 to 45
# tokens/s with the default, 25 to 30 with 1000; without any spinning 40 at all times.
_ENVIRONMENT: Final = {"GGML_NO_BACKTRACE": "1", "GOMP_SPINCOUNT": "1000"}


class InnerServer:
    """The native server of one model. socket_path: where it listens once `start` has returned.

    lost: called from the watching thread with the fault and the return code when the process ends on its own.
    """

    def __init__(self, lost: Callable[[EngineFault, int], None]) -> None:
        self._lost = lost
        self._folder = _make_folder()
        self.socket_path = str(self._folder / _SOCKET_NAME)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._is_closing = threading.Event()

    def start(self, settings: dict[str, Any], size_bytes: int, report: ReportLoading) -> dict[str, Any]:
        """Start the process and wait until it serves; gives its report. Raises EngineFault.

        size_bytes: of the model's files, to estimate how far the load is.
        """
        command = [sys.executable, "-m", "muse.worker.engines.llamacpp.serve"]
        process = subprocess.Popen(
            [*command, json.dumps({**settings, "socket": self.socket_path})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_ENVIRONMENT, **os.environ},
        )
        self._process = process
        log_thread = threading.Thread(target=self._copy_log, name="engine log", daemon=True)
        log_thread.start()
        answered = threading.Event()
        progress = threading.Thread(
            target=_report_progress, args=(process.pid, size_bytes, report, answered), daemon=True
        )
        progress.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        answered.set()
        progress.join()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the engine's process ended"}
        if "error" in answer:
            returncode = process.wait()
            log_thread.join(1.0)
            raise self._load_fault(str(answer["error"]), returncode)
        threading.Thread(target=self._watch, name="engine watch", daemon=True).start()
        return answer

    def memory_bytes(self) -> int | None:
        """Resident memory of the process now, None where it cannot be told."""
        return resident_bytes(self._process.pid) if self._process else None

    def cpu_seconds(self) -> str | None:
        """Processor time that the process has used, in the words of `ps`; it grows while it computes."""
        return cpu_seconds(self._process.pid) if self._process else None

    def close(self) -> None:
        """Kill the process and remove the socket. Idempotent, any thread."""
        self._is_closing.set()
        if self._process:
            self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait_lost(self, timeout_s: float) -> bool:
        """Wait a moment for the process to end; returns whether it has."""
        if self._process:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
        return True

    def _watch(self) -> None:
        assert self._process is not None
        returncode = self._process.wait()
        if not self._is_closing.is_set():
            self._lost(EngineFault(self._code(returncode), self._epitaph(returncode), fatal=True), returncode)

    def _copy_log(self) -> None:
        assert self._process
        assert self._process.stderr
        for line in self._process.stderr:
            self._log.append(line.decode("utf-8", "replace").rstrip())
            os.write(2, line)

    def _load_fault(self, error: str, returncode: int) -> EngineFault:
        text = f"llama.cpp cannot load this model: {error}"
        if returncode < 0:
            text = f"llama.cpp cannot load this model: {self._epitaph(returncode)}"
        elif reasons := [line.partition(" E ")[2] for line in self._log if " E " in line[:20]]:
            text = f"{text} ({'; '.join(_plain(reason) for reason in reasons[:3])})"
        return EngineFault(self._code(returncode), text, fatal=True)

    def _code(self, returncode: int) -> ErrorCode:
        if re.search(r"out of memory|failed to allocate|unable to allocate|bad_alloc", "\n".join(self._log)):
            return "out_of_memory"
        return "engine_killed" if -returncode in _FROM_OUTSIDE else "engine_error"

    def _epitaph(self, returncode: int) -> str:
        how = f"ended with status {returncode}" if returncode >= 0 else f"died by {signal.Signals(-returncode).name}"
        last = _plain(self._log[-1]) if self._log else ""
        words = f"the engine's process {how}" + (f"; its last words: {last}" if last else "")
        match self._code(returncode):
            case "out_of_memory":
                return f"{words}. The memory did not suffice: {_MORE_MEMORY}"
            case "engine_killed" if returncode == -signal.SIGKILL:
                # The kernel's last resort against a full memory; we have not sent one ourselves here.
                return f"{words}. Somebody killed it, or the memory did not suffice: then {_MORE_MEMORY}"
            case _:
                return words


def _plain(line: str) -> str:
    return re.sub(r"[^\x20-\x7e]+|\s+", " ", line)[:300].strip()


def _report_progress(pid: int, size_bytes: int, report: ReportLoading, answered: threading.Event) -> None:
    """Say that the load goes on, at most once a second and only when it does: the engine's memory grows, or it
    uses processor time. One that hangs is silent, so that somebody notices. The fraction is an estimate from the
    memory in use."""
    fraction, before = 0.0, None
    report(0.0, "loading the model")
    while not answered.wait(_SIGN_OF_LIFE_S):
        used = resident_bytes(pid)
        if used is not None and size_bytes:
            fraction = max(fraction, min(0.99, used / size_bytes))
        activity = used, cpu_seconds(pid)
        if activity != before:
            report(round(fraction, 3) if used is not None else None, "loading the model")
        before = activity


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process; None where there is no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> str | None:
    """Processor time a process has used, in the words of `ps`; None if it is gone."""
    found = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def _make_folder() -> Path:
    """A new 0700 folder for the socket: in $MUSE_HOME/run if that path is short enough, else in the system's
    folder for temporary files. Folders of dead workers are removed on the way."""
    candidates = [Path(tempfile.gettempdir())]
    if home := os.environ.get("MUSE_HOME"):
        candidates.insert(0, Path(home).absolute() / "run")
    for parent in candidates:
        longest = parent / f"{_FOLDER_PREFIX}{os.getpid()}-12345678" / _SOCKET_NAME
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(parent)
            if len(os.fsencode(longest)) <= _MAX_SOCKET_PATH:
                return Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-", dir=parent))
        except OSError:
            continue
    raise EngineFault("engine_error", f"no folder for a socket can be made in {candidates}", fatal=True)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        pid = folder.name[len(_FOLDER_PREFIX) :].partition("-")[0]
        if folder.stat().st_uid == os.getuid() and pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state != "Z"  # dead, and only not yet collected by its parent


def wait_until(condition: Callable[[], bool], *, every_s: float, timeout_s: float) -> bool:
    """Ask again and again; returns the last answer."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
