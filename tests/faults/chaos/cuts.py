"""Scenarios in which an answer is cut: cancelled, left, told to answer now, its session ended; and goes on."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import trio

from tests.faults.chaos.client import CHAT, Refused
from tests.faults.chaos.known import MOST_TOKENS, ByHeart, Free, Nano, Question, Want
from tests.faults.chaos.reading import Said, StreamReader, Wrong
from tests.faults.chaos.talk import Talk

BREAK: Final = "\n\n"
"""Between two messages of reasoning."""


async def cancel_and_continue(talk: Talk) -> None:
    """Cancelled by id at a random place, then continued, perhaps cancelled again: all parts together are the answer."""
    question = talk.model.long(talk.chance)
    body = question.body([], stream=True)
    if talk.chance.random() < 0.5:
        body["session_id"] = talk.new_session()
    talk.pending = "cancelled by id"
    said = await _cancelled(talk, body, question.want)
    if said is not None:
        await _go_on(talk, said, question)


async def leave_and_continue(talk: Talk) -> None:
    """The connection is closed at a random place, which is a cancel; the reply is read again, and continued."""
    question = talk.model.long(talk.chance)
    reader = StreamReader(numbered=False)
    cut = talk.client.random_cut()
    talk.pending = "left"
    try:
        await talk.client.read(reader, "POST", CHAT, question.body([], stream=True), cut)
    except Refused as fault:
        question.want.check_start(fault.said)
        raise
    question.want.check_start(reader.said)
    reply_id = talk.client.exchanges[-1].headers.get("muse-reply-id")
    if reply_id is None:
        talk.log.right("left before the headers")
        return
    said = await talk.client.read_again(reply_id)
    for had, has in ((reader.said.reasoning, said.reasoning), (reader.said.answer, said.answer)):
        if not has.startswith(had):
            raise Wrong(f"read was {had!r}, the reply has {has!r}")
    if said.is_cancelled:
        question.want.check_start(said)
        talk.right(said)
        await _go_on(talk, said, question)
    else:
        question.want.check(said)
        talk.right(said)


async def answer_now(talk: Talk) -> None:
    """A thought is ended by the client, or by its budget: what was thought until then is the thought's beginning."""
    assert isinstance(talk.model, Nano)
    question = talk.model.thinking(talk.chance)
    assert isinstance(question.want, ByHeart)
    body = question.body([], stream=True, max_tokens=MOST_TOKENS)
    if talk.chance.random() < 0.3:
        talk.pending = "thinking budget"
        body["muse"] = {"max_thinking_tokens": talk.chance.randrange(1, 12)}
        said = await talk.client.streamed(body)
    else:
        talk.pending = "answer now"
        said = await _answered_now(talk, body)
    _check_ended_thought(said.reasoning, question.want.reasoning)
    Free().check(said)
    talk.right(said)


def _check_ended_thought(thought: str, known: str) -> None:
    """The known thought up to where it was ended. Put off its dialogue, the model may go on with another thought."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(thought, known, strict=False)))
    if not (same == len(thought) or thought[same:].startswith(BREAK) or known[:same].endswith(BREAK)):
        raise Wrong(f"thought {thought!r}, not {known!r}")


async def ended_session(talk: Talk) -> None:
    """Reset or closed at a random moment of an answer, which ends as cancelled; the next turn begins anew."""
    question, session = talk.model.long(talk.chance), talk.new_session()
    body = question.body([], session_id=session)
    talk.pending = "its session ended"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_session, talk, session, talk.chance.random())
        try:
            said = await talk.client.streamed(body)
        except Refused as fault:
            question.want.check_start(fault.said)
            raise
    (question.want.check_start if said.is_cancelled else question.want.check)(said)
    talk.right(said)
    await talk.ask("after its session ended", body, question.want)


async def _end_session(talk: Talk, session: str, after_s: float) -> None:
    await trio.sleep(after_s)
    if talk.chance.random() < 0.5:
        ended = await talk.client.send("POST", f"/v1/sessions/{session}/reset", {})
    else:
        ended = await talk.client.send("DELETE", f"/v1/sessions/{session}")
    if ended["session_id"] != session:
        raise Wrong(f"ended {ended}")


async def _cancelled(talk: Talk, body: dict[str, object], want: Want) -> Said | None:
    """A streamed answer that is cancelled on its way, as far as it came; None if it came to its end."""
    reader, lines_left = StreamReader(numbered=False), talk.chance.randrange(1, 40)
    try:
        async with talk.client.stream("POST", CHAT, body) as lines:
            reply_id = talk.client.exchanges[-1].headers["muse-reply-id"]
            async for line in lines:
                reader.feed(line)
                lines_left -= 1
                if not lines_left:
                    await talk.cancel(reply_id=reply_id)
        reader.check_ended()
        if reader.said.error is not None:
            raise Refused(reader.said.error, status=None, retry_after=None, waited_s=0.0)
    except Refused as fault:
        fault.said = reader.said
        want.check_start(reader.said)
        raise
    if reader.said.is_cancelled:
        want.check_start(reader.said)
        talk.right(reader.said)
        return reader.said
    want.check(reader.said)
    talk.right(reader.said)
    return None


async def _go_on(talk: Talk, said: Said, question: Question) -> None:
    """Continue a cut answer to its end, over some more cancels; all of it must be as wanted."""
    want = question.want
    same = {name: value for name, value in question.fields.items() if name in ("temperature", "max_tokens")}
    while True:
        talk.pending = "continued"
        options = {"chat_template_kwargs": {"return_reasoning": True}, "stream": True}
        body = {"muse": {"continue": said.reply_id}, **options, **same}
        try:
            if talk.chance.random() < 0.3:
                more = await _cancelled(talk, body, Rest(said, want))
                if more is None:
                    return
                said = said.followed_by(more)
                continue
            more = await talk.client.streamed(body)
        except Refused as fault:
            if fault.code == "reply_complete" and not said.reasoning and not said.answer:
                return  # not a token came before the cut
            want.check_start(said.followed_by(fault.said))
            raise
        whole = said.followed_by(more)
        want.check(whole)
        talk.right(more)
        return


class Rest:
    """What an answer goes on with, where another one began it."""

    def __init__(self, before: Said, want: Want) -> None:
        self._before, self._want = before, want

    def check(self, said: Said) -> None:
        self._want.check(self._before.followed_by(said))

    def check_start(self, said: Said) -> None:
        self._want.check_start(self._before.followed_by(said))


async def _answered_now(talk: Talk, body: dict[str, object]) -> Said:
    """Streamed, and told to answer when some of the thought was read."""
    reader, at = StreamReader(numbered=False), talk.chance.randrange(1, 12)
    async with talk.client.stream("POST", CHAT, body) as lines:
        reply_id = talk.client.exchanges[-1].headers["muse-reply-id"]
        async for line in lines:
            reader.feed(line)
            if at and len(reader.said.reasoning) >= at:
                at = 0
                await talk.client.send("POST", f"/api/replies/{reply_id}/answer-now", {})
    reader.check_ended()
    if reader.said.error is not None:
        raise Refused(reader.said.error, status=None, retry_after=None, waited_s=0.0)
    return reader.said
