"""Drives a real TranscriptStore as a Turn does, step by step, and checks each one against conversation_model.py."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from actors.kernel import Mailbox
from actors.reply import Reply
from actors.sessions.answer import Answer
from actors.sessions.history import TurnHistory
from actors.transcripts.actor import TranscriptStore
from actors.transcripts.messages import ListSessions, SessionView, ShowSession, TranscriptMessage
from muse.api.message import Message
from muse.chat.channels import parser_for
from muse.chat.splice import segments_of
from muse.errors import ClientFault, MuseError
from muse.protocol import IdsSegment, Ready, TextSegment, Tokens
from muse.worker.residency import common_prefix, reset_reason
from tests.actors.conversation_model import (
    MODELS,
    OPENED,
    Given,
    HistoryModel,
    Session,
    ToyVocabulary,
    kind_of,
    request_of,
    said,
    silent_before,
)
from tests.in_process_jobs import in_process_renderer

T = TypeVar("T")


@attrs.define
class Open:
    """A turn between its prompt and its end."""

    history: TurnHistory
    answer: Answer
    reply: Reply
    messages: tuple[Message, ...]
    prompt: list[int]
    raw: str = ""


class StoreDriver(RuleBasedStateMachine):
    """Sessions of a store and of the model beside it, and the way of a turn through both. Rules are added to it."""

    @initialize(kind=st.sampled_from(MODELS))
    def begin(self, kind: Ready) -> None:
        mailbox = Mailbox[TranscriptMessage]("store")
        self.store = TranscriptStore(inbox=mailbox.inbox, renderer=in_process_renderer())
        self.address = mailbox.address
        self.vocabulary = ToyVocabulary()
        self.model = kind
        self.histories = HistoryModel()
        self.clients: dict[str, list[Message]] = {}
        self.open: dict[str, Open] = {}
        self.cut: dict[str, Open] = {}
        self.overtaken: list[Open] = []
        self.resident: dict[str, list[int]] = {}
        self.exact: dict[str, tuple[Message, ...]] = {}
        """What the client has after an undisturbed turn, while all of it is resident and not forgotten."""
        self.number = 0

    # ------------------------------------------------------------ helpers

    @property
    def sessions(self) -> OrderedDict[str, Session]:
        return self.histories.sessions

    def visit(self, act: Callable[[], Awaitable[T]]) -> tuple[T, tuple[SessionView, ...]]:
        """Do something with the store running; gives its sessions afterwards."""

        async def main() -> tuple[T, tuple[SessionView, ...]]:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.store.run)
                result = await act()
                summaries = await self.address.ask(ListSessions())
                views = [await self.address.ask(ShowSession(session_id=known.session_id)) for known in summaries]
                assert summaries == tuple(view.summary for view in views)
                nursery.cancel_scope.cancel()
            return result, tuple(views)

        return trio.run(main)

    # ------------------------------------------------------------ the way of a turn

    def make(self, session_id: str, messages: Sequence[Message]) -> Open:
        """A turn up to its prompt, which is checked."""
        self.number += 1
        request = request_of(session_id, messages)
        reply = Reply(f"r{self.number}", session_id)
        history = TurnHistory(request=request, reply=reply, transcripts=self.address, earlier=None)
        parts, _ = self.visit(lambda: history.prompt(self.model))
        segments = segments_of(parts)
        for part in parts:
            # What people are shown of ids is what they spell.
            if isinstance(part.segment, IdsSegment):
                assert part.spelled == self.vocabulary.spelled(part.segment.ids)
        answer = Answer(
            reply=reply,
            model=self.model,
            parts=parts,
            parser=parser_for(self.model.chat_template, segments),
            stops=request.stop,
            max_thinking_tokens=None,
        )
        prompt = self.vocabulary.encode(segments)
        assert self.vocabulary.spelled(prompt) == self.histories.prompt(session_id, messages, self.model)
        assert prompt.count(257) == len(messages) + 1  # its control tokens are those of the roles
        return Open(history=history, answer=answer, reply=reply, messages=tuple(messages), prompt=prompt)

    def refusal(self, session_id: str, messages: Sequence[Message]) -> str:
        """Why no prompt is made of these messages."""
        request, reply = request_of(session_id, messages), Reply("refused", session_id)
        history = TurnHistory(request=request, reply=reply, transcripts=self.address, earlier=None)

        async def ask() -> str:
            try:
                await history.prompt(self.model)
            except ClientFault as fault:
                return fault.code
            return ""

        return self.visit(ask)[0]

    def take(self, session_id: str, turn: Open) -> None:
        """The worker takes the prompt: what it reuses is what the history promises; then the turn is committed."""
        resident = self.resident.get(session_id, [])
        reused = min(common_prefix(resident, turn.prompt), len(turn.prompt) - 1)
        whole = turn.prompt[: len(resident)] == resident
        reason = reset_reason(resident, turn.prompt, reused)
        if resident and turn.prompt != resident:
            assert (reason == "exact_prefix") == whole
        before = self.exact.pop(session_id, None)
        if self.histories.hidden(session_id, turn.messages, self.model):
            before = None  # an answer without its ids is another text
        if before is not None and session_id in self.sessions and turn.messages[: len(before)] == before:
            assert whole
        turn.reply.accept(self.model.model_id)
        self.visit(turn.history.commit)
        began = turn.history._began
        assert began is not None
        self.histories.commit(session_id, turn.messages, began, turn.reply.id)
        self.open[session_id] = turn
        self.cut.pop(session_id, None)

    def generate(self, turn: Open, pieces: Sequence[str], *, known: bool = True) -> tuple[int, ...]:
        """Words come from the worker, until a stop string ends the turn."""
        ids: list[int] = []
        for piece in pieces:
            if turn.answer.stopped:
                break
            token = self.vocabulary.word(piece)
            ids.append(token)
            turn.raw += piece
            turn.answer.take(Tokens(request_id="", ids=(token,) if known else None, text=piece))
        return tuple(ids)

    def conclude(
        self, session_id: str, turn: Open, last: tuple[int, ...] | None, fault: MuseError | None = None
    ) -> None:
        """The turn is recorded, as Turn does it; the client and the worker have what they have."""
        if fault is None:
            turn.answer.flush(is_cut=False)
        content = turn.reply.text("answer") if not turn.answer._earlier["answer"] else turn.answer.text("answer")
        self.visit(lambda: turn.history.record(turn.answer, last_ids=last, fault=fault))
        tokens = turn.answer.generated.ids()
        exact = tokens is not None and last is not None and not turn.answer.stopped
        self.open.pop(session_id)
        self.clients[session_id] = [*turn.messages, said("assistant", content)]
        self.resident[session_id] = turn.prompt + self.vocabulary.encode(turn.answer.generated.segments())
        cost = len(turn.answer.text("reasoning")) + (4 * len(tokens) + len(turn.raw) if exact else 0)
        self.histories.record(
            session_id,
            Given(
                content=content,
                raw=turn.raw if exact else None,
                reasoning=turn.answer.text("reasoning"),
                model_id=turn.reply.model_id,
                cost=cost,
                silent=silent_before(turn.messages, kind_of(turn.reply.model_id)),
            ),
        )
        if exact and turn.raw and content.split("</think>")[-1].lstrip("\n"):
            self.exact[session_id] = tuple(self.clients[session_id])

    def expected_lead(self, session_id: str, messages: Sequence[Message]) -> int:
        """Tokens of what stands before the answer to these messages, as it stands in a history."""
        request, reply = request_of(session_id, messages), Reply("lead", session_id)
        history = TurnHistory(request=request, reply=reply, transcripts=self.address, earlier=None)
        parts, _ = self.visit(lambda: history.prompt(self.model))
        opened = TextSegment(text=OPENED[kind_of(self.model.model_id)], special=True)
        return len(self.vocabulary.encode(segments_of(parts))) - len(self.vocabulary.encode([opened]))
