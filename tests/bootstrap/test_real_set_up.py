"""The real thing, from the package indexes: a fresh copy of the project, set up, repeated, and started offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PARTS = ("bootstrap", "muse", "actors", "web_dist")
HANG_GUARD_S = 600
# A port that nobody listens on: whoever asks for the network in spite of everything fails at once.
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")

pytestmark = pytest.mark.slow


def bootstrap(project: Path, *arguments: str, **env: str) -> tuple[int, str]:
    """Run one command in the copy; output in one string."""
    foreign = ("MUSE_", "PYTHONPATH", "PYTHONSAFEPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        [sys.executable, "-m", "bootstrap", *arguments],
        cwd=project,
        env={**kept, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )
    return done.returncode, done.stdout


def test_fresh_copy_becomes_a_working_server(tmp_path: Path) -> None:
    """Everything is fetched once, checked, and from then on needs no network; the server's own help then answers."""
    project = tmp_path / "a fresh copy"
    leave_out = shutil.ignore_patterns("__pycache__", "vendor", "node_modules")
    for part in PARTS:
        shutil.copytree(PROJECT / part, project / part, ignore=leave_out)

    first, told = bootstrap(project, "setup")
    second, said = bootstrap(project, "setup", **NO_NETWORK)
    healthy, report = bootstrap(project, "doctor", **NO_NETWORK)
    helped, usage = bootstrap(project, "run", "--help", **NO_NETWORK)

    assert first == 0, told
    assert (second, said) == (0, "Everything is set up.\n")
    assert healthy == 0, report
    assert helped == 0, usage
    assert "--port" in usage
