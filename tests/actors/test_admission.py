"""Who gets the model while prompts are being made: a rendering that takes long holds nobody else up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from actors.reply import Reply
from actors.sessions.messages import CancelTurn, StartTurn
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.errors import MuseError
from muse.settings import Limits
from tests.actors.conftest import Core
from tests.in_process_jobs import InProcessJobs

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
SCRIPT: dict[str, Any] = {
    "answers": [
        {"when": "slow", "tokens": {"repeat": ["word "], "count": 50000}, "token_ms": 2},
        {"tokens": ["fine"]},
    ]
}


class Renderings:
    """Those of conversations that hold a word of `held` wait until it is taken out."""

    def __init__(self) -> None:
        self.held: dict[str, trio.Event] = {}
        self.begun: Counter[str] = Counter()

    def hold(self, word: str) -> None:
        self.held[word] = trio.Event()

    async def wait(self, payload: bytes) -> None:
        for word, event in self.held.items():
            if word.encode() in payload:
                self.begun[word] += 1
                await event.wait()

    async def wait_begun(self, word: str, count: int = 1) -> None:
        while self.begun[word] < count:
            await trio.sleep(0.005)


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> Renderings:
    """All that are made in the test."""
    all_of_them = Renderings()
    real = InProcessJobs.call

    async def call(self: InProcessJobs, job: str, payload: bytes, *, limit_s: float) -> bytes:
        if job == "render":
            await all_of_them.wait(payload)
        return await real(self, job, payload, limit_s=limit_s)

    monkeypatch.setattr(InProcessJobs, "call", call)
    return all_of_them


def chat(text: str, **fields: Any) -> ChatRequest:
    return parse_chat_request({"messages": [{"role": "user", "content": text}], **fields}, SamplingDefaults())


async def start(core: Core, text: str, **fields: Any) -> Reply:
    return await core.sessions.ask(StartTurn(request=chat(text, **fields)))


async def test_a_long_rendering_does_not_hold_the_model(core: CoreFactory, renderings: Renderings) -> None:
    """Those that came later are answered meanwhile; it gets its turn when it is ready, and can be cancelled before."""
    renderings.hold("long")
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        first, second = await start(running, "long"), await start(running, "long", session_id="s")
        await renderings.wait_begun("long", 2)
        for _ in range(3):
            other = await start(running, "hi")
            await other.wait_outcome()
            assert other.text("answer") == "fine"
        assert first.outcome is second.outcome is None
        assert running.board.value.requests.running >= 1
        assert await running.sessions.ask(CancelTurn(reply_id=second.id))
        renderings.held["long"].set()
        await first.wait_outcome()
        assert first.text("answer") == "fine"
        await running.wait_idle()


async def test_a_session_s_requests_keep_their_order(core: CoreFactory, renderings: Renderings) -> None:
    """The second waits for the first, also where its own prompt was ready before; then that is made anew."""
    renderings.hold("first")
    renderings.hold("next")
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        first = await start(running, "first", session_id="s")
        second = await start(running, "next", session_id="s")
        await renderings.wait_begun("first")
        await renderings.wait_begun("next")
        renderings.held["next"].set()
        other = await start(running, "hi", session_id="t")
        await other.wait_outcome()
        assert second.outcome is None
        assert not second.accepted
        renderings.held["first"].set()
        await second.wait_outcome()
        assert first.outcome is not None
        assert second.text("answer") == "fine"
        assert renderings.begun == {"first": 1, "next": 2}


async def test_a_history_that_changes_while_a_prompt_is_made(core: CoreFactory, renderings: Renderings) -> None:
    """The prompt of the old history is not used."""
    renderings.hold("next")
    async with core(SCRIPT) as running:
        first = await start(running, "slow", session_id="s")
        await first.wait_accepted()
        second = await start(running, "next", session_id="s")
        await renderings.wait_begun("next")
        first_is_cancelled = await running.sessions.ask(CancelTurn(session_id="s"))
        assert first_is_cancelled
        await first.wait_outcome()
        renderings.held["next"].set()
        await second.wait_outcome()
        assert renderings.begun["next"] == 2


async def test_the_queue_is_bounded_while_prompts_are_made(core: CoreFactory, renderings: Renderings) -> None:
    """As many as the model takes, and as many as may wait."""
    renderings.hold("long")
    async with core(SCRIPT, limits=Limits(queue=2)) as running:
        await running.wait_worker("ready")
        model = running.board.value.model
        assert model is not None
        for _ in range(model.max_inflight_requests + 2):
            await start(running, "long")
        assert running.board.value.requests.running == model.max_inflight_requests
        assert len(running.board.value.requests.waiting) == 2
        with pytest.raises(MuseError) as caught:
            await start(running, "long")
        assert caught.value.code == "queue_full"
