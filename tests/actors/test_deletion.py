"""What was deleted is gone: from every answer of the API, and from the memory of the main process."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import pytest
import trio
import trio.testing

from actors.kernel import Address, Question
from actors.reply import Reply
from actors.sessions import actor as sessions_actor
from actors.sessions import shelf
from actors.sessions.messages import (
    CancelTurn,
    DescribeSession,
    EndSession,
    FindReply,
    SetHistory,
    ShowPrompt,
    StartTurn,
)
from actors.supervisor.messages import SessionCommand
from actors.supervisor.watchdog import HangLimits
from actors.transcripts.messages import ForgetSession, SaveDraft, ShowDraft
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.fields import Offenders
from muse.api.message import parse_messages
from muse.errors import MuseError, WorkerFault
from tests.actors.conftest import HANG_GUARD_S, Core
from tests.actors.test_sessions import finished, start, wait_text
from tests.memory_search import holders_of

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
SECRET: Final = "rettel sevol ehs taht"
"""Backwards, so that the only places that hold it forwards are those of the system."""
ACTIONS: Final = pytest.mark.parametrize("action", ["close", "reset"])
SCRIPT: Final[dict[str, Any]] = {
    "answers": [
        {"when": "fail", "tokens": ["a ", "b "], "faults": [{"at": "token", "token": 1, "do": "error_request"}]},
        {"when": "slow", "tokens": {"repeat": ["word "], "count": 50000}, "token_ms": 2},
    ]
}
"""All else is echoed, so that answers hold the secret, too."""


def chat(text: str, session_id: str | None = "s", **fields: Any) -> ChatRequest:
    """A question with the secret in it."""
    body = {"messages": [{"role": "user", "content": f"{text} {SECRET[::-1]}"}], "session_id": session_id, **fields}
    return parse_chat_request(body, SamplingDefaults())


async def said(core: Core, text: str, session_id: str | None = "s", **fields: Any) -> str:
    """One finished answer; only its id is left in the test."""
    reply = await start(core, chat(text, session_id, **fields))
    await reply.wait_outcome()
    return reply.id


async def code_of(act: Callable[[], Any]) -> str | None:
    """The code of what it fails with, None if it works."""
    try:
        await act()
    except MuseError as fault:
        return fault.code
    return None


def continuation(reply_id: str, **fields: Any) -> StartTurn:
    return StartTurn(request=parse_chat_request({"muse": {"continue": reply_id}, **fields}, SamplingDefaults()))


async def is_gone(core: Core, reply_id: str) -> bool:
    """By every way to it."""
    questions = (FindReply(reply_id=reply_id), ShowPrompt(reply_id=reply_id), continuation(reply_id))
    codes = {await code_of(lambda question=question: core.sessions.ask(question)) for question in questions}
    return codes == {"reply_not_found"}


async def is_unknown(core: Core, session_id: str = "s") -> bool:
    return await code_of(lambda: core.sessions.ask(DescribeSession(session_id=session_id))) == "session_not_found"


@ACTIONS
async def test_replies_of_a_deleted_session_are_gone(core: CoreFactory, action: Literal["close", "reset"]) -> None:
    """Whole ones, cut ones, a chain of continued ones; the session does not come back. Others stay."""
    async with core(SCRIPT) as running:
        other, nobodys = await said(running, "one", "t"), await said(running, "one", None)
        whole, cut = await said(running, "one"), await said(running, "one two three", max_tokens=1)
        chain = [cut]
        for _ in range(2):
            reply = await running.sessions.ask(continuation(chain[-1], max_tokens=1))
            await reply.wait_outcome()
            chain.append(reply.id)
        await running.sessions.ask(EndSession(action=action, session_id="s"))
        for reply_id in (whole, *chain):
            assert await is_gone(running, reply_id)
        assert await is_unknown(running)
        for reply_id in (other, nobodys):
            await running.sessions.ask(ShowPrompt(reply_id=reply_id))
        assert not await is_unknown(running, "t")


@ACTIONS
async def test_a_running_detached_reply_ends_and_is_gone(core: CoreFactory, action: Literal["close", "reset"]) -> None:
    """And so does one that waits, and one that was continued."""
    async with core(SCRIPT) as running:
        cut = await said(running, "slow", max_tokens=2)
        reply = await running.sessions.ask(continuation(cut))
        waiting = await start(running, chat("one", stream=True, muse={"detached": True}))
        await wait_text(reply)
        await running.sessions.ask(EndSession(action=action, session_id="s"))
        for ended in (reply, waiting):
            assert (await finished(ended)).finish_reason == "cancelled"
        for reply_id in (cut, reply.id, waiting.id):
            assert await is_gone(running, reply_id)
        assert await is_unknown(running)


async def test_an_answer_that_ends_while_its_session_is_deleted_is_gone(core: CoreFactory) -> None:
    """At the same moment, in either order."""
    async with core(SCRIPT) as running:
        for wait in (Reply.wait_outcome, wait_text, Reply.wait_accepted):
            reply = await start(running, chat("one", max_tokens=3))
            await wait(reply)
            await running.sessions.ask(EndSession(action="close", session_id="s"))
            assert await is_gone(running, reply.id)
            assert await is_unknown(running)


async def test_while_a_session_is_deleted_nothing_goes_on_in_it(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a reply of it, nor with a history that is put in its place."""
    asked, go_on = trio.Event(), trio.Event()
    ask = Address[Any].ask

    async def slow(self: Address[Any], question: Question[Any]) -> Any:
        if isinstance(question, ForgetSession):
            asked.set()
            await go_on.wait()
        return await ask(self, question)

    async with core(SCRIPT) as running:
        cut = await said(running, "one two three", max_tokens=1)
        messages = parse_messages([{"role": "user", "content": "x"}], Offenders())
        monkeypatch.setattr(Address, "ask", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.sessions.ask, EndSession(action="close", session_id="s"))
            await asked.wait()
            assert await code_of(lambda: running.sessions.ask(continuation(cut))) == "reply_not_found"
            change = SetHistory(session_id="s", messages=messages)
            assert await code_of(lambda: running.sessions.ask(change)) == "session_busy"
            go_on.set()
        assert await is_gone(running, cut)
        assert await is_unknown(running)


