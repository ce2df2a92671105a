"""The stand-in artifacts: made once a run, by whichever process of it needs them first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.server_process import PROJECT
from tests.worker.nano import MODEL

KINDS: Final = {"solo": (), "dflash": ("--draft", "--vision")}
"""What each is made with. One is blind, as an artifact may be: what sees is the same code in both."""
NAME: Final = MODEL.stem
"""By this name tests of the other engine ask for the model."""


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "artifacts"


def make(folder: Path) -> None:
    """Export both kinds, at the same time, unless that is done."""
    folder.mkdir(exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock, ExitStack() as logs:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        running = {
            kind: subprocess.Popen(
                [sys.executable, "-m", "tools.muse_nano.pte", str(folder / kind / NAME), *options],
                cwd=PROJECT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
                stderr=logs.enter_context((folder / f"{kind}.log").open("wb")),
            )
            for kind, options in KINDS.items()
        }
        for kind, process in running.items():
            assert process.wait() == 0, (folder / f"{kind}.log").read_text()[-3000:]
        done.touch()
