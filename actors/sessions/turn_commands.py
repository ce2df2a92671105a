"""TurnCommands: what one turn asks of the worker: an answer, and after a death or a cut thought the rest of it.

Waits for the model, for the prompt and for admission. Knows nothing of the worker's events.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from actors.kernel import Address
from actors.reply import Reply
from actors.sessions.answer import Answer, begin_answer
from actors.sessions.history import TurnHistory
from actors.sessions.readiness import check_abilities, check_length, check_room, check_size, wait_model
from actors.state_board import StateBoard
from actors.supervisor.messages import SupervisorMessage
from muse import protocol
from muse.api.chat_request import ChatRequest


class Admission:
    """Between a turn, which makes its prompt, and the queue, which says when it may use the model.

    on_prepared: called when a prompt is ready.
    """

    def __init__(self, on_prepared: Callable[[], None]) -> None:
        self.is_prepared = False
        """The prompt is made, from the history as it is."""
        self.is_admitted = False
        self.is_outdated = False
        """The history changed since the prompt was begun."""
        self._on_prepared = on_prepared
        self._called = trio.Event()

    def admit(self) -> None:
        """The turn may use the model now."""
        self.is_admitted = True
        self._called.set()

    def outdate(self) -> None:
        """The history of its session is another now. Only for a turn that was not admitted."""
        self.is_prepared = False
        self.is_outdated = True
        self._called.set()

    def begin(self) -> None:
        """A prompt is being made."""
        self.is_outdated, self._called = False, trio.Event()

    def report_prepared(self) -> None:
        """The prompt is ready; the turn may be admitted before this returns."""
        self.is_prepared = True
        self._on_prepared()

    async def wait(self) -> bool:
        """Wait for admission; false when the prompt has to be made anew."""
        if not self.is_admitted:
            await self._called.wait()
        return self.is_admitted and not self.is_outdated


class TurnCommands:
    """schema: of a constrained answer. earlier: the cut answer that this one continues, or None."""

    answer: Answer | None = None
    """There is one as soon as there is a prompt."""

    def __init__(
        self,
        *,
        request: ChatRequest,
        reply: Reply,
        board: StateBoard,
        supervisor: Address[SupervisorMessage],
        history: TurnHistory,
        schema: str | None,
        earlier: Answer | None,
    ) -> None:
        self._request = request
        self._reply = reply
        self._board = board
        self._supervisor = supervisor
        self._history = history
        self._schema = schema
        self.earlier = earlier

    async def first(self, admission: Admission) -> protocol.Generate:
        """Wait for the model, build the prompt, wait for admission; again if the history changed meanwhile. Raises
        MuseError."""
        request = self._request
        model = await wait_model(self._board, self._reply)
        check_abilities(request, model)
        await check_length(request, model)
        was_counted = False
        while True:
            admission.begin()
            answer = await self._make_answer(model)
            if admission.is_outdated:
                continue  # while the prompt was made
            admission.report_prepared()
            if not admission.is_admitted and not was_counted:
                # It has to queue: a prompt that can never fit is refused now, not after the wait.
                was_counted = True
                await check_room(self._supervisor, _prompt(answer), model)
            if await admission.wait():
                break
        await wait_model(self._board, self._reply)
        self.earlier = None
        return protocol.Generate(
            request_id=self._reply.id,
            session_id=request.session_id,
            prompt_segments=_prompt(answer),
            max_new_tokens=request.max_tokens,
            sampling=request.sampling,
            json_schema=self._schema,
            constrained_prefix=self._constrained_prefix(answer),
        )

    async def next(self, last: protocol.Generate, *, attempts: int) -> protocol.Generate | None:
        """Wait for a worker and say how to go on; None when there is nothing left to generate. Raises MuseError."""
        await wait_model(self._board, self._reply)
        answer = self.answer
        assert answer is not None
        budget = self._request.max_tokens
        if budget is not None:
            budget -= answer.new_tokens
            if budget <= 0:
                return None
        return attrs.evolve(
            last,
            request_id=f"{self._reply.id}.{attempts}",
            prompt_segments=_prompt(answer),
            max_new_tokens=budget,
            constrained_prefix=self._constrained_prefix(answer),
        )

    async def _make_answer(self, model: protocol.Ready) -> Answer:
        request = self._request
        if self.earlier is not None:
            answer = self.earlier.continue_in(
                self._reply, stops=request.stop, max_thinking_tokens=request.max_thinking_tokens
            )
        else:
            answer = begin_answer(request, self._reply, model, await self._history.prompt(model))
        self.answer = answer
        await check_size(_prompt(answer), self._schema, model)
        return answer

    def _constrained_prefix(self, answer: Answer) -> str:
        """What the model wrote so far, if its answer is constrained; what leads to it is a part of the prompt."""
        return "" if self._schema is None else answer.generated.text


def _prompt(answer: Answer) -> tuple[protocol.Segment, ...]:
    return answer.prompt + answer.generated.segments()
