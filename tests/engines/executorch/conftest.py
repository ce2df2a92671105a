"""The fixtures of other folders with this engine in place of llama.cpp, so that their tests run here too.

These tests run in the engine's environment: `python3 -m bootstrap test --engines executorch`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.executorch.artifacts import KINDS, NAME, common_folder, make
from tests.server_process import ONE_THREAD, ServerProcess
from tests.worker.client import WorkerProcess
from tests.worker.nano import DATE, turns

Artifact = Callable[[str], Path]


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The folder of a stand-in artifact with muse-nano's weights, of a kind. `MUSE_TEST_ARTIFACTS` names a folder that
    has them already."""
    named = os.environ.get("MUSE_TEST_ARTIFACTS")
    folder = Path(named) if named else common_folder(tmp_path_factory)
    if not named:
        make(folder)
    return lambda kind: folder / kind / NAME


@contextmanager
def worker(folder: Path, *more: str) -> Iterator[WorkerProcess]:
    """A worker with an artifact, ready."""
    with WorkerProcess("--engine", "executorch", "--model", str(folder), *ONE_THREAD, *more) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module", params=KINDS)
def nano(request: pytest.FixtureRequest, artifact: Artifact) -> Iterator[WorkerProcess]:
    """A worker with a stand-in of each kind, ready. Shared: use sessions of your own."""
    with worker(artifact(request.param)) as process:
        yield process


@pytest.fixture(scope="module")
def alone(artifact: Artifact) -> Iterator[WorkerProcess]:
    """A worker without a draft."""
    with worker(artifact("solo")) as process:
        yield process


@pytest.fixture(scope="module")
def blind(alone: WorkerProcess) -> WorkerProcess:
    """A worker that sees nothing."""
    return alone


@pytest.fixture(scope="module")
def drafted(artifact: Artifact) -> Iterator[WorkerProcess]:
    """A worker with a draft."""
    with worker(artifact("dflash")) as process:
        yield process


@pytest.fixture(scope="module")
def seeing(drafted: WorkerProcess) -> WorkerProcess:
    """A worker that sees."""
    return drafted


@pytest.fixture(scope="module")
def in_steps(artifact: Artifact) -> Iterator[WorkerProcess]:
    """One that evaluates 64 tokens at a time, and sees."""
    with worker(artifact("dflash"), "--batch", "64") as process:
        yield process


@pytest.fixture(scope="module")
def narrow(artifact: Artifact) -> Iterator[WorkerProcess]:
    """One with a context of 1,024 tokens, that sees."""
    with worker(artifact("dflash"), "--context", "1024") as process:
        yield process


@contextmanager
def serving(folder: Path, home: Path) -> Iterator[ServerProcess]:
    """A server with an artifact, ready; it must end in order."""
    server = ServerProcess(["--engine", "executorch", "--model", str(folder)], home=home)
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


@pytest.fixture(scope="module", params=["dflash", pytest.param("solo", marks=pytest.mark.slow)])
def any_nano_server(
    request: pytest.FixtureRequest, artifact: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with a stand-in of each kind, ready. What workers of both answer is tested without a server."""
    with serving(artifact(request.param), tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def nano_server(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model sees nothing."""
    with serving(artifact("solo"), tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def seeing_server(artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model sees."""
    with serving(artifact("dflash"), tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def question() -> dict[str, Any]:
    """What the official client asks: something with an answer that begins at once."""
    options = {"chat_template_kwargs": {"current_date": DATE}}
    return {"messages": turns("count")[0]["messages"], "extra_body": options}


@pytest.fixture(scope="module")
def muse_server(seeing_server: ServerProcess) -> ServerProcess:
    """In place of the server with the built-in model."""
    return seeing_server
