"""Messages of the SessionManager."""

from __future__ import annotations

import attrs

from actors.kernel import Question
from actors.reply import Reply
from muse.api.chat_request import ChatRequest


@attrs.frozen(kw_only=True)
class StartTurn(Question[Reply]):
    """Front -> manager: answer this request. Answered at once with the Reply to read from (its Turn may
    still wait in the queue), or fails with 429 when the queue is full. Whoever drops the Reply before
    its outcome calls `reply.abandon()`."""

    request: ChatRequest


@attrs.frozen(kw_only=True)
class CancelTurn(Question[bool]):
    """Front -> manager: end one turn, by reply id, or the turn of a session that runs on arrival. The
    answer says whether there was one; a finished reply is never touched, so a late cancel by reply id
    cannot hit a later turn."""

    reply_id: str | None = None
    session_id: str | None = None


@attrs.frozen(kw_only=True)
class FindReply(Question[Reply]):
    """Front -> manager: a reply to read from, running or finished a short while ago. Fails with 404 when it
    is unknown or forgotten."""

    reply_id: str


@attrs.frozen(kw_only=True)
class AnswerNow(Question[bool]):
    """Front -> manager: close the reasoning of a running reply and go on with its answer. Answers whether
    there was reasoning to close; fails with 404 when the reply is unknown."""

    reply_id: str


SessionMessage = StartTurn | CancelTurn | FindReply | AnswerNow
