"""uv, the way out when the machine has no Python that fits, or one that cannot make environments.

A uv on the PATH is used as it is; otherwise the locked one is installed with pip into the cache folder. A Python is
downloaded through uv only when none was found, since that download comes from outside the package index.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from bootstrap import pip_tool
from bootstrap.children import Runner
from bootstrap.faults import SetupFault
from bootstrap.interpreters import Interpreter, candidates, probe

PYTHON_TO_FETCH = "3.13"
# uv takes settings from any folder above the one it is started in; the user's own settings are enough.
NEUTRAL_FOLDER = Path("/")
LOCKED = ("--no-deps", "--require-hashes", "--requirement")
ADVICE = (
    "Install Python 3.11, 3.12, 3.13 or 3.14, then run the same command again. On a Mac: the installer from "
    "python.org, or `brew install python@3.13`. On Debian or Ubuntu: `sudo apt-get install python3 python3-venv`."
)


def find_uv(runner: Runner) -> str:
    """Path of a working uv; raises SetupFault when there is none and none can be installed."""
    found = shutil.which("uv")
    if found:
        return found
    folder = runner.layout.cache / "uv"
    tool = folder / "bin" / "uv"
    if not os.access(tool, os.X_OK):
        pip_python = _python_with_pip(runner)
        fresh = runner.layout.cache / "uv.new"
        shutil.rmtree(fresh, ignore_errors=True)
        pip_tool.install(runner, Path(pip_python), runner.layout.lock_files / "uv.txt", target=fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    return str(tool)


def fetch_python(runner: Runner, refused: list[str]) -> Interpreter:
    """Let uv download a Python into the home folder; raises SetupFault with the reasons against those found."""
    try:
        uv = find_uv(runner)
    except SetupFault as fault:
        raise _no_python(refused, [*fault.evidence, fault.what]) from fault
    target = runner.layout.home / "python"
    finished = runner.run(
        [uv, "python", "install", PYTHON_TO_FETCH],
        env={"UV_PYTHON_INSTALL_DIR": str(target), "UV_PYTHON_INSTALL_BIN": "0"},
        cwd=NEUTRAL_FOLDER,
        watched=target,
    )
    for path in sorted(target.glob(f"cpython-*/bin/python{PYTHON_TO_FETCH}")):
        found = probe(str(path))
        if finished.code == 0 and found and not found.objection:
            return found
    raise _no_python(refused, finished.evidence())


def make_environment(runner: Runner, interpreter: Interpreter, target: Path) -> None:
    """An environment with pip in it, from a Python that cannot make one by itself."""
    try:
        uv = find_uv(runner)
    except SetupFault as fault:
        raise SetupFault(
            f"{interpreter} cannot fill a virtual environment (its ensurepip is missing), and uv is not to be had.",
            advice="On Debian or Ubuntu: `sudo apt-get install python3-venv`, then run the same command again.",
            evidence=[*fault.evidence, fault.what],
        ) from fault
    finished = runner.run([uv, "venv", "--no-project", "--python", interpreter.path, str(target)], cwd=NEUTRAL_FOLDER)
    if finished.code == 0:
        lock = runner.layout.lock_files / "pip.txt"
        install = [uv, "pip", "install", "--python", str(target / "bin" / "python"), *LOCKED, str(lock)]
        finished = runner.run(install, cwd=NEUTRAL_FOLDER)
    if finished.code != 0:
        raise pip_tool.in_words(finished, "uv")


def _python_with_pip(runner: Runner) -> str:
    """Any Python, too old ones included, that has pip or can make an environment that has it."""
    makers: list[Interpreter] = []
    for path in candidates(runner.layout.home):
        found: Interpreter | None = probe(path)
        if found and found.pip:
            return found.path
        if found and found.venv and found.ensurepip:
            makers.append(found)
    if not makers:
        raise SetupFault("No Python on this machine has pip.", advice=ADVICE)
    folder = runner.layout.cache / "pip-environment"
    finished = runner.run([makers[0].path, "-I", "-m", "venv", "--clear", str(folder)])
    if finished.code != 0:
        raise pip_tool.in_words(finished, "venv")
    return str(folder / "bin" / "python")


def _no_python(refused: list[str], evidence: list[str]) -> SetupFault:
    running = sys.version.split()[0]
    return SetupFault(
        f"No Python from 3.11 to 3.14 was found (set-up itself runs on {running}), and none could be downloaded.",
        advice=ADVICE,
        evidence=[*(f"found, but not usable: {reason}" for reason in refused), *evidence],
    )
