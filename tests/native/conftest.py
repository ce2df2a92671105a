"""Workers over the double; one of each level is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.native.doubles import LEVELS, worker_arguments
from tests.server_process import ServerProcess
from tests.worker.client import WorkerProcess, Workers

# Cancelling is tested at every level. What all levels do alike is, too, by `bootstrap test --full`.
ONE_OF_LEVELS = [level if level == "cancel_op" else pytest.param(level, marks=pytest.mark.slow) for level in LEVELS]


@pytest.fixture(scope="module", params=ONE_OF_LEVELS)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A ready worker of each level. Shared: use sessions of your own, leave nothing running."""
    arguments = worker_arguments(tmp_path_factory.mktemp("native"), level=request.param)
    with WorkerProcess(*arguments) as worker:
        worker.ready()
        yield worker


@pytest.fixture
def start_native(tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers: `start_native(*flags, level=..., ...)`. Their groups must be gone at the end."""
    workers = Workers()

    def start(*flags: str, ready: bool = True, **manner: Any) -> WorkerProcess:
        return workers.start(*worker_arguments(tmp_path, *flags, **manner), ready=ready)

    yield start
    workers.stop()


@contextmanager
def serving(folder: Path, *flags: str, **manner: Any) -> Iterator[ServerProcess]:
    """A server over a double, ready; it must end in order."""
    arguments = (*worker_arguments(folder, *flags, **manner), "--model-id", "muse-nano-F16")
    server = ServerProcess(arguments, home=folder / "home")
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


@pytest.fixture(scope="module", params=ONE_OF_LEVELS)
def any_nano_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server over a double of each level: they must answer as llama.cpp does with the same model."""
    with serving(tmp_path_factory.mktemp("any"), level=request.param) as server:
        yield server


@pytest.fixture(scope="module")
def nano_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One that cannot be told to end anything, and sees nothing."""
    with serving(tmp_path_factory.mktemp("nano"), level="unpatched") as server:
        yield server


@pytest.fixture(scope="module")
def seeing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A patched one, whose model sees."""
    with serving(tmp_path_factory.mktemp("seeing"), level="cancel_op") as server:
        yield server
