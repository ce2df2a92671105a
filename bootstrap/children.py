"""Runs the tools of a set-up (pip, npm, venv): output to the log, a live sign on the screen, and no child left.

Each tool leads a session of its own, so that a Ctrl-C in the terminal reaches the set-up alone, which then ends the
tool's whole group; and so that a tool cannot ask questions on the terminal.
"""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable

from bootstrap.console import Console, megabytes, plain
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout
from bootstrap.processes import end_group
from bootstrap.setup_lock import SetupLock
from bootstrap.stop import StopRequest

POLL_S = 0.1
LOG_LIMIT_BYTES = 2_000_000
TAIL_BYTES = 4096
EVIDENCE_LINES = 8
# Lines that never say why a tool failed.
NOISE = ("WARNING", "npm warn", "[notice]")

# A tool begins once the lock knows it: one that had begun before could outlive a set-up that is killed in that moment,
# and hold the lock as a stranger. Where no byte comes, the set-up is dead, and there is nothing to begin.
GATE = """
import os, sys
gate = int(sys.argv[1])
may_begin = os.read(gate, 1)
os.close(gate)
if may_begin:
    os.execvp(sys.argv[2], sys.argv[2:])
"""

# Settings of the user's own that would send packages elsewhere than asked, or leave out what a lock names. All other
# settings (index, proxy, certificates, cache) are the user's business and stay.
UNWANTED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_DRY_RUN",
    "PIP_NO_BINARY",
    "PIP_ONLY_BINARY",
    "PIP_NO_COMPILE",
    "PIP_PYTHON",
    "PIP_PYTHON_VERSION",
    "PIP_PLATFORM",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_LOG",
    "NODE_ENV",
    "npm_config_global",
    "npm_config_location",
    "npm_config_omit",
    "npm_config_only",
    "npm_config_production",
    "npm_config_dry_run",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_PYTHON_PREFERENCE",
    "UV_PYTHON_DOWNLOADS",
    "UV_PROJECT_ENVIRONMENT",
)


@dataclass(frozen=True)
class Finished:
    """How a tool ended: its exit code (negative: by that signal) and its output lines."""

    code: int
    lines: tuple[str, ...]

    def evidence(self) -> list[str]:
        """The few last lines that say why it failed."""
        kept = [line for line in self.lines if line and not line.startswith(NOISE)]
        errors = [line for line in kept if "error" in line.lower()]
        return (errors or kept)[-EVIDENCE_LINES:]


class Runner:
    """Runs tools for one set-up; one at a time."""

    def __init__(self, *, layout: Layout, console: Console, stop: StopRequest, lock: SetupLock) -> None:
        self.layout = layout
        self.console = console
        self.stop = stop
        self._lock = lock

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        watched: Path | None = None,
    ) -> Finished:
        """Run a tool to its end; raises Stopped (the tool is ended first) and SetupFault when it cannot be started.

        `env` is added to the cleaned environment. The live sign shows the size of the folder `watched`, else the
        tool's last line.
        """
        with self.layout.log.open("ab") as log:
            log.write(f"\n$ {shlex.join(argv)}\n".encode(errors="backslashreplace"))
            log.flush()
            begin = log.tell()
            environment = {**tool_environment(self.layout), **(env or {})}
            gate, opener = os.pipe()
            try:
                child = self._start(argv, gate, log, cwd=cwd or self.layout.cache, env=environment)
                self._attend(child, opener, lambda: self._sign(begin, watched))
            finally:
                os.close(opener)
        return Finished(code=child.returncode, lines=tuple(self._output(begin).splitlines()))

    def _start(
        self, argv: Sequence[str], gate: int, log: BinaryIO, *, cwd: Path, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """The tool, waiting for a byte from the gate; closes the gate on our side."""
        try:
            if shutil.which(argv[0], path=env.get("PATH")) is None:
                raise FileNotFoundError(errno.ENOENT, "no such program, or it must not be run")
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", GATE, str(gate), *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                start_new_session=True,
                pass_fds=(self._lock.descriptor, gate),
            )
        except OSError as fault:
            raise SetupFault(
                f"{argv[0]} cannot be started ({fault.strerror}).",
                advice="Check that file, or reinstall the program.",
            ) from fault
        finally:
            os.close(gate)

    def _attend(self, child: subprocess.Popen[bytes], opener: int, sign: Callable[[], str]) -> None:
        try:
            self._lock.tool_started(child.pid)
            with suppress(BrokenPipeError):  # ended by somebody: what it leaves tells
                os.write(opener, b"1")
            while True:
                try:
                    child.wait(timeout=POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    self.stop.check()
                    self.console.tick(sign)
        finally:
            if child.poll() is None:
                end_group(child.pid)
                child.wait()
            self._lock.tool_ended()

    def _sign(self, begin: int, watched: Path | None) -> str:
        if watched is not None:
            return megabytes(folder_size(watched))
        lines = [line for line in self._output(begin, tail=TAIL_BYTES).splitlines() if not line.startswith(NOISE)]
        return plain(lines[-1]) if lines else ""

    def _output(self, begin: int, *, tail: int = 0) -> str:
        with self.layout.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(begin, end - tail) if tail else begin)
            return log.read().decode(errors="replace")


def tool_environment(layout: Layout) -> dict[str, str]:
    """The user's environment without what would change the meaning of a set-up."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    kept["PIP_USER"] = "0"
    kept["PIP_NO_INPUT"] = "1"
    kept["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    kept["PIP_PROGRESS_BAR"] = "off"
    kept["PIP_ROOT_USER_ACTION"] = "ignore"
    kept["PYTHONUNBUFFERED"] = "1"
    kept["NO_COLOR"] = "1"
    # The system's temporary folder may be small, and what a killed tool leaves in ours is emptied by the next set-up.
    kept["TMPDIR"] = str(layout.scratch)
    return kept


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder; files that vanish meanwhile count nothing. Links are not followed."""
    total = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif entry.is_file(follow_symlinks=False):
                            total += entry.stat(follow_symlinks=False).st_size
                    except OSError:
                        continue
        except OSError:
            continue
    return total


def begin_log(layout: Layout) -> None:
    """Start a new log when the old one has grown; one old log is kept."""
    if layout.log.exists() and layout.log.stat().st_size > LOG_LIMIT_BYTES:
        layout.log.replace(layout.log.with_suffix(".old.log"))
