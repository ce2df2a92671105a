"""WorkerSupervisor over a real worker process: what its clients hear, whatever the process does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.supervisor.messages import (
    CancelGeneration,
    CountTokens,
    RequestEvent,
    RestartWorker,
    StartGeneration,
)
from muse.errors import MuseError, Unavailable
from muse.protocol import Done, Error, Generate, Sampling, TextSegment, Tokens
from tests.actors.conftest import Core

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
ENDLESS = {"answers": [{"tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 1}]}


class Listener:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[RequestEvent] = []
        self.fault: MuseError | None = None
        self.over = trio.Event()
        self.first_token = trio.Event()

    def on_event(self, event: RequestEvent) -> None:
        self.events.append(event)
        if isinstance(event, Tokens):
            self.first_token.set()
        if isinstance(event, (Done, Error)):
            self.over.set()

    def on_lost(self, fault: MuseError) -> None:
        self.fault = fault
        self.over.set()

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Tokens))


def generate(request_id: str = "g1", text: str = "hi") -> Generate:
    return Generate(
        request_id=request_id,
        session_id=None,
        prompt_segments=(TextSegment(text=text, special=False),),
        max_new_tokens=None,
        sampling=Sampling(),
    )


async def start(core: Core, command: Generate) -> Listener:
    listener = Listener()
    await core.supervisor.tell(StartGeneration(command=command, sink=listener))
    return listener


async def test_a_generation_is_delivered_in_order_and_ends_once(core: CoreFactory) -> None:
    """Accepted first, the scripted text complete, Done last; the board shows busy, then ready."""
    async with core({"answers": [{"tokens": ["Hello", " there"]}]}) as running:
        await running.wait_worker("ready")
        listener = await start(running, generate())
        await listener.over.wait()
        assert listener.text == "Hello there"
        assert [type(event).__name__ for event in (listener.events[0], listener.events[-1])] == ["Accepted", "Done"]
        await running.wait_worker("ready")


async def test_cancel_ends_a_generation_and_leaves_the_worker_ready(core: CoreFactory) -> None:
    """The target answers done/cancelled itself; a cancel of an unknown id does nothing."""
    async with core(ENDLESS) as running:
        await running.wait_worker("ready")
        listener = await start(running, generate())
        await listener.first_token.wait()
        assert running.board.value.worker.state == "busy"
        await running.supervisor.tell(CancelGeneration(request_id="nobody"))
        await running.supervisor.tell(CancelGeneration(request_id="g1"))
        await listener.over.wait()
        done = listener.events[-1]
        assert isinstance(done, Done)
        assert done.finish_reason == "cancelled"
        await running.wait_worker("ready")
        assert running.board.value.worker.epoch == 1


async def test_without_a_worker_a_request_is_refused_at_once(core: CoreFactory) -> None:
    """Nobody waits for a worker inside the supervisor: sinks and questions hear 503."""
    async with core({"load_ms": 20000}) as running:
        await running.wait_worker("loading")
        listener = await start(running, generate())
        await listener.over.wait()
        assert isinstance(listener.fault, Unavailable)
        with pytest.raises(Unavailable) as caught:
            await running.supervisor.ask(CountTokens(segments=()))
        assert caught.value.status == 503


async def test_a_killed_worker_is_replaced_and_its_requests_hear_of_it(core: CoreFactory) -> None:
    """SIGKILL in decode: on_lost names the signal, the next worker answers, the epoch grows."""
    async with core(ENDLESS) as running:
        await running.wait_worker("ready")
        listener = await start(running, generate())
        await listener.first_token.wait()
        pid = worker_group(running)
        os.killpg(pid, signal.SIGKILL)
        await listener.over.wait()
        assert listener.fault is not None
        assert listener.fault.code == "worker_lost"
        assert "SIGKILL" in str(listener.fault.data["details"])
        await running.wait_worker("ready")
        assert running.board.value.worker.epoch == 2
        again = await start(running, generate("g2"))
        await again.first_token.wait()


async def test_a_load_that_cannot_work_fails_with_the_reason(core: CoreFactory, tmp_path: Path) -> None:
    """A broken script is the scripted engine's missing model: state failed at once, in words."""
    async with core({"answers": "nonsense"}) as running:
        await running.wait_worker("failed")
        worker = running.board.value.worker
        assert worker.epoch == 1
        assert worker.reason
        (tmp_path / "script.json").write_text('{"answers": []}')
        await running.supervisor.ask(RestartWorker())
        await running.wait_worker("ready")
        assert running.board.value.worker.reason is None


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ({"at": "token", "token": 2, "do": "garbage_line"}, "protocol"),
        ({"at": "token", "token": 2, "do": "huge_line"}, "protocol"),
        ({"at": "token", "token": 2, "do": "exit", "status": 1}, "status 1"),
        ({"at": "token", "token": 2, "do": "close_stdout"}, "output"),
    ],
)
async def test_a_lying_worker_is_killed_and_replaced(core: CoreFactory, fault: dict[str, Any], word: str) -> None:
    """What cannot be trusted is ended; the request hears a reason; the system goes on."""
    script = {"answers": [{"when": "bad", "tokens": ["a", "b", "c", "d"], "faults": [fault]}, {"tokens": ["fine"]}]}
    async with core(script) as running:
        await running.wait_worker("ready")
        listener = await start(running, generate(text="bad"))
        await listener.over.wait()
        assert listener.fault is not None
        assert word in str(listener.fault.data["details"])
        await running.wait_worker("ready")
        after = await start(running, generate("g2"))
        await after.over.wait()
        assert after.text == "fine"


async def test_a_sink_that_raises_loses_only_its_own_request(core: CoreFactory) -> None:
    """The barrier: its generation is ended at the worker too, and others go on."""

    class Broken(Listener):
        def on_event(self, event: RequestEvent) -> None:
            super().on_event(event)
            if isinstance(event, Tokens):
                raise ValueError("a fault of the sink's own")

    async with core(ENDLESS) as running:
        await running.wait_worker("ready")
        other = await start(running, generate("g1"))
        broken = Broken()
        await running.supervisor.tell(StartGeneration(command=generate("g2"), sink=broken))
        await broken.over.wait()
        assert broken.fault is not None
        assert broken.fault.code == "internal_error"
        heard = len(other.events)
        while len(other.events) == heard:
            await trio.sleep(0)
        await running.supervisor.tell(CancelGeneration(request_id="g1"))
        await other.over.wait()
        await running.wait_worker("ready")  # 60,000 tokens at 1 ms each are far from over: g2 was cancelled
        assert running.board.value.worker.epoch == 1


async def test_stopping_leaves_no_process(core: CoreFactory) -> None:
    """After the supervisor's end the whole group is gone, also in the middle of an answer."""
    async with core(ENDLESS) as running:
        await running.wait_worker("ready")
        listener = await start(running, generate())
        await listener.first_token.wait()
        pid = worker_group(running)
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert listener.fault is not None
    assert not (running.settings.home / "run" / "worker.json").exists()


def worker_group(core: Core) -> int:
    """Process group of the running worker, from the record that the supervisor keeps."""
    import json

    return int(json.loads((core.settings.home / "run" / "worker.json").read_text())["pid"])
