"""One real set-up of the project in miniature for the whole run; tests break copies of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bootstrap.children import Runner
from bootstrap.console import Console
from bootstrap.setup_lock import SetupLock
from bootstrap.stop import StopRequest
from tests.bootstrap import mini_project
from tests.bootstrap.mini_project import MiniProject
from tests.bootstrap.parts import StallingIndex


@pytest.fixture(scope="session")
def finished_original(tmp_path_factory: pytest.TempPathFactory) -> MiniProject:
    """A project that was set up once, for real; never to be changed."""
    project = mini_project.make(tmp_path_factory.mktemp("original"))
    code, output = project.run("setup")
    assert code == 0, output
    return project


@pytest.fixture
def bare(tmp_path: Path) -> MiniProject:
    """A project in which nothing is set up."""
    return mini_project.make(tmp_path)


@pytest.fixture
def finished(finished_original: MiniProject, tmp_path: Path) -> MiniProject:
    """A project in which everything that `run` needs is set up."""
    return mini_project.copy(finished_original, tmp_path)


@pytest.fixture
def index(finished: MiniProject) -> Iterator[StallingIndex]:
    """A package index that serves the wheels of `finished`."""
    server = StallingIndex(finished.wheels)
    yield server
    server.close()


@pytest.fixture
def runner(finished: MiniProject) -> Iterator[Runner]:
    """What stages get, for `finished`, with the lock held by this process."""
    console = Console()
    finished.layout.prepare()
    finished.layout.scratch.mkdir(exist_ok=True)
    with (
        StopRequest() as stop,
        SetupLock(finished.layout.setup_lock, purpose="test", console=console, stop=stop) as lock,
    ):
        yield Runner(layout=finished.layout, console=console, stop=stop, lock=lock)
