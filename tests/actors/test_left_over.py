"""A worker that an earlier server left behind is ended; one whose server lives is nobody's business."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.supervisor.left_over import LeftOver

HANG_GUARD_S = 30


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process group of its own that waits to be killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0)
    yield process
    process.kill()
    process.communicate()


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def rewrite(path: Path, **server: object) -> None:
    record = json.loads(path.read_text())
    record["server"].update(server)
    path.write_text(json.dumps(record))


def test_a_worker_of_a_dead_server_is_ended(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    """Pid, start time and executable agree, and its server is gone."""
    LeftOver(tmp_path).note(worker.pid)
    rewrite(tmp_path / "worker.json", pid=dead_pid())
    assert LeftOver(tmp_path).end() == 1
    assert worker.wait(HANG_GUARD_S) == -9
    assert list(tmp_path.iterdir()) == []


def test_a_worker_of_a_living_server_is_left_alone(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    """Two servers may share a folder: the second neither ends the first one's worker nor takes its record."""
    LeftOver(tmp_path).note(worker.pid)
    second = LeftOver(tmp_path)
    assert second.end() == 0
    assert worker.poll() is None
    assert (tmp_path / "worker.json").exists()


def test_a_reused_pid_is_left_alone(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    """The same pid with another start time is another process."""
    LeftOver(tmp_path).note(worker.pid)
    rewrite(tmp_path / "worker.json", pid=dead_pid())
    record = json.loads((tmp_path / "worker.json").read_text())
    (tmp_path / "worker.json").write_text(json.dumps({**record, "started": "0"}))
    assert LeftOver(tmp_path).end() == 0
    assert worker.poll() is None


def test_a_second_server_writes_a_record_of_its_own(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    """The first record stays as it is while its server lives."""
    LeftOver(tmp_path).note(worker.pid)
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        other = LeftOver(tmp_path / "other")
        other.note(server.pid)  # the record of a living process serves as the identity of a living server
        identity = json.loads((tmp_path / "other" / "worker.json").read_text())
        del identity["server"]
        rewrite(tmp_path / "worker.json", **identity)
        mine = LeftOver(tmp_path)
        mine.note(worker.pid)
        assert (tmp_path / f"worker-{os.getpid()}.json").exists()
        assert json.loads((tmp_path / "worker.json").read_text())["server"]["pid"] == server.pid
        mine.forget()
        assert [path.name for path in tmp_path.glob("*.json")] == ["worker.json"]
    finally:
        server.communicate()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "server": {}}'])
def test_a_broken_record_is_removed(tmp_path: Path, text: str) -> None:
    """Rubbish ends nothing and does not stay."""
    (tmp_path / "worker.json").write_text(text)
    assert LeftOver(tmp_path).end() == 0
    assert list(tmp_path.iterdir()) == []
