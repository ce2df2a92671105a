"""SessionManager and turns over a real worker: queue, cancel in each phase, stops, exactly one outcome."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
import trio

from actors.reply import Failed, Finished, Reply
from actors.sessions.messages import CancelTurn, DescribeSession, SetHistory, StartTurn
from actors.sessions.turn import Turn
from actors.transcripts.messages import RecordedTurn, ShowSession
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.errors import MuseError
from muse.settings import Limits
from muse.structured.forms import asked_schemas
from muse.structured.jobs import held_form
from tests.actors.conftest import Core

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
SLOW: dict[str, Any] = {"when": "slow", "tokens": {"repeat": ["word "], "count": 50000}, "token_ms": 2}
SCRIPT: dict[str, Any] = {"answers": [SLOW, {"tokens": ["Hello", ", ", "world", "!"]}]}


def chat(text: str, **fields: Any) -> ChatRequest:
    return parse_chat_request({"messages": [{"role": "user", "content": text}], **fields}, SamplingDefaults())


async def start(core: Core, request: ChatRequest) -> Reply:
    """As the front does it, which has the form of an answer checked before."""
    if asked := asked_schemas(request):
        request = attrs.evolve(request, form=held_form(asked))
    return await core.sessions.ask(StartTurn(request=request))


async def finished(reply: Reply) -> Finished:
    outcome = await reply.wait_outcome()
    assert isinstance(outcome, Finished), outcome
    return outcome


async def wait_text(reply: Reply) -> None:
    while not reply.end:
        await reply.wait_news(reply.end, reply.sign_version)


async def test_an_answer_has_text_counts_and_a_receipt(core: CoreFactory) -> None:
    """Text as scripted, finish_reason stop, counts of the worker, times filled in."""
    async with core(SCRIPT) as running:
        reply = await start(running, chat("hi"))
        outcome = await finished(reply)
        assert reply.text("answer") == "Hello, world!"
        assert outcome.finish_reason == "stop"
        assert outcome.metrics.completion_tokens == 4
        metrics = outcome.metrics
        assert metrics.prompt_tokens == metrics.prefilled_prompt_tokens
        assert metrics.cancelled is False
        assert metrics.time_to_first_token_ms is not None
        assert metrics.total_ms is not None
        assert metrics.total_ms >= metrics.time_to_first_token_ms
        await running.wait_idle()


async def test_a_request_waits_for_a_loading_model(core: CoreFactory) -> None:
    """Started before the model is there, it shows the loading and is answered afterwards."""
    async with core({**SCRIPT, "load_ms": 300}) as running:
        reply = await start(running, chat("hi"))
        phases: set[str] = set()
        while reply.outcome is None:
            if reply.sign is not None:
                phases.add(reply.sign.phase)
            await reply.wait_news(reply.end, reply.sign_version)
        assert "loading" in phases
        assert reply.text("answer") == "Hello, world!"


async def test_a_failed_model_fails_the_request_with_its_reason(core: CoreFactory) -> None:
    """Also one that was already waiting when loading failed. The worker's own words are apart."""
    async with core({"load_ms": 200, "faults": [{"at": "load", "do": "error_fatal"}]}) as running:
        early = await start(running, chat("hi"))
        outcome = await early.wait_outcome()
        assert isinstance(outcome, Failed)
        assert outcome.fault.status == 503
        late = await (await start(running, chat("hi"))).wait_outcome()
        assert isinstance(late, Failed)
        assert late.fault.detail.startswith("The model is not running;")
        assert late.fault.data["details"] == running.board.value.worker.reason


async def test_max_tokens_ends_with_length(core: CoreFactory) -> None:
    """The budget is the worker's; the reason is told."""
    async with core(SCRIPT) as running:
        reply = await start(running, chat("hi", max_tokens=2))
        outcome = await finished(reply)
        assert (outcome.finish_reason, outcome.metrics.length_limit) == ("length", "max_tokens")
        assert reply.text("answer") == "Hello, "


async def test_a_full_context_ends_with_length_and_is_told_from_the_budget(core: CoreFactory) -> None:
    """Without max_tokens, and with one that there is no room for; an answer that ends by itself names no limit."""
    async with core({**SCRIPT, "context_length": 40}) as running:
        for max_tokens in (None, 39):
            outcome = await finished(await start(running, chat("slow", max_tokens=max_tokens)))
            assert (outcome.finish_reason, outcome.metrics.length_limit) == ("length", "context")
        assert (await finished(await start(running, chat("hi")))).metrics.length_limit is None


async def test_a_stop_string_over_tokens_cuts_and_ends_with_stop(core: CoreFactory) -> None:
    """Matched over token borders, removed, and the worker is idle afterwards."""
    async with core(SCRIPT) as running:
        reply = await start(running, chat("hi", stop=["o, w"]))
        assert (await finished(reply)).finish_reason == "stop"
        assert reply.text("answer") == "Hell"
        endless = await start(running, chat("slow", stop=["d word w"]))
        assert (await finished(endless)).finish_reason == "stop"
        assert endless.text("answer") == "wor"
        await running.wait_worker("ready")


@pytest.mark.parametrize("by", ["reply", "session", "abandon"])
async def test_cancel_in_decode_keeps_what_was_said(core: CoreFactory, by: str) -> None:
    """By reply id, by session id, or because the client left: cancelled, with text, and the worker idle."""
    async with core(SCRIPT) as running:
        reply = await start(running, chat("slow", session_id="s1"))
        await wait_text(reply)
        if by == "abandon":
            reply.abandon()
        else:
            target = CancelTurn(reply_id=reply.id) if by == "reply" else CancelTurn(session_id="s1")
            assert await running.sessions.ask(target)
        outcome = await finished(reply)
        assert outcome.finish_reason == "cancelled"
        assert outcome.metrics.cancelled is True
        assert reply.text("answer").startswith("word ")
        await running.wait_worker("ready")
        assert not await running.sessions.ask(CancelTurn(reply_id=reply.id))


