"""Messages of the TranscriptStore."""

from __future__ import annotations

import attrs

from actors.kernel import ReplyPort
from muse.api.chat_request import Message
from muse.protocol import Ready, Segment

message = attrs.define(frozen=True, slots=True, kw_only=True)


@message
class BuildPrompt:
    """Turn -> store: the prompt of a conversation for this model, as segments: scaffold with control
    tokens, everything a client wrote without. Fails with a ClientFault when the template refuses the
    conversation or would drop a message."""

    session_id: str | None
    messages: tuple[Message, ...]
    model: Ready
    port: ReplyPort[tuple[Segment, ...]]


@message
class RecordTurn:
    """Turn -> store: a named session's turn is over. ids: exactly what was generated, or None when any
    id is unknown; `turn` is the ordinal of the assistant message it will be in the next request."""

    session_id: str
    turn: int
    content: str
    ids: tuple[int, ...] | None


@message
class RecordedTurn:
    """One assistant turn as the store keeps it."""

    content: str
    ids: tuple[int, ...] | None


@message
class ShowTranscript:
    """Anyone -> store: the recorded turns of a session, oldest first; empty if unknown."""

    session_id: str
    port: ReplyPort[tuple[RecordedTurn, ...]]


TranscriptMessage = BuildPrompt | RecordTurn | ShowTranscript
