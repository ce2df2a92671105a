"""Workers for the tests of this folder. The one with the built-in model is loaded once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muse.worker.engines.llamacpp.client import Client
from tests.worker.client import WorkerProcess, Workers
from tests.worker.llama import socket_of


@pytest.fixture(scope="session")
def llama(builtin_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker with the built-in model, ready. Shared: use sessions of your own, leave nothing running."""
    home = tmp_path_factory.mktemp("home")
    with WorkerProcess(
        "--engine", "llamacpp", "--model", str(builtin_model), "--context", "1024", env={"MUSE_HOME": str(home)}
    ) as worker:
        worker.ready()
        yield worker


@pytest.fixture
def inner(llama: WorkerProcess) -> Client:
    """A client of the native server itself, to compare with."""
    return Client(str(socket_of(llama)))


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers with the scripted engine: `scripted(script)`. Their groups must be gone at the end."""
    workers = Workers()
    paths = (tmp_path / f"script{number}.json" for number in itertools.count())

    def start(script: dict[str, Any], *, ready: bool = True) -> WorkerProcess:
        path = next(paths)
        path.write_text(json.dumps(script))
        return workers.start("--engine", "scripted", "--script", str(path), ready=ready)

    yield start
    workers.stop()
