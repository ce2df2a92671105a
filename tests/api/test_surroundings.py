"""`muse serve` in odd surroundings: streams closed or broken, signals ignored, no home folder, few descriptors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server_process import HANG_GUARD_S, PROJECT, worker_group_of

pytestmark = pytest.mark.thorough

SHELL = {
    "no stdout": 'exec "$@" >&-',
    "no streams": 'exec "$@" <&- >&- 2>&-',
    "full disk": 'exec "$@" >/dev/full 2>/dev/full',
    "broken pipe": '"$@" 2>&1 | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}',
    "hangup ignored": "trap '' HUP; exec \"$@\"",
    "few descriptors": 'ulimit -n 64; exec "$@"',
    "no place to write": 'MUSE_HOME=/proc/nowhere exec "$@"',
    "nothing in the environment": 'exec env -i "MUSE_HOME=$MUSE_HOME" "$@"',
}


class Odd:
    """A server started by a line of shell. pid: of the server itself."""

    def __init__(self, tmp_path: Path, line: str) -> None:
        script = tmp_path / "script.json"
        script.write_text(json.dumps({"answers": [{"tokens": ["All ", "well."]}]}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        arguments = ["--engine", "scripted", "--model", str(script), "--port", self.url.rpartition(":")[2]]
        self.log = tmp_path / "log"
        with self.log.open("wb") as log:
            self._shell = subprocess.Popen(
                ["bash", "-c", line, "bash", sys.executable, "-m", "muse", "serve", *arguments],
                cwd=PROJECT,
                env={**os.environ, "MUSE_HOME": str(tmp_path / "home")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self) -> None:
        end = time.monotonic() + HANG_GUARD_S
        while time.monotonic() < end:
            assert self._shell.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.url + "/ready").status_code == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    @property
    def pid(self) -> int:
        child = Path(f"/proc/{self._shell.pid}/task/{self._shell.pid}/children").read_text().split()
        command = Path(f"/proc/{self._shell.pid}/cmdline").read_bytes()
        return int(child[0]) if command.startswith(b"bash\0") else self._shell.pid

    def ask(self) -> str:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        answer = httpx.post(self.url + "/v1/chat/completions", json=body, timeout=HANG_GUARD_S)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]["content"]

    def stop(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self._shell.wait(HANG_GUARD_S)

    def close(self) -> None:
        if self._shell.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                os.kill(self.pid, signal.SIGKILL)
            self._shell.wait()


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Any]:
    servers: list[Odd] = []

    def start(line: str) -> Odd:
        servers.append(Odd(tmp_path, line))
        servers[-1].wait()
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def check_end(server: Odd) -> None:
    """An answer, exit status 0 on SIGTERM, and nothing printed that was not meant to be."""
    assert server.ask() == "All well."
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
    assert "Exception" not in server.log.read_text()


# Each start costs a second of work; the ordinary run has one of each kind.
@pytest.mark.parametrize("line", [pytest.param(line, id=name, marks=pytest.mark.slow) for name, line in SHELL.items()])
def test_it_serves_and_ends_well(odd: Any, line: str) -> None:
    """Each of them by itself."""
    check_end(odd(line))


def test_a_reader_that_leaves(odd: Any) -> None:
    """`muse serve | head`: what is left to print is lost, the exit status stays the server's own."""
    check_end(odd(SHELL["broken pipe"]))


def test_standard_descriptors_are_nobody_elses(odd: Any) -> None:
    """With all three closed no socket, file or pipe may get their numbers: what is printed would go there."""
    server = odd(SHELL["no streams"])
    for number in (0, 1, 2):
        assert str(Path(f"/proc/{server.pid}/fd/{number}").readlink()) == os.devnull
    check_end(server)


def test_an_ignored_signal_stays_ignored(odd: Any) -> None:
    """As with nohup: the terminal goes, the server stays; also without an environment or a place to write."""
    server = odd("trap '' HUP; exec env -i MUSE_HOME=/proc/nowhere \"$@\"")
    os.kill(server.pid, signal.SIGHUP)
    check_end(server)
    assert "SIGHUP" not in server.log.read_text()


def test_no_request_needs_another_import() -> None:
    """A codec is imported when it is first used, which fails where no descriptor is left. Host headers need one."""
    program = "import actors.front.app, sys; sys.exit('encodings.idna' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=False).returncode == 0


def test_few_descriptors_serve_a_page(odd: Any) -> None:
    """64 of them: a page's connections at once; more than there are wait or are refused, and the worker can be replaced
    meanwhile. stdout is closed besides."""
    server = odd('ulimit -n 64; exec "$@" >&-')
    port = int(server.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert server.ask() == "All well."
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        os.killpg(worker_group_of(server.pid)[0], signal.SIGKILL)
    end = time.monotonic() + HANG_GUARD_S
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            state = httpx.get(server.url + "/api/runtime").json()
            if state.get("worker", {}).get("state") == "ready" and state["worker"]["epoch"] == 2:
                break
        time.sleep(0.02)
    else:
        pytest.fail("the worker was not replaced")
    check_end(server)
