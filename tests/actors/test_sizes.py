"""Invariant: a conversation that is too large is refused before any work, alone, and nothing of it is kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest
import trio.testing

from actors.reply import Failed, Finished, Reply
from actors.sessions import shelf
from actors.sessions.messages import FindReply, ShowPrompt, StartTurn
from actors.sessions.shelf import MAX_CHARS
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.message import Message
from muse.errors import ClientFault, MuseError
from muse.sizes import MIB
from tests.actors.conftest import Core

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
SLOW: dict[str, Any] = {"when": "slow", "tokens": {"repeat": ["word "], "count": 50000}, "token_ms": 2}
SCRIPT: dict[str, Any] = {"answers": [SLOW, {"tokens": ["Hello"]}]}


def chat(text: str, **fields: Any) -> ChatRequest:
    return parse_chat_request({"messages": [{"role": "user", "content": text}], **fields}, SamplingDefaults())


async def outcome_of(core: Core, request: ChatRequest) -> tuple[Reply, Failed | Finished]:
    reply = await core.sessions.ask(StartTurn(request=request))
    return reply, await reply.wait_outcome()


async def refused(core: Core, request: ChatRequest) -> MuseError:
    _, outcome = await outcome_of(core, request)
    assert isinstance(outcome, Failed)
    return outcome.fault


async def test_what_must_be_too_long_is_refused_before_any_work(core: CoreFactory) -> None:
    """No prompt was made for it, the number of tokens is not known, and a running answer goes on."""
    async with core(SCRIPT) as running:
        other = await running.sessions.ask(StartTurn(request=chat("slow")))
        await other.wait_accepted()
        reply, outcome = await outcome_of(running, chat("ж" * MIB))
        assert isinstance(outcome, Failed)
        assert (outcome.fault.status, outcome.fault.code) == (400, "context_length_exceeded")
        assert outcome.fault.data["prompt_tokens"] is None
        with pytest.raises(MuseError, match="prompt_not_made"):
            await running.sessions.ask(ShowPrompt(reply_id=reply.id))
        assert other.outcome is None
        assert running.board.value.worker.epoch == 1


async def test_nothing_of_it_is_kept(core: CoreFactory) -> None:
    """Not by an actor that waits for its next message, nor by the frames of its fault; no collector has to run."""
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        gc.disable()
        try:
            await refused(running, chat("x" * (MAX_CHARS + MIB)))
            await running.wait_idle()
            await trio.testing.wait_all_tasks_blocked(0.01)
            kept = [kept for kept in gc.get_objects() if isinstance(kept, Message) and len(kept.content) > MIB]
        finally:
            gc.enable()
        assert not kept


async def test_the_tools_of_a_refused_request_count(core: CoreFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished reply is kept by what its request holds, definitions of tools included."""

    async def refuse(*_: object) -> None:
        raise ClientFault("refused", "Refused.")

    tool = {"type": "function", "function": {"name": "f", "parameters": {"description": "x" * 20_000}}}
    monkeypatch.setattr(shelf, "MAX_CHARS", 10_000)
    monkeypatch.setattr("actors.sessions.turn_commands.check_length", refuse)  # before there is a prompt
    async with core(SCRIPT) as running:
        for fields, is_kept in (({}, True), ({"tools": [tool]}, False)):
            reply, outcome = await outcome_of(running, chat("x" * 3_000, **fields))
            assert isinstance(outcome, Failed)
            await running.wait_idle()
            await trio.testing.wait_all_tasks_blocked(0.01)
            found = None
            with suppress(MuseError):
                found = await running.sessions.ask(FindReply(reply_id=reply.id))
            assert found is (reply if is_kept else None)


async def test_a_long_prompt_that_fits_reaches_the_worker_whole(core: CoreFactory) -> None:
    """Its line is made in a thread; what is sent behind it comes behind it."""
    text = 'ж"\n' * (MIB // 2)
    async with core({**SCRIPT, "context_length": 10 * MIB}) as running:
        _, outcome = await outcome_of(running, chat(text, max_tokens=1))
        assert isinstance(outcome, Finished)
        assert outcome.metrics.prompt_tokens is not None
        assert outcome.metrics.prompt_tokens >= len(text.encode())


async def test_a_prompt_longer_than_a_line_is_refused(core: CoreFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, and the worker lives."""
    monkeypatch.setattr("actors.sessions.readiness.PROMPT_LINE_BYTES", 2_000)
    async with core(SCRIPT) as running:
        fault = await refused(running, chat('"' * 1_500))
        assert (fault.status, fault.code, fault.param) == (400, "prompt_too_large", "messages")
        assert running.board.value.worker.epoch == 1


async def test_requests_that_run_and_wait_are_bounded_together(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those whose clients have left. One alone always passes, and so does the next when there is room again."""
    monkeypatch.setattr("actors.sessions.actor.BODIES_BYTES", 1_000)
    async with core(SCRIPT) as running:
        first = await running.sessions.ask(StartTurn(request=chat("slow", session_id="s" * 100)))
        large = chat("x" * 1_200)
        with pytest.raises(MuseError) as caught:
            await running.sessions.ask(StartTurn(request=large))
        assert (caught.value.status, caught.value.code) == (503, "requests_too_large_together")
        first.abandon()
        await running.wait_idle()
        _, outcome = await outcome_of(running, large)
        assert isinstance(outcome, Finished)
