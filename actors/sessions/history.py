"""TurnHistory: what one turn has to do with the transcript of its session.

Order: `prompt` as often as wanted (it changes nothing), `commit` once the worker took it, `record` once at
the end. A turn without a session has prompts only.
"""

from __future__ import annotations

import logging
from datetime import datetime

from actors.kernel import Address
from actors.reply import Reply
from actors.sessions.answer import Answer
from actors.transcripts.messages import BuildPrompt, CommitTurn, RecordedTurn, RecordTurn, TranscriptMessage
from muse.api.chat_request import ChatRequest
from muse.api.metrics import MuseMetrics
from muse.chat.splice import PromptPart
from muse.errors import MuseError, Unavailable
from muse.protocol import Ready

log = logging.getLogger("muse.sessions")


class TurnHistory:
    """For one turn. `earlier`: that of the turn whose answer this one continues. `begun`: that answer so far."""

    def __init__(
        self,
        *,
        request: ChatRequest,
        reply: Reply,
        transcripts: Address[TranscriptMessage],
        earlier: TurnHistory | None,
        begun: RecordedTurn | None = None,
    ) -> None:
        self.begun = begun
        self._request = request
        self._reply = reply
        self._transcripts = transcripts
        self._began: datetime | None = earlier._began if earlier is not None else None
        self.is_committed = False
        self._is_recorded = False
        self.is_cut_off = False

    async def prompt(self, model: Ready) -> tuple[PromptPart, ...]:
        """The prompt as the session's history is now. Raises MuseError."""
        prompt = await self._transcripts.ask(
            BuildPrompt(
                session_id=self._request.session_id,
                messages=self._request.messages,
                model=model,
                options=self._request.template_options,
                tools=self._request.tool_use.tools,
            )
        )
        self._began = prompt.started
        return prompt.parts

    async def commit(self) -> None:
        """The worker took the prompt: its messages are the session's history now."""
        if self.is_committed:
            return
        self.is_committed = True
        if self._request.session_id is not None:
            assert self._began is not None, "no prompt was made"
            await self._transcripts.tell(
                CommitTurn(
                    session_id=self._request.session_id,
                    messages=self._request.messages,
                    started=self._began,
                    reply_id=self._reply.id,
                    begun=self.begun,
                )
            )
            self.begun = None  # the store has it

    async def record(
        self,
        answer: Answer,
        *,
        last_ids: tuple[int, ...] | None = None,
        metrics: MuseMetrics | None = None,
        fault: MuseError | None = None,
    ) -> None:
        """The turn is over. last_ids: what the worker says at the end that it generated."""
        message = self._record(answer, last_ids, metrics, fault)
        if message is not None:
            await self._transcripts.tell(message)

    def record_failure(self, answer: Answer, fault: MuseError) -> None:
        """The turn was ended by a fault of ours. Does not wait."""
        message = self._record(answer, None, None, fault)
        if message is not None:
            try:
                self._transcripts.tell_nowait(message)
            except Unavailable as reason:
                log.warning("turn-not-recorded reply=%s reason=%s", self._reply.id, reason.code)

    def cut_off(self) -> None:
        """The session was deleted: nothing of this turn comes into a history any more."""
        self.is_cut_off = self.is_committed = self._is_recorded = True
        self.begun = None

    def _record(
        self, answer: Answer, last_ids: tuple[int, ...] | None, metrics: MuseMetrics | None, fault: MuseError | None
    ) -> RecordTurn | None:
        session_id = self._request.session_id
        if session_id is None or not self.is_committed or self._is_recorded:
            return None
        self._is_recorded = True
        ids = answer.exact_ids(last_ids)
        turn = RecordedTurn(
            content=answer.text("answer"),
            reasoning=answer.text("reasoning"),
            tool_calls=answer.calls,
            ids=ids,
            spelled=answer.generated.text if ids is not None else "",
            header=answer.header,
            model_id=self._reply.model_id,
            reply_id=self._reply.id,
            metrics=metrics,
            fault=fault,
        )
        return RecordTurn(session_id=session_id, reply_id=self._reply.id, turn=turn)


def begun_by(answer: Answer, reply_id: str) -> RecordedTurn:
    """What a cut answer said, for the turn that continues it."""
    return RecordedTurn(
        content=answer.text("answer"), reasoning=answer.text("reasoning"), tool_calls=answer.calls, reply_id=reply_id
    )
