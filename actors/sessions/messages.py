"""Messages of the SessionManager."""

from __future__ import annotations

from typing import Literal

import attrs

from actors.kernel import Question
from actors.reply import Reply
from actors.transcripts.messages import RecordedTurn, SessionSummary, SessionView
from muse.api.chat_request import CheckedRequest
from muse.api.message import Message
from muse.chat.seen_prompt import SeenPrompt


@attrs.frozen(kw_only=True)
class StartTurn(Question[Reply]):
    """Front -> manager: answer this request. Answered at once with the Reply to read from (its Turn may
    still wait in the queue), or fails with 429 when the queue is full. Whoever drops the Reply before
    its outcome calls `reply.abandon()`."""

    request: CheckedRequest


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
class ShowPrompt(Question[SeenPrompt]):
    """Front -> manager: the prompt of a reply. Fails with 404 when the reply is unknown or forgotten, and when it has
    none (yet)."""

    reply_id: str


@attrs.frozen(kw_only=True)
class AnswerNow(Question[bool]):
    """Front -> manager: close the reasoning of a running reply and go on with its answer. Answers whether
    there was reasoning to close; fails with 404 when the reply is unknown."""

    reply_id: str


@attrs.frozen(kw_only=True)
class WaitingRequest:
    """One that the model has not taken yet. begun: the cut answer that it continues."""

    reply_id: str
    messages: tuple[Message, ...]
    begun: RecordedTurn | None


@attrs.frozen(kw_only=True)
class SessionState:
    """A session as the store knows it, how many tokens of it the model holds (None: cannot be told now), and its
    requests that wait, in their order."""

    view: SessionView
    resident_tokens: int | None
    waiting: tuple[WaitingRequest, ...] = ()


@attrs.frozen(kw_only=True)
class DescribeSession(Question[SessionState]):
    """Front -> manager: what is this session? Fails with 404 when it is unknown or forgotten and no request of it
    waits."""

    session_id: str


@attrs.frozen(kw_only=True)
class DescribeSessions(Question[tuple[SessionSummary, ...]]):
    """Front -> manager: all sessions, the one used last first."""


@attrs.frozen(kw_only=True)
class SetHistory(Question[None]):
    """Front -> manager: these messages are the session's visible history now (an answer was edited). Fails with
    409 while a request of the session runs or waits."""

    session_id: str
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True)
class EndSession(Question[None]):
    """Front -> manager: forget what was said in a session. Its running and waiting turns are cancelled first;
    then what the model holds of it is dropped (`reset` keeps its place there, `close` does not), then the
    transcript: if the worker fails at it, both stay. An unknown session is fine."""

    action: Literal["reset", "close"]
    session_id: str


SessionMessage = (
    StartTurn
    | CancelTurn
    | FindReply
    | ShowPrompt
    | AnswerNow
    | DescribeSession
    | DescribeSessions
    | SetHistory
    | EndSession
)
