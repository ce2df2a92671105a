"""Histories: what each session said, as text and as exact ids. Plain state, no await; the store owns it.

Rules:
- Nothing changes until the worker has taken a prompt (`commit`), so a request that fails leaves the old
  history standing.
- An answer's ids count while the client hands the answer back as it was sent. The first answer that differs
  loses its ids, and so do all later ones; their text is what the client says. What is shown beside an answer (its
  reasoning, metrics) stays with it as long as the answer itself is there and says the same, wherever it stands.
- Memory only. At most MAX_SESSIONS sessions, MAX_CHARS characters (an id counts as four, a message and a call as
  MESSAGE_CHARS more) and MAX_PICTURE_BYTES of pictures in all, each of these counted once: the session used longest ago
  is forgotten first, never one whose answer is being given.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from actors.transcripts.messages import CommitTurn, RecordedTurn, RecordTurn, SessionSummary, SessionView
from muse.api.images import Picture, bytes_in_memory
from muse.api.message import MESSAGE_CHARS, Message, call_chars, pictures_of, text_chars
from muse.api.tool_messages import key_of_calls, same_calls
from muse.chat.splice import KnownAnswer

log = logging.getLogger("muse.transcripts")

MAX_SESSIONS: Final = 64
MAX_CHARS: Final = 64 * 1024 * 1024
MAX_PICTURE_BYTES: Final = 256 * 1024 * 1024
"""As they are kept: in base64."""
_ID_CHARS: Final = 4


@attrs.define(slots=True)
class _Session:
    """turns: by ordinal among the answers of `messages`, the newest one not yet being among them. begun: what the
    running turn continues. chars: what it costs, without its pictures. exact_turns: how many have their ids."""

    started: datetime
    messages: tuple[Message, ...] = ()
    turns: list[RecordedTurn] = attrs.field(factory=list[RecordedTurn])
    running: str | None = None
    begun: RecordedTurn | None = None
    chars: int = 0
    exact_turns: int = 0
    pictures: frozenset[Picture] = frozenset()


class Histories:
    """All sessions, the one used last at the end."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._chars = 0

    def started(self, session_id: str | None) -> datetime | None:
        """When the session began, None if there is none."""
        session = self._sessions.get(session_id) if session_id is not None else None
        return session.started if session is not None else None

    def known_answers(
        self, session_id: str | None, messages: tuple[Message, ...], model_id: str
    ) -> Mapping[int, KnownAnswer]:
        """By message index: the answers in `messages` whose ids are known and still right."""
        session = self._sessions.get(session_id) if session_id is not None else None
        if session is None:
            return {}
        known: dict[int, KnownAnswer] = {}
        answers = (index for index, message in enumerate(messages) if message.role == "assistant")
        for index, turn in zip(answers, session.turns, strict=False):
            if not _is_same(turn, messages[index]):
                break
            if turn.ids is not None and turn.model_id == model_id:
                known[index] = KnownAnswer(
                    ids=turn.ids, header=turn.header, reasoning=turn.reasoning, spelled=turn.spelled
                )
        return known

    def commit(self, message: CommitTurn) -> None:
        """A prompt was taken: its messages are the history now."""
        session_id, running = message.session_id, message.reply_id
        self._set(session_id, message.messages, message.started, running=running, begun=message.begun)

    def replace(self, session_id: str, messages: tuple[Message, ...], now: datetime) -> bool:
        """The client changed the history without a request; false while a turn is being given."""
        session = self._sessions.get(session_id)
        if session is not None and session.running is not None:
            return False
        self._set(session_id, messages, now, running=None, begun=None)
        return True

    def _set(
        self,
        session_id: str,
        messages: tuple[Message, ...],
        started: datetime,
        *,
        running: str | None,
        begun: RecordedTurn | None,
    ) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session(started=started)
        answers = [given for given in messages if given.role == "assistant"]
        kept: list[RecordedTurn] = []
        for given, turn in zip(answers, session.turns, strict=False):
            if not _is_same(turn, given):
                break
            kept.append(turn)
        # From the first difference on the client's word is all there is.
        kept += _without_ids(session.turns[len(kept) :], answers[len(kept) :])
        kept = [_with_details(turn, given) for turn, given in zip(kept, answers, strict=True)]
        session.turns, session.messages, session.running, session.begun = kept, messages, running, begun
        self._sessions.move_to_end(session_id)
        self._weigh(session)
        self._tidy()

    def record(self, message: RecordTurn) -> None:
        """The committed turn is over. One that was overtaken by another (its session was reset meanwhile) is
        not recorded."""
        session = self._sessions.get(message.session_id)
        if session is None or session.running != message.reply_id:
            log.info("turn-of-a-forgotten-session reply=%s", message.reply_id)
            return
        session.running = session.begun = None
        session.turns.append(message.turn)
        self._weigh(session)
        self._tidy()

    def forget(self, session_id: str) -> None:
        """Drop a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._chars -= session.chars

    def view(self, session_id: str) -> SessionView | None:
        """A session as it is, None if there is none."""
        session = self._sessions.get(session_id)
        if session is None:
            return None
        answers = [index for index, given in enumerate(session.messages) if given.role == "assistant"]
        places = [*answers, len(session.messages)]
        turns = [*session.turns, session.begun] if session.begun is not None else session.turns
        return SessionView(
            session_id=session_id,
            started=session.started,
            messages=session.messages,
            turns=dict(zip(places, turns, strict=False)),
            running=session.running,
        )

    def summaries(self) -> tuple[SessionSummary, ...]:
        """All sessions, the one used last first. Takes as long whatever was said in them."""
        return tuple(
            SessionSummary(
                session_id=session_id,
                started=session.started,
                running=session.running,
                turns=len(session.turns) + (session.begun is not None),
                exact_turns=session.exact_turns,
            )
            for session_id, session in reversed(self._sessions.items())
        )

    def _weigh(self, session: _Session) -> None:
        self._chars -= session.chars
        given = [*session.turns, session.begun] if session.begun is not None else session.turns
        turns = sum(
            MESSAGE_CHARS
            + len(turn.content)
            + len(turn.reasoning)
            + len(turn.spelled)
            + len(turn.details)
            + call_chars(turn.tool_calls)
            + _ID_CHARS * len(turn.ids or ())
            for turn in given
        )
        session.chars = text_chars(session.messages) + turns
        session.exact_turns = sum(turn.ids is not None for turn in given)
        session.pictures = pictures_of(session.messages)
        self._chars += session.chars

    def _tidy(self) -> None:
        # The last one is the one that is used just now.
        for session_id in list(self._sessions)[:-1]:
            if (
                len(self._sessions) <= MAX_SESSIONS
                and self._chars <= MAX_CHARS
                and bytes_in_memory(session.pictures for session in self._sessions.values()) <= MAX_PICTURE_BYTES
            ):
                return
            if self._sessions[session_id].running is None:
                log.info("session-forgotten id=%r", session_id[:40])
                self.forget(session_id)


def _without_ids(turns: Sequence[RecordedTurn], answers: Sequence[Message]) -> list[RecordedTurn]:
    """What is known of each answer, from the first that differs on: that of the next turn that says the same, for
    answers may have been taken out; else what the client says."""
    places: dict[object, deque[int]] = {}
    for place, turn in enumerate(turns):
        places.setdefault((turn.content, key_of_calls(turn.tool_calls)), deque()).append(place)
    known: list[RecordedTurn] = []
    behind = -1
    for given in answers:
        same = places.get((given.content, key_of_calls(given.tool_calls)), deque())
        while same and same[0] <= behind:
            same.popleft()
        if same:
            behind = same.popleft()
            known.append(attrs.evolve(turns[behind], ids=None, spelled=""))
        else:
            known.append(RecordedTurn(content=given.content, tool_calls=given.tool_calls))
    return known


def _with_details(turn: RecordedTurn, given: Message) -> RecordedTurn:
    """Of an answer of our own we know them; of others a client may tell them."""
    return turn if turn.reply_id or not given.details else attrs.evolve(turn, details=given.details)


def _is_same(turn: RecordedTurn, given: Message) -> bool:
    """The client hands back what was sent. Reasoning is no part of it: it lives in the ids."""
    return turn.content == given.content and same_calls(turn.tool_calls, given.tool_calls)
