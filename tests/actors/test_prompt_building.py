"""The store gives up a rendering that nobody waits for."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from actors.kernel import Mailbox
from actors.transcripts.actor import TranscriptStore
from actors.transcripts.messages import BuildPrompt, ListSessions, PrepareModel, TranscriptMessage
from actors.transcripts.renderer import Renderer
from muse.api.message import Message
from muse.errors import InternalFault
from tests.actors.conversation_model import READY
from tests.in_process_jobs import InProcessJobs


class Endless(InProcessJobs):
    """Jobs that never end."""

    def __init__(self) -> None:
        self.running = 0

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes:
        self.running += 1
        try:
            await trio.sleep_forever()
        finally:
            self.running -= 1


class Broken(InProcessJobs):
    """Jobs whose answer is garbage, or that break on our side."""

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes:
        if job == "compile":
            raise KeyError("bug")
        return b"\xc1"


def building() -> BuildPrompt:
    return BuildPrompt(session_id=None, messages=(Message(role="user", content="hi"),), model=READY)


async def test_an_asker_that_left_ends_its_rendering(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever it is in the middle of; the store answers others all the time."""
    jobs, mailbox = Endless(), Mailbox[TranscriptMessage]("store")
    async with trio.open_nursery() as nursery:
        await nursery.start(TranscriptStore(inbox=mailbox.inbox, renderer=Renderer(jobs)).run)
        with trio.move_on_after(1.0):
            await mailbox.address.ask(building())
        assert jobs.running == 1
        assert await mailbox.address.ask(ListSessions()) == ()
        await trio.sleep(0.5)
        assert jobs.running == 0
        mailbox.address.close()


async def test_a_stop_waits_for_no_rendering(autojump_clock: trio.testing.MockClock) -> None:
    """The inbox is closed: the store ends."""
    jobs, mailbox = Endless(), Mailbox[TranscriptMessage]("store")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(TranscriptStore(inbox=mailbox.inbox, renderer=Renderer(jobs)).run)
            mailbox.address.tell_nowait(building())
            mailbox.address.tell_nowait(PrepareModel(model=READY))
            await trio.testing.wait_all_tasks_blocked()
            assert jobs.running == 2
            mailbox.address.close()
    assert jobs.running == 0


async def test_what_breaks_a_rendering_ends_no_store(autojump_clock: trio.testing.MockClock) -> None:
    """A fault of ours, or garbage for an answer, costs one request."""
    mailbox = Mailbox[TranscriptMessage]("store")
    async with trio.open_nursery() as nursery:
        await nursery.start(TranscriptStore(inbox=mailbox.inbox, renderer=Renderer(Broken())).run)
        mailbox.address.tell_nowait(PrepareModel(model=READY))
        with pytest.raises(InternalFault):
            await mailbox.address.ask(building())
        assert await mailbox.address.ask(ListSessions()) == ()
        mailbox.address.close()
