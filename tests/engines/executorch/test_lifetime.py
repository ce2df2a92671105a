"""The ends of a worker and of its server, asked for or not: no process is left, whatever was under way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from muse.protocol import Loading, Progress, Tokens
from tests.engines.executorch.artifacts import NAME
from tests.engines.executorch.conftest import Artifact
from tests.faults.processes import GONE_WITHIN_S, Watched
from tests.server_process import ONE_THREAD, ServerProcess, children_of, read_until, worker_group_of
from tests.worker.client import WorkerProcess, group_members, wait_for
from tests.worker.nano import as_ids, prompt_ids, turns


@pytest.fixture
def own(artifact: Artifact) -> Iterator[WorkerProcess]:
    """A worker of one's own, still loading, to be hurt."""
    arguments = ("--engine", "executorch", "--model", str(artifact("dflash")), "--batch", "16", *ONE_THREAD)
    with WorkerProcess(*arguments) as worker:
        yield worker
    wait_for(lambda: not group_members(worker.process.pid))


@pytest.mark.parametrize("phase", ["load", "prefill", "decode"])
def test_end_of_input_ends_everything(own: WorkerProcess, phase: str) -> None:
    """Also while the library loads or computes: status 0."""
    if phase == "load":
        own.next(lambda event: isinstance(event, Loading) and event.stage == "loading the program")
    else:
        own.ready()
        turn = turns("needle-far-1" if phase == "prefill" else "count")[0]
        own.wait(Progress if phase == "prefill" else Tokens, own.start(as_ids(prompt_ids(turn))))
    own.end_of_input()
    assert own.wait_exit() == 0


def test_an_answer_fills_the_context_and_ends(artifact: Artifact) -> None:
    """It has as many tokens as accepted promised room for."""
    arguments = ("--engine", "executorch", "--model", str(artifact("dflash")), "--context", "256", *ONE_THREAD)
    with WorkerProcess(*arguments) as worker:
        assert worker.ready().context_length == 256
        prompt = (*prompt_ids(turns("count")[0]), *turns("count")[0]["answer"]["ids"])[:247]
        answer = worker.ask(as_ids(prompt))
        assert answer.accepted
        assert answer.accepted.room == answer.done.completion_tokens == 9
        assert answer.done.finish_reason == "length"


def test_the_worker_dies_with_its_server(artifact: Artifact, tmp_path: Path) -> None:
    """The server is killed: what ran or was stopped is gone. The next start works, and a SIGTERM is an end in order,
    told to whoever still reads."""
    arguments = ["--engine", "executorch", "--model", str(artifact("solo"))]
    body = {"messages": turns("count")[0]["messages"], "max_tokens": 4000}
    server = ServerProcess(arguments, home=tmp_path)
    server.wait_ready()
    with server.stream_chat(**body) as answer:
        read_until(answer.iter_lines(), '"content":"1')
        pids = worker_group_of(server.pid)
        assert len(pids) == 2
        os.kill(pids[-1], signal.SIGSTOP)
        watched = Watched(pids)
        server.process.kill()
        assert watched.left_after(GONE_WITHIN_S) == []
    server.stop()
    again = ServerProcess(arguments, home=tmp_path)
    again.wait_ready()
    (question,) = turns("needle-far-1")[0]["messages"]
    with again.stream_chat(messages=[{**question, "content": question["content"] * 5}]) as answer:
        lines = answer.iter_lines()
        read_until(lines, '"phase": "prefill"')
        watched = Watched(children_of(again.pid))
        assert again.stop() == 0
        errors = [json.loads(line[6:])["error"]["code"] for line in lines if line.startswith('data: {"error"')]
        assert errors == ["stopping"]
        assert watched.left_after(GONE_WITHIN_S) == []


def test_what_cannot_be_loaded_is_told_everywhere_and_tried_again_when_asked(
    artifact: Artifact, tmp_path: Path
) -> None:
    """Once, for another try would change nothing. When the artifact is there, it is loaded."""
    folder = tmp_path / NAME
    server = ServerProcess(["--engine", "executorch", "--model", str(folder)], home=tmp_path / "home")
    try:
        worker = server.wait_state("failed")["worker"]
        assert str(folder) in worker["reason"]
        assert worker["epoch"] == 1
        refused = server.post("/v1/chat/completions", {"messages": turns("fruit")[0]["messages"]})
        assert refused.status_code == 503
        assert str(folder) in refused.json()["error"]["details"]
        folder.symlink_to(artifact("solo"))
        assert server.post("/api/worker/restart", {}).json() == {"restarting": True}
        assert server.wait_ready()["model"]["id"] == NAME
    finally:
        assert server.stop() == 0
