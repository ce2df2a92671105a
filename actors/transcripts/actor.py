"""TranscriptStore: per session, what was said and the exact ids that were generated.

Inbox: BuildPrompt, RecordTurn, ShowTranscript. Memory only: at most MAX_SESSIONS sessions, the least
recently used is forgotten first. The model's chat template is compiled once for each text of it.

Rendering is CPU work on text that strangers wrote, so it runs in a thread, in a child task: the inbox
stays answered meanwhile.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from datetime import datetime
from functools import lru_cache
from typing import Final, assert_never

import attrs
import trio

from actors.transcripts.messages import (
    BuildPrompt,
    PrepareModel,
    RecordedTurn,
    RecordTurn,
    ShowTranscript,
    TranscriptMessage,
)
from muse.chat.template import ChatTemplate
from muse.errors import InternalFault, MuseError
from muse.protocol import Ready

log = logging.getLogger("muse.transcripts")

MAX_SESSIONS: Final = 64
RENDER_THREADS: Final = 2


@attrs.define(slots=True)
class _Session:
    """started: the date a template may show, pinned so that midnight does not change the prompt."""

    started: datetime
    turns: list[RecordedTurn] = attrs.field(factory=list[RecordedTurn])


@lru_cache(maxsize=4)
def _template_of(model: Ready) -> ChatTemplate:
    """The model's template, compiled once: a large one takes up to 0.3 s, so only ever call this in a
    thread."""
    if model.chat_template is None:
        return ChatTemplate.fallback(special_tokens=model.special_tokens)
    return ChatTemplate.compile(
        model.chat_template,
        bos_token=model.bos_token,
        eos_token=model.eos_token,
        special_tokens=model.special_tokens,
    )


class TranscriptStore:
    """The actor. `run` ends when its inbox is closed."""

    def __init__(self, *, inbox: trio.MemoryReceiveChannel[TranscriptMessage]) -> None:
        self._inbox = inbox
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._threads = trio.CapacityLimiter(RENDER_THREADS)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the inbox is closed."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            async for message in self._inbox:
                match message:
                    case BuildPrompt():
                        nursery.start_soon(self._build, message)
                    case PrepareModel():
                        nursery.start_soon(self._prepare, message.model)
                    case RecordTurn():
                        self._record(message)
                    case ShowTranscript():
                        session = self._sessions.get(message.session_id)
                        message.port.answer(tuple(session.turns) if session is not None else ())
                    case _:
                        assert_never(message)

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session(started=datetime.now().astimezone())
            while len(self._sessions) > MAX_SESSIONS:
                forgotten, _ = self._sessions.popitem(last=False)
                log.info("session-forgotten id=%r", forgotten[:40])
        self._sessions.move_to_end(session_id)
        return session

    def _record(self, message: RecordTurn) -> None:
        turns = self._session(message.session_id).turns
        if message.turn > len(turns):
            # The client brought a history that was not generated here: its turns are known as text only.
            turns.extend(RecordedTurn(content="", ids=None) for _ in range(message.turn - len(turns)))
        del turns[message.turn :]
        turns.append(RecordedTurn(content=message.content, ids=message.ids))

    async def _prepare(self, model: Ready) -> None:
        try:
            await trio.to_thread.run_sync(_template_of, model, limiter=self._threads)
        except MuseError as fault:
            log.warning("template-refused code=%s", fault.code)  # said to each request that needs it

    async def _build(self, message: BuildPrompt) -> None:
        now = datetime.now().astimezone() if message.session_id is None else self._session(message.session_id).started
        try:
            segments = await trio.to_thread.run_sync(
                lambda: _template_of(message.model).render_segments(message.messages, now=now), limiter=self._threads
            )
        except MuseError as fault:
            message.port.fail(fault)
        except Exception:
            # Barrier: a stranger's text must not end the store.
            log.exception("prompt-not-built")
            message.port.fail(InternalFault("internal_error", "The prompt could not be built."))
        else:
            message.port.answer(segments)
