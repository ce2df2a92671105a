"""Messages of the TranscriptStore."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import attrs

from actors.kernel import Question
from muse.api.message import Message
from muse.api.metrics import MuseMetrics
from muse.api.template_options import NO_OPTIONS, TemplateOptions
from muse.api.tools import Tool, ToolCall
from muse.chat.splice import PromptPart
from muse.errors import ClientFault, MuseError
from muse.protocol import Ready


@attrs.frozen(kw_only=True)
class Prompt:
    """started: the date the template saw; it becomes the session's when the turn is committed."""

    parts: tuple[PromptPart, ...]
    started: datetime


@attrs.frozen(kw_only=True)
class BuildPrompt(Question[Prompt]):
    """Turn -> store: the prompt of a conversation for this model, as segments: scaffold with control
    tokens, everything a client wrote without, known answers as their ids. Changes nothing. Fails with a
    ClientFault when the template refuses the conversation or would drop a message."""

    session_id: str | None
    messages: tuple[Message, ...]
    model: Ready
    options: TemplateOptions = NO_OPTIONS
    tools: tuple[Tool, ...] = ()


@attrs.frozen(kw_only=True)
class CommitTurn:
    """Turn -> store: the worker took the prompt. From now on these messages are the session's history:
    answers that differ from what was recorded, and all later ones, lose their ids. To be followed by
    RecordTurn. begun: the cut answer that this turn continues."""

    session_id: str
    messages: tuple[Message, ...]
    started: datetime
    reply_id: str
    begun: RecordedTurn | None = None


@attrs.frozen(kw_only=True)
class RecordedTurn:
    """One answer as it was given. content, reasoning, tool_calls: what was sent. ids: exactly what was generated, None
    when any is unknown or the text does not show all of it. spelled: what the ids spell, control tokens included.
    header: the end of its prompt (muse/chat/splice.py). model_id: whose ids they are. fault: why it ended, if it was
    not given to its end. details: of an answer that was not given here (its reply_id is empty), what a client shows
    beside it (muse/api/message_details.py)."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    ids: tuple[int, ...] | None = None
    spelled: str = ""
    header: str = ""
    model_id: str = ""
    reply_id: str = ""
    metrics: MuseMetrics | None = None
    fault: MuseError | None = None
    details: str = ""


@attrs.frozen(kw_only=True)
class RecordTurn:
    """Turn -> store: a committed turn is over. The turn comes behind the messages that were committed."""

    session_id: str
    reply_id: str
    turn: RecordedTurn


@attrs.frozen(kw_only=True)
class SessionSummary:
    """running: id of the reply that is being given. turns: how many answers there are, with that which is being given
    if it continues a cut one. exact_turns: of how many the ids are known."""

    session_id: str
    started: datetime
    running: str | None
    turns: int
    exact_turns: int


@attrs.frozen(kw_only=True)
class SessionView:
    """messages: the visible history. turns: by index of the message, what is known of answers given here;
    one index more than there are messages: the answer that nobody has sent back yet, or the beginning of the one that
    is being given, if that continues a cut one. running: id of the reply that is being given."""

    session_id: str
    started: datetime
    messages: tuple[Message, ...]
    turns: dict[int, RecordedTurn]
    running: str | None

    @property
    def summary(self) -> SessionSummary:
        """The same without its messages."""
        return SessionSummary(
            session_id=self.session_id,
            started=self.started,
            running=self.running,
            turns=len(self.turns),
            exact_turns=sum(turn.ids is not None for turn in self.turns.values()),
        )

    @classmethod
    def of_nothing(cls, session_id: str) -> SessionView:
        """A session in which nothing was said yet."""
        now = datetime.now().astimezone()
        return cls(session_id=session_id, started=now, messages=(), turns={}, running=None)


@attrs.frozen(kw_only=True)
class ShowSession(Question[SessionView]):
    """Anyone -> store: what a session is. Fails with 404 `session_not_found`."""

    session_id: str


@attrs.frozen(kw_only=True)
class ListSessions(Question[tuple[SessionSummary, ...]]):
    """Anyone -> store: all sessions, the one used last first."""


@attrs.frozen(kw_only=True)
class ReplaceHistory(Question[None]):
    """Session manager -> store: the client changed the visible history without a request. Answers that differ
    from what was recorded, and all later ones, lose their ids. Fails with 409 while a turn is being given."""

    session_id: str
    messages: tuple[Message, ...]


DraftPart = Literal["text", "files"]
"""Saved apart, since one is small and changes with every word, and the other is large and does not."""


@attrs.frozen(kw_only=True)
class SaveDraft(Question[bool]):
    """Front -> store: what a client is about to say in a session, which may not have begun. Answers whether it is
    kept: a newer version is not replaced by an older one. body: a JSON object, opaque. adds: it comes from a client
    that has not seen what is kept, so it stands beside that."""

    session_id: str
    part: DraftPart
    version: int
    body: bytes = attrs.field(repr=False)
    adds: bool = False


@attrs.frozen(kw_only=True)
class ShowDraft(Question[tuple[bytes | None, tuple[bytes, ...]]]):
    """Front -> store: the body that was saved last, None if there is none, and those that were added to it since."""

    session_id: str
    part: DraftPart


@attrs.frozen(kw_only=True)
class ForgetSession(Question[None]):
    """Session manager -> store: drop a session, everything in it, and its draft. An unknown one is fine."""

    session_id: str


@attrs.frozen(kw_only=True)
class PrepareModel:
    """Session manager -> store: this model is there now. Its template is compiled before anybody waits."""

    model: Ready


TranscriptMessage = (
    BuildPrompt
    | CommitTurn
    | RecordTurn
    | ReplaceHistory
    | ShowSession
    | ListSessions
    | SaveDraft
    | ShowDraft
    | ForgetSession
    | PrepareModel
)


def session_busy() -> ClientFault:
    """Its history cannot be changed while an answer is being given, or waits."""
    return ClientFault("session_busy", "An answer of this session is being given. Cancel it first.", status=409)
