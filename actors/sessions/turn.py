"""Turn: one request on its way: waits for the model, is queued, generates, ends. Exactly one outcome.

States: waiting (for the model, the prompt, its place) -> generating -> over; when the worker dies,
generating -> resuming -> generating. The worker's events come in synchronously from the pipe reader
(`on_event`, `on_lost`) and go straight into the Reply; the async part only waits and sends. Cancelled
in whatever phase, the reply still gets its outcome: finish_reason "cancelled", with what was generated
until then.

A dead worker costs a pause: the next one gets the same prompt with everything generated behind it, a
smaller budget, and the same Reply goes on, within the rules of resume_policy.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from actors.kernel import Address, Signal
from actors.reply import Failed, Finished, Reply, Sign
from actors.sessions.answer import Answer
from actors.sessions.backlog import Backlog
from actors.sessions.ending import fault_in_request, finish_reason
from actors.sessions.history import TurnHistory, begun_by
from actors.sessions.resume_policy import ResumePolicy
from actors.sessions.timing import TurnTimes, added_up, decoding, metrics_of, prompt_sign
from actors.sessions.turn_commands import Admission, TurnCommands
from actors.state_board import StateBoard
from actors.supervisor.messages import CancelGeneration, RequestEvent, StartGeneration, SupervisorMessage
from actors.transcripts.messages import TranscriptMessage
from muse import protocol
from muse.api.chat_request import CheckedRequest
from muse.api.message import request_chars
from muse.chat.seen_prompt import SeenPrompt
from muse.errors import MuseError

log = logging.getLogger("muse.sessions")


class Turn:
    """One request. The manager calls `place`, `cancel`, `answer_now` and runs `run`.

    `earlier`: the finished turn whose answer this one continues, or None.
    """

    def __init__(
        self,
        *,
        request: CheckedRequest,
        reply: Reply,
        board: StateBoard,
        supervisor: Address[SupervisorMessage],
        transcripts: Address[TranscriptMessage],
        unattended_s: float,
        on_prepared: Callable[[], None],
        earlier: Turn | None = None,
    ) -> None:
        self.request: Final = request
        self.reply: Final = reply
        self.request_chars: Final = request_chars(request.messages) + request.tool_use.chars
        self._board = board
        self._supervisor = supervisor
        self.history: Final = TurnHistory(
            request=request,
            reply=reply,
            transcripts=transcripts,
            earlier=earlier.history if earlier else None,
            begun=begun_by(earlier.answer, earlier.reply.id) if earlier and earlier.answer else None,
        )
        self._unattended_s = unattended_s
        before = earlier.times.all_thought_s if earlier else 0.0
        self.times: Final = TurnTimes(submitted=trio.current_time(), earlier_thought_s=before)
        self.admission: Final = Admission(on_prepared)
        self._waiting: trio.CancelScope | None = None
        self._attempts = 0
        self._commands = TurnCommands(
            request=request,
            reply=reply,
            board=board,
            supervisor=supervisor,
            history=self.history,
            schema=request.form.schema if request.form is not None else None,
            earlier=earlier.answer if earlier else None,
        )
        self._policy = ResumePolicy()
        self._out_of_budget = False
        self._cancel_wanted = False
        self._close_wanted = False
        self._news = Signal()
        self._backlog = Backlog()
        self._accepted: protocol.Accepted | None = None
        self._done: protocol.Done | None = None
        self._draft: protocol.Draft | None = None
        self._last_ids: tuple[int, ...] | None = None
        self._was_accepted = False
        self._reused = 0
        self._fault: MuseError | None = None

    @property
    def answer(self) -> Answer | None:
        """What is answered, None before there is a prompt."""
        return self._commands.answer

    # ------------------------------------------------------------ the manager's side

    def place(self, position: int) -> None:
        """Tell where in the queue this turn stands, from 1."""
        if not self._attempts:
            self.reply.show(Sign(phase="queued", position=position))

    def cancel(self) -> None:
        """End this turn, in whatever phase it is. Idempotent."""
        self._cancel_wanted = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._news.notify()

    def answer_now(self) -> bool:
        """Close the open reasoning channel and go on with the answer; false if none is open."""
        if self.answer is None or not self.answer.is_thinking or self._cancel_wanted or self.reply.outcome is not None:
            return False
        self._close_wanted = True
        self._news.notify()
        return True

    def seen_prompt(self) -> SeenPrompt | None:
        """The prompt as its first worker took it, or will; None: there is none yet."""
        answer, request = self.answer, self.request
        if answer is None:
            return None
        return SeenPrompt(
            parts=answer.parts,
            messages=request.messages,
            has_tools=bool(request.tool_use.tools),
            begun=answer.begun,
            model=answer.model,
            accepted=self._accepted,
        )

    async def run(self) -> None:
        """Bring the request to its outcome. Cancelled from outside (shutdown): the manager ends the reply."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_readers)
                await self._bring_to_an_end()
                nursery.cancel_scope.cancel()
        finally:
            # A reply that is kept must not keep those alive that it continues.
            self._commands.earlier = self.history.begun = None

    # ------------------------------------------------------------ the way of a request

    async def _watch_readers(self) -> None:
        """Cancel when nobody wants the answer: at once, or for a detached reply after a while."""
        if self.request.detached:
            await self.reply.wait_unattended(self._unattended_s)
            log.info("turn-unattended reply=%s", self.reply.id)
        else:
            await self.reply.abandoned.wait()
        self.cancel()

    async def _bring_to_an_end(self) -> None:
        try:
            command = None
            with self._until_cancelled():
                command = await self._commands.first(self.admission)
            while command is not None and not self._cancel_wanted:
                await self._generate(command)
                if not self._goes_on():
                    break
                last, command = command, None
                with self._until_cancelled():
                    command = await self._commands.next(last, attempts=self._attempts)
                    self._out_of_budget = self._out_of_budget or command is None
        except MuseError as fault:
            self._fault = fault.without_frames()
        await self._conclude()

    @contextmanager
    def _until_cancelled(self) -> Generator[None]:
        """What is waited for inside ends at once when the turn is cancelled; what follows must look."""
        with trio.CancelScope() as self._waiting:
            if self._cancel_wanted:
                self._waiting.cancel()
            yield
        self._waiting = None

    async def _generate(self, command: protocol.Generate) -> None:
        self._attempts += 1
        self._fault = self._done = None
        self._was_accepted = False
        if self.times.started is None:
            self.times.started = trio.current_time()
        await self._supervisor.tell(StartGeneration(command=command, sink=self))
        cancel_sent = False
        while self._done is None and self._fault is None:
            if self._backlog.is_waiting:
                await self._backlog.drain(self._take)
                continue
            if self._was_accepted and not self.history.is_committed:
                await self.history.commit()
                continue
            if (self._cancel_wanted or self._close_wanted) and not cancel_sent:
                cancel_sent = True
                await self._supervisor.tell(CancelGeneration(request_id=command.request_id))
                continue
            await self._news.wait()
        if self._was_accepted:
            await self.history.commit()

    # ------------------------------------------------------------ going on: after a death, after thinking

    def _goes_on(self) -> bool:
        """Is there another attempt to make? Replaces the fault by a better one when the answer is no."""
        if self._cancel_wanted:
            return False
        fault = self._fault
        if fault is None:
            return self._closes_reasoning() or self._repairs_call()
        place = self._generated_tokens()
        self._fault = self._policy.judge(fault, generated=place, accepted=self._was_accepted)
        if self._fault is None:
            log.warning("turn-resumes reply=%s after=%d code=%s", self.reply.id, place, fault.code)
        return self._fault is None

    def _closes_reasoning(self) -> bool:
        wanted, self._close_wanted = self._close_wanted, False
        cut_short = self._done is not None and self._done.finish_reason == "cancelled"
        if not wanted or not cut_short or self.answer is None:
            return False
        # Where the model has ended its thought by itself meanwhile, it only goes on.
        self.answer.close_reasoning()
        return True

    def _repairs_call(self) -> bool:
        ended = self._done is not None and self._done.finish_reason == "stop"
        budget = self.request.max_tokens
        has_room = budget is None or self._generated_tokens() < budget
        return ended and has_room and self.answer is not None and self.answer.repair_call()

    def _generated_tokens(self) -> int:
        return self.answer.new_tokens if self.answer is not None else 0

    # ------------------------------------------------------------ the worker's events (synchronous)

    def on_event(self, event: RequestEvent) -> None:
        """One event of the generation, from the pipe reader."""
        self._offer(event)

    def on_lost(self, fault: MuseError) -> None:
        """The worker is gone."""
        self._offer(fault)

    def _offer(self, event: RequestEvent | MuseError) -> None:
        if self.reply.outcome is None:  # else the system stops: the reply was ended, the worker does not know it yet
            self._backlog.offer(event, self._take)
            if self._backlog.is_waiting or not isinstance(event, protocol.Tokens):
                self._news.notify()

    def _take(self, event: RequestEvent | MuseError) -> None:
        match event:
            case MuseError():
                self._fault = event
            case protocol.Accepted():
                self._accepted = self._accepted or event
                self._was_accepted = True  # by the present worker
                self._reused = event.reused_prompt_tokens
                model = self._board.value.model
                self.reply.accept(model.model_id if model is not None else "")
            case protocol.Progress():
                self.reply.show(prompt_sign(event, self._reused))
            case protocol.Tokens():
                self._on_tokens(event)
            case protocol.Done():
                self._last_ids = event.generated_token_ids
                self._done = attrs.evolve(event, generated_token_ids=None)  # kept once, in the answer
                self._draft = added_up(self._draft, event.draft)
            case protocol.Error():
                self._on_error(event)

    def _on_error(self, event: protocol.Error) -> None:
        if event.code == "context_overflow" and self._generated_tokens():
            self._out_of_budget = True  # resumed with the window exactly full: there is no room for more
        self._fault = fault_in_request(event, self.request, is_constrained=self.request.form is not None)

    def _on_tokens(self, event: protocol.Tokens) -> None:
        answer = self.answer
        assert answer is not None
        if self.times.first_token is None:
            self.times.first_token = trio.current_time()
        answer.take(event)
        self.times.note_thinking(answer.is_thinking, trio.current_time())
        self.reply.show(decoding(answer, self.times))
        if answer.stopped and not self._cancel_wanted:
            self.cancel()
        elif answer.thought_enough and not self._close_wanted:
            self.answer_now()

    # ------------------------------------------------------------ the end

    async def _conclude(self) -> None:
        fault, answer = self._fault, self.answer
        if fault is not None and self._is_failure(fault):
            if answer is not None:
                await self.history.record(answer, fault=fault)
            self.reply.finish(Failed(fault=fault))
            return
        if answer is not None:
            answer.flush(is_cut=self._done is None or self._done.finish_reason != "stop")
        reason = finish_reason(answer, self._done, out_of_budget=self._out_of_budget)
        self.times.ended = trio.current_time()
        self.times.note_thinking(False, self.times.ended)
        metrics = metrics_of(
            self.times,
            self._accepted,
            self._done,
            reason,
            draft=self._draft,
            generated_tokens=self._generated_tokens(),
            answer=answer,
            context=seen.shares() if (seen := self.seen_prompt()) is not None else None,
            max_tokens=self.request.max_tokens,
            attempts=self._attempts,
            resumes=self._policy.resumes,
            schema_notes=self.request.tool_use.notes + (self.request.form.notes if self.request.form else ()),
        )
        if answer is not None:
            # Before the outcome is seen: whoever answers to it must find it in the history.
            await self.history.record(answer, last_ids=self._last_ids, metrics=metrics)
        self._last_ids = None  # ended turns are kept for a while, and this is 36 bytes a token
        self.reply.finish(Finished(finish_reason=reason, metrics=metrics))

    def _is_failure(self, fault: MuseError) -> bool:
        """Whether a fault at the end is one of the answer's: not where that was full, or no longer wanted."""
        if self._out_of_budget:
            return False
        if self._cancel_wanted and self.answer is not None and self.answer.stopped:
            # Its own end, such as a stop string. What came before must have the form that was promised.
            return self.request.form is not None and fault.code == "engine_error"
        return not self._cancel_wanted
