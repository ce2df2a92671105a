"""A native program that a worker runs as its child: started, watched and ended, its death told in words.

The worker outlives it by a moment, so that a crash in native code is told in words: a fatal error event, then the
worker ends by the same signal. The child's log goes to our standard error; its last lines explain a failed load, since
such programs mostly give no other reason. The child lives in the worker's process group, which the guard ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from muse.protocol import ErrorCode
from muse.worker.engines.base import EngineFault, ReportLoading
from muse.worker.stdio import read_lines

_LOG_LINES: Final = 60
_SIGN_OF_LIFE_S: Final = 1.0
_LOG_WAIT_S: Final = 1.0
_PS_TIMEOUT_S: Final = 5.0
# Signals that a program does not end itself by. They prove nothing about the model.
_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
# A line of ExecuTorch's log ("E 00:00:00.000123 executorch:file.cpp:12] words"), or of llama.cpp's
# ("0.00.012.345 E words"), with its level. What has none was not logged but printed: a failed assertion, an uncaught
# exception, a wrong flag.
_LOGGED: Final = re.compile(r"(?:(?P<et>[DIEF]) [\d:.]+ (?:executorch:\S+\] )?|[\d.]+ (?P<ggml>[DIWE]) )(?P<words>.*)")
_LAST_WORDS: Final = 3
# In the system's words, and in Python's: no thread, process or descriptor was to be had.
_REFUSED: Final = r"Resource temporarily unavailable|Too many open files|can't start new thread|EAGAIN"
_MORE_MEMORY: Final = "close other programs, or use a smaller --context or model"


class Child:
    """A running program with its standard streams in pipes. Raises OSError when it cannot be started.

    lines: of its output, the first one left to `first_line`. log: the last of its standard error, newest last.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        on_log: Callable[[str], bool] = lambda line: True,
    ) -> None:
        """on_log: called with each line of its standard error, from the thread that reads it; false: the line is for
        nobody else."""
        self._process = subprocess.Popen(
            [*command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            pass_fds=tuple(pass_fds),
        )
        assert self._process.stdin
        assert self._process.stdout
        self.stdin: Final = self._process.stdin
        self.lines: Final = read_lines(self._process.stdout.fileno())
        self.log: Final[deque[str]] = deque(maxlen=_LOG_LINES)
        self._on_log = on_log
        self._is_closing = threading.Event()
        self._log_thread = threading.Thread(target=self._copy_log, name="engine log", daemon=True)
        self._log_thread.start()

    def first_line(self, size_bytes: int, report: ReportLoading) -> bytes:
        """Wait for the first line of its output, with signs of life meanwhile; empty if it ends before.

        size_bytes: of the model's files, to estimate how far the load is. Raises LineTooLong.
        """
        answered = threading.Event()
        progress = threading.Thread(
            target=_report_progress, args=(self._process.pid, size_bytes, report, answered), daemon=True
        )
        progress.start()
        try:
            return next(self.lines, b"")
        finally:
            answered.set()
            progress.join()

    def wait_end(self) -> int:
        """Wait until the process has ended and its log is here; gives its return code."""
        returncode = self._process.wait()
        self._log_thread.join(_LOG_WAIT_S)
        return returncode

    def watch(self, lost: Callable[[int], None]) -> None:
        """Have `lost` called with the return code, in a thread of its own, when the process ends by itself."""

        def wait() -> None:
            returncode = self.wait_end()
            if not self._is_closing.is_set():
                lost(returncode)

        threading.Thread(target=wait, name="engine watch", daemon=True).start()

    def wait_lost(self, timeout_s: float) -> bool:
        """Wait a moment for the process to end; returns whether it has."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def memory_bytes(self) -> int | None:
        """Resident memory of the process now, None where it cannot be told."""
        return resident_bytes(self._process.pid)

    def cpu_seconds(self) -> str | None:
        """Processor time that the process has used, in the system's words; it grows while it computes."""
        return cpu_seconds(self._process.pid)

    def close(self) -> None:
        """Kill the process; nobody is told of its end any more. Idempotent, any thread."""
        self._is_closing.set()
        self._process.kill()

    def _copy_log(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").rstrip()
            if self._on_log(text):
                self.log.append(text)
                with suppress(OSError):  # whoever listens or not: unread, the pipe would fill and stop the engine
                    os.write(2, line)

    # ------------------------------------------------------------ in words

    def code(self, returncode: int, error: str = "") -> ErrorCode:
        """What its end was. error: what it said itself."""
        said = "\n".join([*self.log, error])
        if re.search(r"out of memory|failed to allocate|unable to allocate|bad_alloc", said):
            return "out_of_memory"
        if re.search(_REFUSED, said):
            return "capacity_exhausted"
        return "engine_killed" if -returncode in _FROM_OUTSIDE else "engine_error"

    def errors(self) -> list[str]:
        """What its log has at the level of errors, each once, oldest first."""
        return list(dict.fromkeys(words for level, words in map(_read_log_line, self.log) if level in ("E", "F")))

    def epitaph(self, returncode: int, *, while_loading: bool = False) -> str:
        """How it ended, its last words, and what may help.

        while_loading: all errors of its log belong to this end. The last line alone mostly says only that the load
        failed; the reason is logged before it."""
        how = f"ended with status {returncode}" if returncode >= 0 else f"died by {signal.Signals(-returncode).name}"
        last = self._last_words(while_loading=while_loading)
        words = f"the engine's process {how}" + (f"; its last words: {last}" if last else "")
        match self.code(returncode):
            case "out_of_memory":
                return f"{words}. The memory did not suffice: {_MORE_MEMORY}"
            case "engine_killed" if returncode == -signal.SIGKILL:
                # The kernel's last resort against a full memory; we have not sent one ourselves here.
                return f"{words}. Somebody killed it, or the memory did not suffice: then {_MORE_MEMORY}"
            case _:
                return words

    def _last_words(self, *, while_loading: bool) -> str:
        level, last = _read_log_line(self.log[-1]) if self.log else ("", "")
        lines = self.errors()[-_LAST_WORDS:] if while_loading else []
        if last not in lines and (not lines or not level):
            lines.append(last)
        return "; ".join(filter(None, map(plain, lines)))

    def death(self, returncode: int) -> EngineFault:
        """Its end as a fault."""
        return EngineFault(self.code(returncode), self.epitaph(returncode), fatal=True)


def _read_log_line(line: str) -> tuple[str, str]:
    """The level of a line of a log, empty if it has none, and its words."""
    found = _LOGGED.match(line)
    return (found["et"] or found["ggml"], found["words"]) if found else ("", line)


def plain(line: str) -> str:
    """A line of a log, fit for a message."""
    return re.sub(r"[^\x20-\x7e]+|\s+", " ", line)[:300].strip()


def _report_progress(pid: int, size_bytes: int, report: ReportLoading, answered: threading.Event) -> None:
    """Say that the load goes on, at most once a second and only when it does: the engine's memory grows, or it
    uses processor time. One that hangs is silent, so that somebody notices. Where the system tells neither, nobody can
    know, and it counts as going on. The fraction is an estimate from the memory in use."""
    fraction, before = 0.0, None
    report(0.0, "loading the model")
    while not answered.wait(_SIGN_OF_LIFE_S):
        used = resident_bytes(pid)
        if used is not None and size_bytes:
            fraction = max(fraction, min(0.99, used / size_bytes))
        activity = used, cpu_seconds(pid)
        if activity != before or activity == (None, None):
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
    """Processor time a process has used, in the words of /proc or of `ps`; None if it is gone or nobody can tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        # In whole seconds, as ps says it: a hung program that only wakes now and then is not at work.
        return str((int(fields[11]) + int(fields[12])) // os.sysconf("SC_CLK_TCK"))
    except (OSError, IndexError, ValueError):
        pass
    try:
        found = subprocess.run(
            ["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