async def test_cancel_while_the_model_loads(core: CoreFactory) -> None:
    """The reply ends at once, long before the model is there."""
    async with core({**SCRIPT, "load_ms": 20000}) as running:
        reply = await start(running, chat("hi"))
        assert await running.sessions.ask(CancelTurn(reply_id=reply.id))
        assert (await finished(reply)).finish_reason == "cancelled"
        assert running.board.value.worker.state != "ready"
        await running.wait_idle()


async def test_a_turn_with_its_outcome_is_in_nobodys_way(core: CoreFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever heard of the end may look at the session or change it, however long the turn's task takes to go."""
    may_go, run = trio.Event(), Turn.run

    async def linger(turn: Turn) -> None:
        await run(turn)
        await may_go.wait()

    monkeypatch.setattr(Turn, "run", linger)
    async with core({**SCRIPT, "load_ms": 20000}) as running:
        reply = await start(running, chat("hi", session_id="s"))
        assert await running.sessions.ask(CancelTurn(reply_id=reply.id))
        await finished(reply)
        with pytest.raises(MuseError) as caught:
            await running.sessions.ask(DescribeSession(session_id="s"))
        assert caught.value.code == "session_not_found"
        await running.sessions.ask(SetHistory(session_id="s", messages=chat("hello").messages))
        assert running.board.value.requests.running + running.board.value.requests.queued == 1
        may_go.set()
        await running.wait_idle()


async def test_the_queue_is_fair_bounded_and_told(core: CoreFactory) -> None:
    """Two run, two wait with positions 1 and 2, the next is refused; a cancelled one frees its place."""
    async with core(SCRIPT, limits=Limits(queue=2)) as running:
        await running.wait_worker("ready")
        first, second, third, fourth = [await start(running, chat("slow")) for _ in range(4)]
        await wait_text(first)
        await wait_text(second)
        with pytest.raises(MuseError) as caught:
            await start(running, chat("slow"))
        assert (caught.value.status, caught.value.retry_after_s) == (429, 5)
        assert [reply.sign and reply.sign.position for reply in (third, fourth)] == [1, 2]
        third.abandon()
        assert (await finished(third)).metrics.prompt_tokens == 0
        first.abandon()
        await wait_text(fourth)
        second.abandon()
        fourth.abandon()
        await running.wait_idle()


async def test_one_turn_of_a_session_at_a_time(core: CoreFactory) -> None:
    """A second request on a busy session waits; one of another session overtakes it."""
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        first = await start(running, chat("slow", session_id="a"))
        await wait_text(first)
        second = await start(running, chat("hi", session_id="a"))
        other = await start(running, chat("hi", session_id="b"))
        assert (await finished(other)).finish_reason == "stop"
        assert second.outcome is None
        first.abandon()
        assert (await finished(second)).finish_reason == "stop"


async def test_a_prompt_that_cannot_fit_is_refused_with_counts(core: CoreFactory) -> None:
    """At the worker, and already in the queue when it has to wait."""
    async with core({**SCRIPT, "context_length": 300}) as running:
        await running.wait_worker("ready")
        direct = await (await start(running, chat("x" * 400))).wait_outcome()
        blockers = [await start(running, chat("slow")) for _ in range(2)]
        for reply in blockers:
            await wait_text(reply)
        queued = await (await start(running, chat("x" * 400))).wait_outcome()
        for outcome in (direct, queued):
            assert isinstance(outcome, Failed)
            assert (outcome.fault.status, outcome.fault.code) == (400, "context_length_exceeded")
            assert outcome.fault.data["context_length"] == 300
            assert isinstance(outcome.fault.data["prompt_tokens"], int)
            assert outcome.fault.data["prompt_tokens"] > 400
        assert all(reply.outcome is None for reply in blockers)


async def test_a_whole_turn_of_a_session_is_recorded_with_its_ids(core: CoreFactory) -> None:
    """Ids exactly as generated; a turn cut by a stop string is known as text only."""
    async with core(SCRIPT) as running:
        await finished(await start(running, chat("hi", session_id="s")))
        turn = await last_turn(running, "s")
        assert turn.content == "Hello, world!"
        assert turn.ids is not None
        assert len(turn.ids) == 4
        await finished(await start(running, chat("hi", session_id="t", stop=["wor"])))
        turn = await last_turn(running, "t")
        assert (turn.content, turn.ids) == ("Hello, ", None)


async def last_turn(core: Core, session_id: str) -> RecordedTurn:
    view = await core.transcripts.ask(ShowSession(session_id=session_id))
    return view.turns[len(view.messages)]


async def test_shutdown_gives_every_reply_an_outcome(core: CoreFactory) -> None:
    """Running, queued and waiting replies all end when the system stops."""
    async with core(SCRIPT) as running:
        await running.wait_worker("ready")
        replies = [await start(running, chat("slow")) for _ in range(4)]
        await wait_text(replies[0])
    assert all(isinstance(reply.outcome, Failed) for reply in replies)


async def test_a_slow_reader_changes_nothing_for_others(core: CoreFactory) -> None:
    """Nobody reads the first reply: the second and the worker go on."""
    script = {"answers": [{"tokens": {"repeat": ["word "], "count": 20000}}]}
    async with core(script) as running:
        unread = await start(running, chat("hi"))
        read = await start(running, chat("hi"))
        assert (await finished(read)).metrics.completion_tokens == 20000
        assert (await finished(unread)).metrics.completion_tokens == 20000
        assert len(unread.text("answer")) == 100000
        with trio.fail_after(5):
            await running.wait_worker("ready")
