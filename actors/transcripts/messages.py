"""Messages of the TranscriptStore."""

from __future__ import annotations

import attrs

from actors.kernel import Question
from muse.api.message import Message
from muse.protocol import Ready, Segment


@attrs.frozen(kw_only=True)
class BuildPrompt(Question[tuple[Segment, ...]]):
    """Turn -> store: the prompt of a conversation for this model, as segments: scaffold with control
    tokens, everything a client wrote without. Fails with a ClientFault when the template refuses the
    conversation or would drop a message."""

    session_id: str | None
    messages: tuple[Message, ...]
    model: Ready


@attrs.frozen(kw_only=True)
class PrepareModel:
    """Session manager -> store: this model is there now. Its template is compiled before anybody waits."""

    model: Ready


@attrs.frozen(kw_only=True)
class RecordTurn:
    """Turn -> store: a named session's turn is over. ids: exactly what was generated, or None when any
    id is unknown; `turn` is the ordinal of the assistant message it will be in the next request."""

    session_id: str
    turn: int
    content: str
    ids: tuple[int, ...] | None


@attrs.frozen(kw_only=True)
class RecordedTurn:
    """One assistant turn as the store keeps it."""

    content: str
    ids: tuple[int, ...] | None


@attrs.frozen(kw_only=True)
class ShowTranscript(Question[tuple[RecordedTurn, ...]]):
    """Anyone -> store: the recorded turns of a session, oldest first; empty if unknown."""

    session_id: str


TranscriptMessage = BuildPrompt | PrepareModel | RecordTurn | ShowTranscript
