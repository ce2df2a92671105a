"""`muse serve` as a person starts and stops it: port, record, signals, broken models, nothing left behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server_process import (
    HANG_GUARD_S,
    PROJECT,
    ServerProcess,
    children_of,
    is_running,
    read_until,
    worker_group_of,
)

Start = Callable[..., ServerProcess]
ENDLESS: dict[str, Any] = {"answers": [{"tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 5}]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_in_order(scripted_server: Start, number: int) -> None:
    """In the middle of an answer: the stream ends with an error event, exit 0, no process, no record."""
    server = scripted_server(ENDLESS)
    with server.stream_chat() as answer:
        lines = answer.iter_lines()
        read_until(lines, "word")
        children = children_of(server.pid)
        assert len(worker_group_of(server.pid)) == 2  # the worker and its guard
        assert len(children) > 2  # and at least one process for templates
        record = json.loads((server.home / "server.json").read_text())
        assert (record["pid"], record["url"]) == (server.pid, server.url)
        server.process.send_signal(number)
        rest = [line for line in lines if line]
    assert '"code":"stopping"' in rest[-2]
    assert rest[-1] == "data: [DONE]"
    assert server.stop() == 0
    assert [pid for pid in children if is_running(pid)] == []
    assert not (server.home / "server.json").exists()


LATE_SIGNALS = """
import os, signal, sys, trio
from muse.serve_command import _stop_signals
async def main():
    with _stop_signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        async for number in signals:
            assert number == signal.SIGTERM
            break
        for late in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(os.getpid(), late)
trio.run(main)
for late in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    os.kill(os.getpid(), late)
sys.exit(3)
"""


def test_a_signal_after_the_end_changes_nothing() -> None:
    """A second Ctrl-C meets a server that is just leaving: the exit status is its own."""
    assert subprocess.run([sys.executable, "-c", LATE_SIGNALS], cwd=PROJECT, check=False).returncode == 3


def test_a_killed_server_leaves_no_worker(scripted_server: Start) -> None:
    """SIGKILL of the main process: the guard ends the worker, and the next start works."""
    server = scripted_server(ENDLESS)
    with server.stream_chat() as answer:
        read_until(answer.iter_lines(), "word")
        handles = [os.pidfd_open(pid) for pid in children_of(server.pid)]
        server.process.kill()
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(HANG_GUARD_S * 1000), "a child outlived the server"
        os.close(handle)


def test_health_answers_while_the_model_loads(scripted_server: Start) -> None:
    """The page and the state are there at once; /ready says 503; a stream shows signs of life."""
    server = scripted_server({"load_ms": 2500, "answers": [{"tokens": ["ok"]}]}, ready=False)
    assert server.get("/health").json()["status"] == "ok"
    not_ready = server.get("/ready")
    assert (not_ready.status_code, not_ready.headers["retry-after"]) == (503, "5")
    with server.stream_chat() as answer:
        lines = answer.iter_lines()
        assert read_until(lines, '"phase": "loading"')[0].startswith(": muse ")
        read_until(lines, '"content":"ok"')
        read_until(lines, "[DONE]")


def test_a_model_that_is_not_there_is_told_everywhere(tmp_path: Path) -> None:
    """The server still serves; state failed names the file; a request gets 503, and the same words as details."""
    missing = tmp_path / "no such model.gguf"
    server = ServerProcess(["--model", str(missing)], home=tmp_path / "home")
    try:
        state = server.wait_state("failed")
        assert str(missing) in state["worker"]["reason"]
        refused = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        assert refused.status_code == 503
        assert str(missing) in refused.json()["error"]["details"]
        assert "Errno" not in refused.text
        assert server.get("/health").json()["status"] == "ok"
    finally:
        assert server.stop() == 0


def test_a_taken_port_is_named_with_its_owner(scripted_server: Start, tmp_path: Path) -> None:
    """Another server on the port: exit 4, its process is named, and a free port is offered."""
    server = scripted_server({})
    port = server.url.rpartition(":")[2]
    second = run_serve("--port", port, home=tmp_path / "other")
    assert second.returncode == 4
    assert port in second.stderr
    assert str(server.pid) in second.stderr
    assert "--port" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_second_start_of_the_same_server_names_the_first(scripted_server: Start) -> None:
    """The same folder and port: it is running already, and here is its address."""
    server = scripted_server({})
    second = run_serve("--port", server.url.rpartition(":")[2], home=server.home)
    assert second.returncode == 4
    assert server.url in second.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "70000"),
        ("--port", "x"),
        ("--context", "0"),
        ("--threads", "0"),
        ("--kv-memory", "much"),
        ("--engine", "magic"),
        ("--nonsense",),
        ("--engine", "scripted", "--mmproj", "pictures.gguf"),
        ("--engine", "executorch"),
        ("--engine", "executorch", "--model", "folder", "--draft", "draft.gguf"),
        ("--engine", "executorch", "--model", "folder", "--kv-memory", "100"),
        ("--picture-positions", "columns"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Exit 2 with usage, no traceback."""
    outcome = run_serve(*arguments, home=tmp_path)
    assert outcome.returncode == 2
    assert "usage:" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_host_beyond_this_machine_is_refused(tmp_path: Path) -> None:
    """Private by default: no listening on other addresses without a key."""
    outcome = run_serve("--host", "0.0.0.0", "--port", "0", home=tmp_path)
    assert outcome.returncode == 4
    assert "Traceback" not in outcome.stderr


