"""A draft over real workers: its counts in the receipt, and going on without it when it costs more than it gives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from actors.reply import Reply
from actors.state_board import DraftStatus
from actors.supervisor.messages import RestartWorker
from muse.api.metrics import MuseMetrics
from tests.actors.conftest import Core
from tests.actors.test_harmony_turns import SCRIPT as HARMONY
from tests.actors.test_harmony_turns import THOUGHT
from tests.actors.test_resume import TEXT, WORDS, dying
from tests.actors.test_sessions import chat, finished, start

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
DRAFT = Path("some") / "draft.gguf"
USED = DraftStatus(file="draft.gguf")
LEFT_OUT = DraftStatus(file="draft.gguf", reason="scripted loss")


def losing(tmp_path: Path, *, times: int = 1, **place: Any) -> dict[str, Any]:
    """A worker says that its draft is a loss; as often in all, counted over restarts."""
    return {"do": "draft_slower", "counter": str(tmp_path / "losses"), "times": times, **place}


async def receipt(reply: Reply) -> MuseMetrics:
    return (await finished(reply)).metrics


async def wait_draft(core: Core, wanted: DraftStatus) -> None:
    """Wait until the board says so of the draft and the worker is ready."""
    while core.board.value.draft != wanted or core.board.value.worker.state != "ready":
        await core.board.wait_newer(core.board.version)


async def test_the_receipt_counts_what_was_drafted(core: CoreFactory) -> None:
    """With a draft; without one nothing is said."""
    async with core({"answers": [{"tokens": WORDS}]}, draft=DRAFT) as running:
        metrics = await receipt(await start(running, chat("hi")))
        assert (metrics.draft_proposed, metrics.draft_accepted) == (len(WORDS), len(WORDS))
        assert running.board.value.draft == USED
    async with core({"answers": [{"tokens": WORDS}]}) as running:
        metrics = await receipt(await start(running, chat("hi")))
        assert (metrics.draft_proposed, metrics.draft_accepted) == (None, None)
        assert running.board.value.draft is None


async def test_the_parts_of_an_answer_add_up(core: CoreFactory) -> None:
    """A thinking budget ends the first request and begins a second: both were drafted."""
    thoughts = [*THOUGHT[:3], *["well "] * 40, *THOUGHT[3:], "<|message|>", "Four."]
    async with core({**HARMONY, "answers": [{"tokens": thoughts, "token_ms": 1}]}, draft=DRAFT) as running:
        reply = await start(running, chat("2 + 2?", max_tokens=60, muse={"max_thinking_tokens": 4}))
        metrics = await receipt(reply)
        assert reply.text("answer")
        assert metrics.draft_proposed is not None
        assert metrics.thinking_tokens is not None
        # Closing the channel writes tokens that nobody had to guess.
        assert metrics.thinking_tokens < metrics.draft_proposed <= metrics.completion_tokens


async def test_what_a_dead_worker_drafted_is_not_known(core: CoreFactory, tmp_path: Path) -> None:
    """Only the part after its death is counted."""
    async with core({"answers": [{"tokens": WORDS, "faults": [dying(tmp_path, token=2)]}]}, draft=DRAFT) as running:
        metrics = await receipt(await start(running, chat("hi")))
        assert metrics.resumed == 1
        assert metrics.draft_proposed == len(WORDS) - 2


async def test_an_idle_worker_is_replaced_by_one_without_the_draft(core: CoreFactory, tmp_path: Path) -> None:
    """With the reason; no try of the restart rule is used up, and answers are as before, without counts."""
    script = {"answers": [{"tokens": WORDS}], "faults": [losing(tmp_path, at="idle")]}
    async with core(script, draft=DRAFT) as running:
        await wait_draft(running, LEFT_OUT)
        worker = running.board.value.worker
        assert (worker.epoch, worker.reason) == (2, None)
        assert running.board.value.model is not None
        assert not running.board.value.model.supports.draft
        reply = await start(running, chat("hi"))
        assert (await receipt(reply)).draft_proposed is None
        assert reply.text("answer") == TEXT


async def test_a_running_answer_ends_first(core: CoreFactory, tmp_path: Path) -> None:
    """It is neither broken off nor resumed; the next one waits for the fresh worker like any request."""
    script = {"answers": [{"tokens": WORDS, "faults": [losing(tmp_path, at="token", token=2)]}]}
    async with core(script, draft=DRAFT) as running:
        first = await start(running, chat("hi"))
        metrics = await receipt(first)
        assert (metrics.resumed, metrics.draft_proposed) == (0, len(WORDS))
        second = await start(running, chat("hi"))
        metrics = await receipt(second)
        assert (metrics.resumed, metrics.draft_proposed) == (0, None)
        assert first.text("answer") == second.text("answer") == TEXT
        assert running.board.value.draft == LEFT_OUT
        assert running.board.value.worker.epoch == 2


async def test_those_that_wait_go_first(core: CoreFactory, tmp_path: Path) -> None:
    """A reload between two waiting requests would cost them more than the draft does."""
    answer = {"tokens": WORDS, "token_ms": 5, "faults": [losing(tmp_path, at="token", token=2)]}
    async with core({"slots": 1, "answers": [answer]}, draft=DRAFT) as running:
        replies = [await start(running, chat("hi")) for _ in range(4)]
        for reply in replies:
            metrics = await receipt(reply)
            assert (metrics.resumed, metrics.draft_proposed) == (0, len(WORDS))
        await wait_draft(running, LEFT_OUT)
        assert running.board.value.worker.epoch == 2


async def test_deaths_do_not_bring_it_back_but_somebody_may(core: CoreFactory, tmp_path: Path) -> None:
    """An ordinary restart goes without it too; after a restart by hand it is tried again, and here loses again."""
    words = {"tokens": WORDS, "faults": [dying(tmp_path, token=2)]}
    script = {"answers": [words], "faults": [losing(tmp_path, at="idle", times=1000)]}
    async with core(script, draft=DRAFT) as running:
        await wait_draft(running, LEFT_OUT)
        metrics = await receipt(await start(running, chat("hi")))
        assert (metrics.resumed, metrics.draft_proposed) == (1, None)
        assert running.board.value.draft == LEFT_OUT
        assert running.board.value.worker.epoch == 3
        await running.supervisor.ask(RestartWorker())
        while running.board.value.worker.epoch < 5:  # one with the draft, and one after its loss
            await running.board.wait_newer(running.board.version)
        await wait_draft(running, LEFT_OUT)
        assert running.board.value.worker.epoch == 5


async def test_a_worker_without_a_draft_cannot_lose_it(core: CoreFactory, tmp_path: Path) -> None:
    """What it says is logged, and it stays."""
    script = {"answers": [{"tokens": WORDS, "faults": [losing(tmp_path, at="token", token=2)]}]}
    async with core(script) as running:
        await receipt(await start(running, chat("hi")))
        assert (await receipt(await start(running, chat("hi")))).resumed == 0
        assert running.board.value.worker.epoch == 1
        assert running.board.value.draft is None
