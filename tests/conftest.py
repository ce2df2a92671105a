"""Fixtures that all folders share: the built-in model, real servers, and scripts for the scripted engine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from muse.settings import BUILT_IN_MODEL, muse_home
from tests.server_process import ServerProcess
from tests.worker.nano import DRAFT, MMPROJ
from tests.worker.nano import MODEL as NANO

# A machine may be busy: how long an example takes says nothing.
settings.register_profile("muse", deadline=None)
settings.load_profile("muse")


@pytest.fixture(scope="session", autouse=True)
def heed_signals() -> None:
    """Tests that were started in the background inherit ignored signals, and so would what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def builtin_model() -> Path:
    """The built-in model's file. Set-up puts it into the model store; a test run without it is broken."""
    named = os.environ.get("MUSE_TEST_MODEL")
    path = Path(named) if named else muse_home() / "models" / BUILT_IN_MODEL
    if not path.is_file():
        pytest.fail(f"the built-in model is not at {path}: run `python3 -m bootstrap setup`")
    return path


@pytest.fixture(scope="session")
def muse_server(builtin_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A real server with the built-in model, ready. Shared: leave it as you found it."""
    server = ServerProcess(["--model", str(builtin_model)], home=tmp_path_factory.mktemp("muse-home"))
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


@contextmanager
def _serving(arguments: Sequence[str], home: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(arguments, home=home)
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


@pytest.fixture(scope="module")
def nano_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with muse-nano, ready."""
    with _serving(["--model", str(NANO)], tmp_path_factory.mktemp("nano-home")) as server:
        yield server


@pytest.fixture(scope="module")
def seeing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with muse-nano and its projector, ready: its model sees. Use sessions of your own."""
    with _serving(["--model", str(NANO), "--mmproj", str(MMPROJ)], tmp_path_factory.mktemp("seeing")) as server:
        yield server


@pytest.fixture(scope="module", params=[(), ("--draft", str(DRAFT), "--keep-draft")], ids=["alone", "with draft"])
def any_nano_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with muse-nano, ready, and one whose draft guesses ahead: they must answer alike."""
    with _serving(["--model", str(NANO), *request.param], tmp_path_factory.mktemp("nano-home")) as server:
        yield server


@pytest.fixture
def scripted_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Starts real servers over the scripted engine: `scripted_server(script, *serve_arguments)`."""
    stack = ExitStack()
    numbers = count()

    def start(script: dict[str, Any], *arguments: str, ready: bool = True) -> ServerProcess:
        number = next(numbers)
        path = tmp_path / f"script-{number}.json"
        path.write_text(json.dumps(script))
        server = ServerProcess(
            ["--engine", "scripted", "--model", str(path), *arguments], home=tmp_path / f"home-{number}"
        )
        stack.callback(server.stop)
        if ready:
            server.wait_ready()
        return server

    with stack:
        yield start
