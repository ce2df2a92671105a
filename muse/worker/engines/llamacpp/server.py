"""Starts, watches and ends the native server's process, and keeps the folder of its socket."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from muse.worker.child import Child, plain
from muse.worker.engines.base import EngineFault, ReportLoading

_FOLDER_PREFIX: Final = "muse-llamacpp-"
_SOCKET_NAME: Final = "e.sock"  # the ending tells the server that this is no host name
# A socket address holds 104 bytes on macOS, 108 on Linux; the server's own prefix and the end take some.
_MAX_SOCKET_PATH: Final = 100
# Threads that wait by spinning cost the whole speed as soon as anything else runs. Measured on 2 cores with
# libgomp: 105 tokens/s idle with the default and with 1000 spins alike; beside one busy process 1 to 45
# tokens/s with the default, 25 to 30 with 1000; without any spinning 40 at all times.
_ENVIRONMENT: Final = {"GGML_NO_BACKTRACE": "1", "GOMP_SPINCOUNT": "1000"}


class InnerServer:
    """The native server of one model. socket_path: where it listens once `start` has returned.

    lost: called from the watching thread with the fault and the return code when the process ends on its own. on_log:
    see Child.
    """

    def __init__(self, lost: Callable[[EngineFault, int], None], on_log: Callable[[str], bool]) -> None:
        self._lost = lost
        self._on_log = on_log
        self._folder = _make_folder()
        self.socket_path = str(self._folder / _SOCKET_NAME)
        self._child: Child | None = None

    def start(self, settings: dict[str, Any], size_bytes: int, report: ReportLoading) -> dict[str, Any]:
        """Start the process and wait until it serves; gives its report. Raises EngineFault.

        size_bytes: of the model's files, to estimate how far the load is.
        """
        command = [sys.executable, "-m", "muse.worker.engines.llamacpp.serve"]
        child = self._child = Child(
            [*command, json.dumps({**settings, "socket": self.socket_path})],
            env={**_ENVIRONMENT, **os.environ},
            on_log=self._on_log,
        )
        line = child.first_line(size_bytes, report)
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the engine's process ended"}
        if "error" in answer:
            raise _load_fault(child, str(answer["error"]))
        child.watch(lambda returncode: self._lost(child.death(returncode), returncode))
        return answer

    def memory_bytes(self) -> int | None:
        """Resident memory of the process now, None where it cannot be told."""
        return self._child.memory_bytes() if self._child else None

    def cpu_seconds(self) -> str | None:
        """Processor time that the process has used, in the system's words; it grows while it computes."""
        return self._child.cpu_seconds() if self._child else None

    def close(self) -> None:
        """Kill the process and remove the socket. Idempotent, any thread."""
        if self._child:
            self._child.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait_lost(self, timeout_s: float) -> bool:
        """Wait a moment for the process to end; returns whether it has."""
        return self._child is None or self._child.wait_lost(timeout_s)


def _load_fault(child: Child, error: str) -> EngineFault:
    returncode = child.wait_end()
    text = f"llama.cpp cannot load this model: {error}"
    if returncode < 0:
        text = f"llama.cpp cannot load this model: {child.epitaph(returncode, while_loading=True)}"
    elif reasons := child.errors():
        text = f"{text} ({'; '.join(plain(reason) for reason in reasons[:3])})"
    return EngineFault(child.code(returncode, error), text, fatal=True)


def _make_folder() -> Path:
    """A new 0700 folder for the socket: in $MUSE_HOME/run if that path is short enough, else in the system's
    folder for temporary files. Folders of dead workers are removed on the way."""
    candidates = [Path(tempfile.gettempdir())]
    if home := os.environ.get("MUSE_HOME"):
        candidates.insert(0, Path(home).absolute() / "run")
    refusal: OSError | None = None
    for parent in candidates:
        longest = parent / f"{_FOLDER_PREFIX}{os.getpid()}-12345678" / _SOCKET_NAME
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(parent)
            if len(os.fsencode(longest)) <= _MAX_SOCKET_PATH:
                return Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-", dir=parent))
        except OSError as fault:
            refusal = fault
    raise EngineFault("engine_error", f"no folder for a socket can be made in {candidates}", fatal=True) from refusal


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        pid = folder.name[len(_FOLDER_PREFIX) :].partition("-")[0]
        with suppress(OSError):  # another worker may be tidying up as well
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
