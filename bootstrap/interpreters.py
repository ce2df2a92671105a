"""Finds a Python that the playground can run on: CPython 3.11 to 3.14, 64 bits, with the GIL.

Each candidate is started and asked, since names lie: shims that only print an error, the stub that macOS puts at
/usr/bin/python3, a Python of another architecture. First the interpreter that runs this set-up, then the names on the
PATH from new to old, then the places where installers put it. One that can fill a new environment by itself
(`ensurepip`, which Debian splits off) is preferred, then one that has a pip of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bootstrap.faults import SetupFault

# The range that the lock files are valid for.
OLDEST = (3, 11)
NEWEST = (3, 14)
NAMES = tuple(f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1))
PROBE_TIMEOUT_S = 15.0
CHOICE_VARIABLE = "MUSE_PYTHON"

PROBE = """
import json, platform, sys, sysconfig
from importlib.util import find_spec
try:
    import ensurepip
    has_ensurepip = bool(ensurepip.version())
except Exception:
    has_ensurepip = False
try:
    has_pip = find_spec("pip.__main__") is not None
except Exception:
    has_pip = False
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "implementation": platform.python_implementation(),
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "machine": platform.machine(),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "venv": find_spec("venv") is not None,
    "ensurepip": has_ensurepip,
    "pip": has_pip,
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One Python on this machine and what it told about itself; `path` is what to start."""

    path: str
    version: tuple[int, int, int]
    implementation: str
    bits: int
    machine: str
    free_threaded: bool
    venv: bool
    ensurepip: bool
    pip: bool

    def __str__(self) -> str:
        return f"Python {'.'.join(map(str, self.version))} ({self.path})"

    @property
    def objection(self) -> str:
        """Why the playground cannot run on it, or an empty string."""
        if self.implementation != "CPython":
            return f"it is {self.implementation}, not CPython"
        if self.version[:2] < OLDEST:
            return "it is too old"
        if self.version[:2] > NEWEST:
            return "it is newer than the locked packages know"
        if self.bits != 64:
            return "it has 32 bits"
        if self.free_threaded:
            return "it is the free-threaded build, which the packages are not locked for"
        if _is_translated(self.machine):
            return "it is an Intel program on an Apple Silicon Mac"
        return ""


def probe(path: str) -> Interpreter | None:
    """Ask one candidate; None when it is no working Python."""
    try:
        told = subprocess.run(
            [path, "-I", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
        fields = json.loads(told.stdout)
        major, minor, micro = fields.pop("version")
        return Interpreter(path=path, version=(major, minor, micro), **fields)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None


def candidates(home: Path) -> Iterator[str]:
    """Paths worth asking, best first, each once (links to the same file count as the same)."""
    seen = set()
    for path in _everywhere(home):
        real = os.path.realpath(path)
        if real not in seen and os.access(real, os.X_OK):
            seen.add(real)
            yield path


def find_interpreter(home: Path) -> tuple[Interpreter | None, list[str]]:
    """The Python to use, or None, with the reasons against those that were found and refused.

    Raises SetupFault when the user named one in MUSE_PYTHON and it cannot be used.
    """
    wanted = os.environ.get(CHOICE_VARIABLE)
    if wanted:
        return _chosen(wanted), []
    second_best: Interpreter | None = None
    refused: list[str] = []
    for path in candidates(home):
        found = probe(path)
        if found is None:
            continue
        if found.objection:
            refused.append(f"{found}: {found.objection}")
        elif found.venv and found.ensurepip:
            return found, refused
        elif second_best is None or (found.pip and not second_best.pip):
            second_best = found
    return second_best, refused


def _chosen(wanted: str) -> Interpreter:
    path = shutil.which(os.path.expanduser(wanted)) or wanted  # noqa: PTH111 - the name may be no path at all
    found = probe(path)
    advice = f"Point {CHOICE_VARIABLE} at a CPython 3.11 to 3.14, or unset it to let set-up search."
    if found is None:
        raise SetupFault(f"{CHOICE_VARIABLE}={wanted} is no working Python.", advice=advice)
    if found.objection:
        raise SetupFault(f"{CHOICE_VARIABLE} names {found}, but {found.objection}.", advice=advice)
    return found


def _everywhere(home: Path) -> Iterator[str]:
    # Inside a virtual environment the Python it was made from; the environment may be deleted any day.
    yield getattr(sys, "_base_executable", None) or sys.executable
    for name in (*NAMES, "python3", "python"):
        for folder in os.get_exec_path():
            path = Path(folder or ".", name)
            if path.is_file() and not _is_apple_stub(path):
                yield str(path)
    for path in _usual_places(home):
        if not _is_apple_stub(path):
            yield str(path)


def _usual_places(home: Path) -> Iterator[Path]:
    own = _own_folder()
    for folder in (
        "/opt/homebrew/bin",
        "/usr/local/bin",
        "/usr/bin",
        "/opt/local/bin",
        str(own / ".local/bin"),
    ):
        for name in NAMES:
            path = Path(folder, name)
            if path.is_file():
                yield path
    for root, pattern in (
        (home / "python", "*/bin/python3.*"),
        (Path("/Library/Frameworks/Python.framework/Versions"), "3.*/bin/python3"),
        (own / ".local/share/uv/python", "cpython-*/bin/python3.*"),
        (own / "Library/Application Support/uv/python", "cpython-*/bin/python3.*"),
        (own / ".pyenv/versions", "3.*/bin/python3"),
        (Path("/opt/python"), "*/bin/python3"),
    ):
        try:
            found = sorted(root.glob(pattern), reverse=True)
        except OSError:
            continue
        yield from (path for path in found if not path.name.endswith("-config"))


def _own_folder() -> Path:
    """The user's home folder; one that does not exist for a user without any (HOME unset, an unknown uid)."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _is_apple_stub(path: Path) -> bool:
    """Whether starting this file would only open the dialog that offers Apple's developer tools."""
    if sys.platform != "darwin" or path.parent != Path("/usr/bin"):
        return False
    asked = subprocess.run(
        ["/usr/bin/xcode-select", "-p"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return asked.returncode != 0


def _is_translated(machine: str) -> bool:
    if sys.platform != "darwin" or machine != "x86_64":
        return False
    asked = subprocess.run(
        ["/usr/sbin/sysctl", "-n", "hw.optional.arm64"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return asked.stdout.strip() == b"1"
