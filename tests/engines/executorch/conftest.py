"""Stand-in artifacts, made once a run, and the fixtures of other folders with this engine in place of llama.cpp.

These tests run in the engine's environment: `python3 -m bootstrap test --engines executorch`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server_process import PROJECT, ServerProcess
from tests.worker.client import WorkerProcess
from tests.worker.nano import MODEL

KINDS = ("solo", "dflash")
NAME = MODEL.stem
Artifact = Callable[[str], Path]


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The folder of a stand-in artifact with muse-nano's weights, of a kind. Both have the image tower, and the name by
    which tests of the other engine ask for the model."""
    folder = tmp_path_factory.mktemp("artifacts")
    with ExitStack() as logs:
        running = {
            kind: subprocess.Popen(
                [sys.executable, "-m", "tools.muse_nano.pte", str(folder / kind / NAME), "--vision"]
                + (["--draft"] if kind == "dflash" else []),
                cwd=PROJECT,
                stdout=subprocess.DEVNULL,
                stderr=logs.enter_context((folder / f"{kind}.log").open("wb")),
            )
            for kind in KINDS
        }
        for kind, process in running.items():
            assert process.wait() == 0, (folder / f"{kind}.log").read_text()[-3000:]
    return lambda kind: folder / kind / NAME


@pytest.fixture(scope="module", params=KINDS)
def nano(request: pytest.FixtureRequest, artifact: Artifact) -> Iterator[WorkerProcess]:
    """A worker with a stand-in of each kind, ready. Shared: use sessions of your own."""
    with WorkerProcess("--engine", "executorch", "--model", str(artifact(request.param)), "--threads", "1") as worker:
        worker.ready()
        yield worker


def _serving(folder: Path, home: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(["--engine", "executorch", "--model", str(folder)], home=home)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module", params=KINDS)
def any_nano_server(
    request: pytest.FixtureRequest, artifact: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with a stand-in of each kind, ready: they must answer alike."""
    yield from _serving(artifact(request.param), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def seeing_server(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model sees."""
    yield from _serving(artifact("dflash"), tmp_path_factory.mktemp("home"))