async def test_a_session_of_the_same_name_is_a_new_one(core: CoreFactory) -> None:
    """Its request may come while the old one is being deleted: it stays."""
    async with core(SCRIPT) as running:
        old = await start(running, chat("slow"))
        await wait_text(old)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.sessions.ask, EndSession(action="close", session_id="s"))
            await trio.testing.wait_all_tasks_blocked()
            new = await start(running, chat("one"))
            await new.wait_outcome()
        assert await is_gone(running, old.id)
        await running.sessions.ask(ShowPrompt(reply_id=new.id))
        assert not await is_unknown(running)


@ACTIONS
async def test_no_text_of_a_deleted_session_is_left(core: CoreFactory, action: Literal["close", "reset"]) -> None:
    """Whatever became of its turns: whole, cut, continued, failed, refused, cancelled; its draft, and a history that
    was put in its place."""
    async with core(SCRIPT) as running:
        assert not holders_of(SECRET), "the test itself holds it"
        cut = await said(running, "one two three", max_tokens=1)
        await (await running.sessions.ask(continuation(cut))).wait_outcome()
        await said(running, "fail")
        await said(running, "many " * 70_000)
        await cancelled(running)
        await other_things(running)
        assert holders_of(SECRET), "the search finds nothing"
        await running.sessions.ask(EndSession(action=action, session_id="s"))
        await running.sessions.ask(EndSession(action=action, session_id="n"))
        await running.wait_idle()
        await trio.testing.wait_all_tasks_blocked()
        assert await is_unknown(running)
        left = holders_of(SECRET)
        assert not left


async def cancelled(core: Core) -> None:
    reply = await start(core, chat("slow"))
    await wait_text(reply)
    reply.abandon()
    await reply.wait_outcome()


async def other_things(core: Core) -> None:
    """A draft, and a history without a request."""
    body = json.dumps({"text": SECRET[::-1]}).encode()
    await core.transcripts.ask(SaveDraft(session_id="s", part="text", version=1, body=body))
    shown = await core.transcripts.ask(ShowDraft(session_id="s", part="text"))
    assert shown == (body, ())
    messages = parse_messages([{"role": "user", "content": SECRET[::-1]}], Offenders())
    await core.sessions.ask(SetHistory(session_id="n", messages=messages))


async def test_a_reply_without_a_session_is_gone_when_its_time_is_over(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nobody asks for anything, and with its chain. No ping takes the place of the last line."""
    monkeypatch.setattr(shelf, "KEEP_S", 0.3)
    async with core(SCRIPT, hang_limits=HangLimits(ping_after_s=1e3, silent_idle_s=1e3)) as running:
        cut = await said(running, "one two three", None, max_tokens=1)
        await (await running.sessions.ask(continuation(cut))).wait_outcome()
        await said(running, "fail", None)
        await said(running, "one", None)
        while holders_of(SECRET):
            await trio.sleep(0.05)
        assert await is_gone(running, cut)


async def test_what_the_worker_cannot_forget_is_gone_here(core: CoreFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says so. A worker that is too busy to be asked is asked again, and the session's name waits for it."""
    codes = ["model_busy", "capacity_exhausted", "engine_error"]
    ask = Address[Any].ask

    async def failing(self: Address[Any], question: Question[Any]) -> Any:
        if isinstance(question, SessionCommand) and question.action == "close":
            raise WorkerFault(codes.pop(0), "It would not.")
        return await ask(self, question)

    monkeypatch.setattr(sessions_actor, "MODEL_BUSY_PAUSE_S", 0.01)
    async with core(SCRIPT) as running:
        old = await said(running, "one")
        monkeypatch.setattr(Address, "ask", failing)
        await running.sessions.ask(EndSession(action="close", session_id="s"))
        assert await is_gone(running, old)
        assert await is_unknown(running)
        await said(running, "one")
        assert not codes


@pytest.mark.parametrize("text", ["one", "slow"])
async def test_a_deletion_does_not_wait_for_a_stopped_worker(
    core: CoreFactory, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Idle or in an answer. A request under the same name waits, and finds nothing of the old one in the worker."""
    monkeypatch.setattr(sessions_actor, "CANCELLED_WITHIN_S", 0.05)
    async with core(SCRIPT, hang_limits=HangLimits(cancel_s=HANG_GUARD_S)) as running:
        old = await start(running, chat(text))
        await (wait_text if text == "slow" else Reply.wait_outcome)(old)
        group = json.loads((running.settings.home / "run" / "worker.json").read_text())["pid"]
        os.killpg(group, signal.SIGSTOP)
        await running.sessions.ask(EndSession(action="close", session_id="s"))
        assert await is_gone(running, old.id)
        assert await is_unknown(running)
        assert not await running.sessions.ask(CancelTurn(session_id="s"))  # what still runs is no turn of a new session
        new = await start(running, chat("one"))
        await trio.testing.wait_all_tasks_blocked()
        assert not new.accepted
        os.killpg(group, signal.SIGCONT)
        outcome = await finished(new)
        assert outcome.metrics.session_reset_reason == "new"
        assert running.board.value.worker.epoch == 1
        assert await is_gone(running, old.id)
