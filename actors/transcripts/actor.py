"""TranscriptStore: per session, what was said and the exact ids that were generated (sessions.py), and what is about to
be said (drafts.py).

Inbox: BuildPrompt, CommitTurn, RecordTurn, ReplaceHistory, ShowSession, ListSessions, SaveDraft, ShowDraft,
ForgetSession, PrepareModel. The model's chat template is compiled once for each text of it.

Rendering is CPU work on text that strangers wrote, so it runs in a thread, in a child task: the inbox
stays answered meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, assert_never

import trio

from actors.transcripts.drafts import Drafts
from actors.transcripts.messages import (
    BuildPrompt,
    CommitTurn,
    ForgetSession,
    ListSessions,
    PrepareModel,
    Prompt,
    RecordTurn,
    ReplaceHistory,
    SaveDraft,
    ShowDraft,
    ShowSession,
    TranscriptMessage,
    session_busy,
)
from actors.transcripts.sessions import Histories
from muse.chat.splice import KnownAnswer, PromptPart
from muse.chat.template import ChatTemplate
from muse.errors import ClientFault, InternalFault, MuseError
from muse.protocol import Ready

log = logging.getLogger("muse.transcripts")

RENDER_THREADS: Final = 2


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


def _parts(message: BuildPrompt, now: datetime, known: Mapping[int, KnownAnswer]) -> tuple[PromptPart, ...]:
    """Render a prompt; to be called in a thread. Raises MuseError."""
    template = _template_of(message.model)
    if any(said.images for said in message.messages) and not message.model.supports.ids_with_images:
        # Ids will be spelled out, and all of the prompt read as one text.
        template.check_spellings(message.messages)
        known = {index: answer for index, answer in known.items() if template.spelled_in(answer.reasoning) is None}
    return template.render_parts(message.messages, now, message.options, message.tools, known)


class TranscriptStore:
    """The actor. `run` ends when its inbox is closed."""

    def __init__(self, *, inbox: trio.MemoryReceiveChannel[TranscriptMessage]) -> None:
        self._inbox = inbox
        self._histories = Histories()
        self._drafts = Drafts()
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
                    case CommitTurn():
                        self._histories.commit(message)
                    case RecordTurn():
                        self._histories.record(message)
                    case ReplaceHistory():
                        self._replace(message)
                    case ShowSession():
                        self._show(message)
                    case ListSessions():
                        message.port.answer(self._histories.views())
                    case SaveDraft():
                        message.port.answer(self._drafts.save(message))
                    case ShowDraft():
                        message.port.answer(self._drafts.show(message.session_id, message.part))
                    case ForgetSession():
                        self._histories.forget(message.session_id)
                        self._drafts.forget(message.session_id)
                        message.port.answer(None)
                    case _:
                        assert_never(message)

    def _replace(self, message: ReplaceHistory) -> None:
        if self._histories.replace(message.session_id, message.messages, datetime.now().astimezone()):
            message.port.answer(None)
        else:
            message.port.fail(session_busy())

    def _show(self, message: ShowSession) -> None:
        view = self._histories.view(message.session_id)
        if view is not None:
            message.port.answer(view)
            return
        message.port.fail(
            ClientFault(
                "session_not_found",
                "There is no such session here. Sessions live in the server's memory: a restart forgets all of "
                "them, and the one used longest ago gives way when there are too many.",
                status=404,
            )
        )

    async def _prepare(self, model: Ready) -> None:
        try:
            await trio.to_thread.run_sync(_template_of, model, limiter=self._threads)
        except MuseError as fault:
            log.warning("template-refused code=%s", fault.code)  # said to each request that needs it

    async def _build(self, message: BuildPrompt) -> None:
        session_id, messages, model = message.session_id, message.messages, message.model
        now = self._histories.started(session_id) or datetime.now().astimezone()
        known = self._histories.known_answers(session_id, messages, model.model_id)
        try:
            parts = await trio.to_thread.run_sync(_parts, message, now, known, limiter=self._threads)
        except MuseError as fault:
            message.port.fail(fault)
        except Exception:
            # Barrier: a stranger's text must not end the store.
            log.exception("prompt-not-built")
            message.port.fail(InternalFault("internal_error", "The prompt could not be built."))
        else:
            message.port.answer(Prompt(parts=parts, started=now))