def run_serve(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a `muse serve` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "muse", "serve", "--no-open", *arguments],
        cwd=PROJECT,
        env={**os.environ, "MUSE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )


def test_another_try_after_a_failure(tmp_path: Path, scripted_server: Start) -> None:
    """POST /api/worker/restart: what was missing is there now, and the model loads."""
    server = scripted_server({"answers": "broken"}, ready=False)
    server.wait_state("failed")
    (tmp_path / "script-0.json").write_text("{}")
    assert server.post("/api/worker/restart", {}).json() == {"restarting": True}
    server.wait_ready()
    children = worker_group_of(server.pid)
    assert server.post("/api/worker/restart", {}).json() == {"restarting": True}
    server.wait_state("restarting", "starting", "loading")
    server.wait_ready()
    assert not set(children) & set(worker_group_of(server.pid))


def test_two_servers_of_one_folder_do_not_harm_each_other(tmp_path: Path) -> None:
    """Another port, the same folder: the first one's worker and record stay; each cleans up after itself."""
    script = tmp_path / "script.json"
    script.write_text("{}")
    arguments = ["--engine", "scripted", "--model", str(script)]
    first = ServerProcess(arguments, home=tmp_path / "home")
    try:
        first.wait_ready()
        second = ServerProcess(arguments, home=tmp_path / "home")
        second.wait_ready()
        assert second.stop() == 0
        assert first.get("/health").json()["worker"] == {
            "state": "ready", "reason": None, "exhausted": False, "stage": None, "fraction": None, "epoch": 1
        }  # fmt: skip
        assert json.loads((first.home / "server.json").read_text())["pid"] == first.pid
        assert [path.name for path in first.home.glob("server*.json")] == ["server.json"]
    finally:
        assert first.stop() == 0


def test_a_wrong_model_is_refused_also_while_loading(scripted_server: Start) -> None:
    """Whoever asks for another model gets 404, not an answer of this one."""
    server = scripted_server({"load_ms": 700}, ready=False)
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "hi"}]}
    early = server.post("/v1/chat/completions", body)
    assert (early.status_code, early.json()["error"]["code"]) == (404, "model_not_found")
    assert server.post("/v1/chat/completions", body).status_code == 404


def test_a_context_beyond_the_model_is_said(builtin_model: Path, tmp_path: Path) -> None:
    """Asked for more than the model was trained for: it works with what there is, and the log says so."""
    server = ServerProcess(["--model", str(builtin_model), "--context", "1000000"], home=tmp_path / "home")
    try:
        assert server.wait_ready()["model"]["context_length"] < 1_000_000
        assert "context-limited wanted=1000000" in server.stderr()
    finally:
        assert server.stop() == 0
