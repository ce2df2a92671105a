"""The real worker with the built-in model, hurt from outside in every phase; one server survives it all."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import httpx
import pytest

from tests.faults.server import Seen, read_stream
from tests.server_process import HANG_GUARD_S, ServerProcess, worker_group_of

pytestmark = [pytest.mark.model, pytest.mark.thorough]

Phase = Literal["load", "idle", "prefill", "decode", "cancel"]
Whom = Literal["worker", "engine", "guard", "group"]
LONG_PROMPT: Final = "Tell a story. " + "It was a dark night at sea. " * 40
QUESTION: Final = "Name three colours."
TOKENS: Final = 64
TO_LAST: Final = 4000


class RealServer:
    """A server with the built-in model. guard, worker, engine: the three processes of the running worker."""

    def __init__(self, model: Path, home: Path) -> None:
        self.process = ServerProcess(["--model", str(model)], home=home)
        self.process.wait_ready()
        self.client = httpx.Client(base_url=self.process.url, timeout=HANG_GUARD_S)
        self.answer = self.ask()

    def pid(self, whom: Whom) -> int:
        """Process id; of the group: negative, as `kill` takes it."""
        guard, *below = worker_group_of(self.process.pid)
        return {"guard": guard, "group": -guard, "worker": below[0], "engine": below[-1]}[whom]

    def epoch(self) -> int:
        """Number of worker processes so far."""
        return self.client.get("/api/runtime").json()["worker"]["epoch"]

    def wait_epoch(self, epoch: int, *states: str) -> None:
        """Wait until this worker is in one of the states."""
        self.process.wait_until(lambda state: state["worker"]["epoch"] >= epoch and state["worker"]["state"] in states)

    def ask(self) -> str:
        """One short answer at temperature 0."""
        body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": TOKENS, "temperature": 0}
        answer = self.client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["muse_metrics"]["resumed"] == 0
        return answer.json()["choices"][0]["message"]["content"]

    def hurt_in_an_answer(self, phase: Phase, whom: Whom, number: signal.Signals) -> Seen:
        """Ask, wait for the phase, hurt; in phase cancel, cancel at the same time. Returns the whole answer."""
        content = LONG_PROMPT if phase == "prefill" else "Tell me a very long story about the sea."
        body: dict[str, Any] = {"messages": [{"role": "user", "content": content}], "stream": True, "temperature": 0}
        # Without a session nothing is reused, so that each prefill is a whole one.
        body |= {"session_id": "cancel", "max_tokens": TO_LAST} if phase == "cancel" else {"max_tokens": TOKENS}
        target = self.pid(whom)
        marker = '"phase": "prefill"' if phase == "prefill" else '"phase": "decode"'
        with self.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            before: list[str] = []
            for line in lines:
                before.append(line)
                if marker in line:
                    break
            if phase == "cancel":
                assert self.client.post("/api/cancel", json={"session_id": "cancel"}).json()["cancelled"]
            os.kill(target, number)
            return read_stream(lines, before)


@pytest.fixture(scope="module")
def real_server(builtin_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One server for all faults of this file; it ends well."""
    server = RealServer(builtin_model, tmp_path_factory.mktemp("real"))
    try:
        yield server
    finally:
        server.client.close()
        status = server.process.stop()
    assert status == 0, server.process.stderr()


HURTS: Final[tuple[tuple[Phase, Whom, signal.Signals], ...]] = (
    ("load", "engine", signal.SIGSEGV),
    ("idle", "engine", signal.SIGKILL),
    ("prefill", "engine", signal.SIGSEGV),
    ("decode", "worker", signal.SIGSEGV),
    ("decode", "guard", signal.SIGKILL),
    ("cancel", "engine", signal.SIGSEGV),
)
MORE_HURTS: Final[tuple[tuple[Phase, Whom, signal.Signals], ...]] = (
    ("load", "worker", signal.SIGKILL),
    ("idle", "worker", signal.SIGSEGV),
    ("prefill", "worker", signal.SIGKILL),
    ("decode", "engine", signal.SIGKILL),
    ("decode", "group", signal.SIGKILL),
    ("cancel", "worker", signal.SIGKILL),
)
"""The same phases with another victim: test_recital.py kills all of them in decode, the catalog a scripted worker
anywhere."""


def _name(hurt: tuple[Phase, Whom, signal.Signals]) -> str:
    return f"{hurt[0]}-{hurt[1]}-{hurt[2].name}"


@pytest.mark.parametrize(
    ("phase", "whom", "number"),
    [
        *(pytest.param(*hurt, id=_name(hurt)) for hurt in HURTS),
        *(pytest.param(*hurt, id=_name(hurt), marks=pytest.mark.slow) for hurt in MORE_HURTS),
    ],
)
def test_the_real_worker_is_hurt(real_server: RealServer, phase: Phase, whom: Whom, number: signal.Signals) -> None:
    """What the table says, with the real thing; afterwards one worker, no other process, the same answer."""
    real_server.process.wait_idle()
    epoch = real_server.epoch()
    expected = epoch + 1
    if phase == "load":
        real_server.client.post("/api/worker/restart", json={})
        real_server.wait_epoch(epoch + 1, "loading")
        expected += 1
    if phase in ("load", "idle"):
        os.kill(real_server.pid(whom), number)
    else:
        seen = real_server.hurt_in_an_answer(phase, whom, number)
        assert seen.error is None
        assert seen.metrics is not None
        assert seen.done_markers == 1
        if phase == "cancel":
            assert seen.metrics["cancelled"] is True
        else:
            assert seen.metrics["completion_tokens"] == TOKENS
            # Without its guard a worker still gets a second to say what it was saying; a short answer ends in it.
            assert seen.metrics["resumed"] == 1 or (whom == "guard" and seen.metrics["resumed"] == 0)
            assert seen.text
    if phase == "cancel":  # a cancel that was quicker than the signal leaves an idle worker to die
        real_server.wait_epoch(epoch, "ready", "busy")
    else:
        real_server.wait_epoch(expected, "ready", "busy")
    assert real_server.ask() == real_server.answer
    real_server.process.wait_idle()
    assert len(worker_group_of(real_server.process.pid)) == 3


def test_a_kill_in_the_load_is_no_proof_against_the_model(real_server: RealServer) -> None:
    """Whoever or whatever killed the engine: it is tried again, and what may have been the cause is logged."""
    real_server.process.wait_idle()
    epoch = real_server.epoch()
    real_server.client.post("/api/worker/restart", json={})
    real_server.process.wait_until(
        lambda state: state["worker"]["epoch"] > epoch and state["worker"]["stage"] == "loading the model"
    )
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
    ours = worker_group_of(real_server.process.pid)
    engines = [int(line.split()[0]) for line in listing.stdout.splitlines() if "llamacpp.serve" in line]
    (engine,) = [pid for pid in engines if pid in ours]
    os.kill(engine, signal.SIGKILL)
    real_server.wait_epoch(epoch + 2, "ready", "busy")
    assert real_server.ask() == real_server.answer
    log = real_server.process.stderr()
    assert "cannot load this model: the engine's process died by SIGKILL" in log
    assert "Somebody killed it, or the memory did not suffice" in log
