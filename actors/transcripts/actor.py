"""TranscriptStore: per session, what was said and the exact ids that were generated (sessions.py), and what is about to
be said (drafts.py).

Inbox: BuildPrompt, CommitTurn, RecordTurn, ReplaceHistory, ShowSession, ListSessions, SaveDraft, ShowDraft,
ForgetSession, PrepareModel.

Prompts are rendered in an isolated process (renderer.py) and waited for in a child task: the inbox stays answered
meanwhile. When the inbox is closed nobody waits for a prompt any more, and what is being rendered is given up.
"""

from __future__ import annotations

import logging
from datetime import datetime
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
from actors.transcripts.renderer import Renderer
from actors.transcripts.sessions import Histories
from muse.errors import ClientFault, InternalFault, MuseError
from muse.protocol import Ready

log = logging.getLogger("muse.transcripts")

ABANDONED_LOOK_S: Final = 0.1
"""How often a rendering looks whether anybody still waits for it."""


class TranscriptStore:
    """The actor. `run` ends when its inbox is closed."""

    def __init__(
        self, *, inbox: trio.MemoryReceiveChannel[TranscriptMessage], renderer: Renderer | None = None
    ) -> None:
        self._inbox = inbox
        self._renderer = renderer if renderer is not None else Renderer()
        self._histories = Histories()
        self._drafts = Drafts()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until the inbox is closed."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._renderer.run)
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
                        message.port.answer(self._histories.summaries())
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
                del message  # or what was said last would be kept until the next message
            nursery.cancel_scope.cancel()

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
            await self._renderer.prepare(model)
        except MuseError as fault:
            log.warning("template-refused code=%s", fault.code)  # said to each request that needs it
        except Exception:
            log.exception("template-not-prepared")  # the barrier around a model file's text

    async def _build(self, message: BuildPrompt) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._render, message, nursery.cancel_scope)
            while not message.port.closed:  # noqa: ASYNC110 - a channel does not tell when its other end closes
                await trio.sleep(ABANDONED_LOOK_S)
            nursery.cancel_scope.cancel()

    async def _render(self, message: BuildPrompt, scope: trio.CancelScope) -> None:
        session_id, messages, model = message.session_id, message.messages, message.model
        now = self._histories.started(session_id) or datetime.now().astimezone()
        known = self._histories.known_answers(session_id, messages, model.model_id)
        try:
            parts = await self._renderer.render(message, now, known)
        except MuseError as fault:
            message.port.fail(fault)
        except Exception:
            # Barrier: a stranger's text must not end the store.
            log.exception("prompt-not-built")
            message.port.fail(InternalFault("internal_error", "The prompt could not be built."))
        else:
            message.port.answer(Prompt(parts=parts, started=now))
        scope.cancel()
