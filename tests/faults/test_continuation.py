"""The built-in model at temperature 0, killed at a random place: nothing sent is repeated, changed or lost."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs
import pytest
import trio

from actors.reply import Reply
from actors.supervisor.messages import RequestEvent, StartGeneration
from muse.errors import MuseError
from muse.protocol import Done, Error, Generate, IdsSegment, Tokens
from tests.faults.core import FaultCore, finished

pytestmark = pytest.mark.thorough

CoreFactory = Callable[..., AbstractAsyncContextManager[FaultCore]]
QUESTION = "Write a story about a lighthouse keeper and the sea."
TOKENS = 32


class ColdRun:
    """One generation of its own, past the turns: its text."""

    def __init__(self) -> None:
        self.text = ""
        self.over = trio.Event()
        self.fault: MuseError | RequestEvent | None = None

    def on_event(self, event: RequestEvent) -> None:
        if isinstance(event, Tokens):
            self.text += event.text
        if isinstance(event, (Done, Error)):
            self.fault = None if isinstance(event, Done) else event
            self.over.set()

    def on_lost(self, fault: MuseError) -> None:
        self.fault = fault
        self.over.set()


async def cold_run(running: FaultCore, command: Generate) -> str:
    """What the model says to exactly this command, with nothing in its cache (it names no session)."""
    assert command.session_id is None
    sink = ColdRun()
    command = attrs.evolve(command, request_id=f"cold-{command.request_id}")
    await running.supervisor.tell(StartGeneration(command=command, sink=sink))
    await sink.over.wait()
    assert sink.fault is None
    return sink.text


async def watch(reply: Reply, kill_at: int, kill: Callable[[], None]) -> list[str]:
    """Read like a client, piece by piece; kill once so many characters were read. The pieces read."""
    position, pieces = 0, []
    while True:
        for piece in reply.read(position):
            assert piece.end == position + len(piece.text)
            position = piece.end
            pieces.append(piece.text)
        if position >= kill_at:
            kill_at = 1 << 30
            kill()
        if reply.outcome is not None and position == reply.end:
            return pieces
        await reply.wait_news(position, reply.sign_version)


@pytest.mark.model
@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
async def test_nothing_sent_is_repeated_changed_or_lost(model_core: CoreFactory, kills: int) -> None:
    """One kill a run, anywhere from the first character on: the stream ends normally, what was read stays,
    and what follows is what a cold run on prompt + sent ids says."""
    places = random.Random(2)
    async with model_core(guard_s=20.0 * (1 + kills)) as running:
        whole = await running.start(QUESTION, max_tokens=TOKENS, temperature=0)
        await finished(whole)
        for _ in range(kills):
            running.generations.clear()
            reply = await running.start(QUESTION, max_tokens=TOKENS, temperature=0)
            kill_at = places.randrange(1, len(whole.text("answer")) * 3 // 4)
            pieces = await watch(reply, kill_at, lambda: os.killpg(running.group(), signal.SIGKILL))
            outcome = await finished(reply)
            assert (outcome.metrics.resumed, outcome.metrics.completion_tokens) == (1, TOKENS)
            text = reply.text("answer")
            assert "".join(pieces) == text
            first, second = running.generations
            *prompt, sent = second.prompt_segments
            assert tuple(prompt) == first.prompt_segments
            assert isinstance(sent, IdsSegment)
            assert second.max_new_tokens == TOKENS - len(sent.ids)
            before = await cold_run(running, attrs.evolve(first, max_new_tokens=len(sent.ids)))
            assert text == before + await cold_run(running, second)
            await running.wait_idle()
