"""The end of the server, asked for or not: no worker outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests import server_process
from tests.faults.catalog import WORDS
from tests.faults.processes import GONE_WITHIN_S, Watched
from tests.server_process import ServerProcess, children_of, read_until, worker_group_of

pytestmark = pytest.mark.thorough

Start = Callable[..., ServerProcess]
Phase = Literal["load", "idle", "prefill", "decode"]
PHASES: tuple[Phase, ...] = ("load", "idle", "prefill", "decode")
SCRIPT: dict[str, Any] = {
    "answers": [{"when": "long", "tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 2}, {"tokens": WORDS}],
    "prefill_us_per_token": 20000,
}


def script(phase: Phase) -> dict[str, Any]:
    return {**SCRIPT, "load_ms": 600_000} if phase == "load" else SCRIPT


@contextmanager
def reached(server: ServerProcess, phase: Phase) -> Iterator[Iterator[str] | None]:
    """Bring the worker into a phase; gives the rest of the stream's lines, if there is a stream."""
    if phase in ("load", "idle"):
        server.wait_state("loading" if phase == "load" else "ready")
        yield None
        return
    prompt = "Tell a long story. " + ("It was a dark night at sea. " * 100 if phase == "prefill" else "")
    with server.stream_chat(prompt) as answer:
        lines = answer.iter_lines()
        read_until(lines, '"phase": "prefill"' if phase == "prefill" else '"phase": "decode"')
        yield lines


@pytest.mark.parametrize(
    ("phase", "stopped"),
    [
        *(pytest.param(phase, False, id=f"{phase}-running") for phase in PHASES),
        pytest.param("load", True, id="load-stopped", marks=pytest.mark.slow),
        pytest.param("idle", True, id="idle-stopped"),
        pytest.param("prefill", True, id="prefill-stopped", marks=pytest.mark.slow),
        pytest.param("decode", True, id="decode-stopped"),
    ],
)
def test_the_worker_dies_with_its_server(scripted_server: Start, phase: Phase, stopped: bool) -> None:
    """SIGKILL of the server, with a worker that runs or is stopped by SIGSTOP: guard and worker are gone."""
    server = scripted_server(script(phase), ready=phase != "load")
    with reached(server, phase):
        guard, worker = worker_group_of(server.pid)
        if stopped:
            os.kill(worker, signal.SIGSTOP)
        watched = Watched([guard, worker])
        server.process.kill()
        assert watched.left_after(GONE_WITHIN_S) == []


@pytest.mark.model
def test_the_real_worker_dies_with_its_server(builtin_model: Path, tmp_path: Path) -> None:
    """The same with the real worker, which has its engine in a process of its own; each next start works."""
    arguments = ["--model", str(builtin_model)]
    cases: tuple[tuple[Phase, bool], ...] = (("prefill", False), ("decode", True))
    for phase, stopped in cases:
        server = ServerProcess(arguments, home=tmp_path)
        server.wait_ready()
        with reached(server, phase):
            pids = worker_group_of(server.pid)
            assert len(pids) == 3
            if stopped:
                for pid in pids[1:]:
                    os.kill(pid, signal.SIGSTOP)
            watched = Watched(pids)
            server.process.kill()
            assert watched.left_after(GONE_WITHIN_S) == []
        server.stop()
    again = ServerProcess(arguments, home=tmp_path)
    again.wait_ready()
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}
    assert again.post("/v1/chat/completions", body).status_code == 200
    assert again.stop() == 0


def test_a_process_that_outlives_its_server_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every test that stops a server, wherever the process is in the tree."""
    monkeypatch.setattr(server_process, "LEFT_AFTER_S", 0.05)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    server = ServerProcess(["--engine", "scripted", "--model", str(tmp_path / "script.json")], home=tmp_path / "home")
    name, _, value = server.mark.decode().rstrip("\0").partition("=")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, name: value}) as other:
        try:
            with pytest.raises(AssertionError, match=str(other.pid)):
                server.stop()
        finally:
            other.kill()


@pytest.mark.parametrize("phase", PHASES)
def test_shutdown_in_every_phase(scripted_server: Start, phase: Phase) -> None:
    """SIGTERM: status 0, a told end for whoever still reads, and no process left."""
    server = scripted_server(script(phase), ready=phase != "load")
    with reached(server, phase) as lines:
        watched = Watched(children_of(server.pid))
        assert server.stop() == 0
        if lines is not None:
            (error,) = [json.loads(line[6:])["error"] for line in lines if line.startswith('data: {"error"')]
            assert error["code"] == "stopping"
        assert watched.left_after(GONE_WITHIN_S) == []
    assert not (server.home / "run" / "worker.json").exists()
