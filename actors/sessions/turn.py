"""Turn: one request on its way: waits for the model, is queued, generates, ends. Exactly one outcome.

States: waiting (for the model, the prompt, its place) -> generating -> over; when the worker dies,
generating -> resuming -> generating. The worker's events come in synchronously from the pipe reader
(`on_event`, `on_lost`) and go straight into the Reply; the async part only waits and sends. Cancelled
in whatever phase, the reply still gets its outcome: finish_reason "cancelled", with what was generated
until then.

A dead worker costs a pause: the next one gets the same prompt with everything generated behind it, a
smaller budget, and the same Reply goes on. At most MAX_RESUMES times; a prompt on which the worker dies
twice at the same place is poison and ends with an error of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from actors.kernel import Address, Signal
from actors.reply import Failed, Finished, Reply, Sign
from actors.sessions.generated import Generated
from actors.sessions.timing import TurnTimes, metrics_of
from actors.state_board import ANSWERING, StateBoard
from actors.supervisor.faults import fault_of
from actors.supervisor.messages import (
    CancelGeneration,
    CountTokens,
    RequestEvent,
    StartGeneration,
    SupervisorMessage,
)
from actors.transcripts.messages import BuildPrompt, RecordTurn, TranscriptMessage
from muse import protocol
from muse.api.chat_request import ChatRequest
from muse.chat.stop_strings import StopMatcher
from muse.errors import ClientFault, MuseError, Unavailable, WorkerFault

log = logging.getLogger("muse.sessions")

MAX_RESUMES: Final = 2
DECODING: Final = Sign(phase="decode")


class Turn:
    """One request. The manager calls `place`, `admit`, `cancel` and runs `run`."""

    def __init__(
        self,
        *,
        request: ChatRequest,
        reply: Reply,
        board: StateBoard,
        supervisor: Address[SupervisorMessage],
        transcripts: Address[TranscriptMessage],
    ) -> None:
        self.request: Final = request
        self.reply: Final = reply
        self._board = board
        self._supervisor = supervisor
        self._transcripts = transcripts
        self._times = TurnTimes(submitted=trio.current_time())
        self._stop = StopMatcher(request.stop)
        self._admitted = trio.Event()
        self._waiting: trio.CancelScope | None = None
        self._generating = False
        self._stopped_by_string = False
        self._cancel_wanted = False
        self._news = Signal()
        self._generated = Generated()
        self._prompt: tuple[protocol.Segment, ...] = ()
        self._out_of_budget = False
        self._resumes = 0
        self._last_death_at: int | None = None
        self._accepted: protocol.Accepted | None = None
        self._done: protocol.Done | None = None
        self._fault: MuseError | None = None

    # ------------------------------------------------------------ the manager's side

    def place(self, position: int) -> None:
        """Tell where in the queue this turn stands, from 1."""
        if not self._generating:
            self.reply.show(Sign(phase="queued", position=position))

    def admit(self) -> None:
        """The turn may use the model now."""
        self._admitted.set()

    def cancel(self) -> None:
        """End this turn, in whatever phase it is. Idempotent."""
        self._cancel_wanted = True
        if self._waiting is not None:
            self._waiting.cancel()
        self._news.notify()

    async def run(self) -> None:
        """Bring the request to its outcome. Cancelled from outside (shutdown): the manager ends the reply."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_abandoned)
            await self._answer()
            nursery.cancel_scope.cancel()

    # ------------------------------------------------------------ the way of a request

    async def _watch_abandoned(self) -> None:
        await self.reply.abandoned.wait()
        self.cancel()

    async def _answer(self) -> None:
        try:
            command = None
            with self._until_cancelled():
                command = await self._prepare()
            while command is not None and not self._cancel_wanted:
                await self._generate(command)
                if not self._should_resume():
                    break
                lost, command = command, None
                with self._until_cancelled():
                    command = await self._resume(lost)
            self._conclude()
        except MuseError as fault:
            self.reply.finish(Failed(fault=fault))

    @contextmanager
    def _until_cancelled(self) -> Generator[None]:
        """What is waited for inside ends at once when the turn is cancelled; what follows must look."""
        with trio.CancelScope() as self._waiting:
            if self._cancel_wanted:
                self._waiting.cancel()
            yield
        self._waiting = None

    async def _prepare(self) -> protocol.Generate:
        """Wait for the model, build the prompt, wait for admission. Raises MuseError."""
        model = await self._wait_model()
        segments = await self._transcripts.ask(
            BuildPrompt(session_id=self.request.session_id, messages=self.request.messages, model=model)
        )
        if not self._admitted.is_set():
            # It has to queue: a prompt that can never fit is refused now, not after the wait.
            await self._check_room(segments, model)
            await self._admitted.wait()
            await self._wait_model()
        self._prompt = segments
        return protocol.Generate(
            request_id=self.reply.id,
            session_id=self.request.session_id,
            prompt_segments=segments,
            max_new_tokens=self.request.max_tokens,
            sampling=self.request.sampling,
        )

    async def _wait_model(self) -> protocol.Ready:
        while True:
            version, state = self._board.version, self._board.value
            worker = state.worker
            if worker.state in ANSWERING and state.model is not None:
                return state.model
            if worker.state in ("failed", "stopped"):
                reason = worker.reason or "The model is not running."
                raise Unavailable("model_unavailable", reason)
            if worker.state == "restarting":
                self.reply.show(Sign(phase="restarting"))
            else:
                self.reply.show(Sign(phase="loading", fraction=worker.fraction))
            await self._board.wait_newer(version)

    async def _check_room(self, segments: tuple[protocol.Segment, ...], model: protocol.Ready) -> None:
        counted = await self._supervisor.ask(CountTokens(segments=segments))
        tokens = counted.prompt_tokens
        if tokens is not None and tokens >= model.context_length:
            raise ClientFault(
                "context_length_exceeded",
                f"The conversation has {tokens} tokens, but the model reads at most {model.context_length} "
                "with at least one left for the answer. Shorten it, or start a new chat.",
                param="messages",
                data={"prompt_tokens": tokens, "context_length": model.context_length},
            )

    async def _generate(self, command: protocol.Generate) -> None:
        self._generating = True
        self._fault = None
        if self._times.started is None:
            self._times.started = trio.current_time()
        await self._supervisor.tell(StartGeneration(command=command, sink=self))
        cancel_sent = False
        while self._done is None and self._fault is None:
            if self._cancel_wanted and not cancel_sent:
                cancel_sent = True
                await self._supervisor.tell(CancelGeneration(request_id=command.request_id))
                continue
            await self._news.wait()

    # ------------------------------------------------------------ resuming

    def _should_resume(self) -> bool:
        """Decide about a lost worker; replaces the fault by a better one when the answer is no."""
        fault = self._fault
        if fault is None or self._cancel_wanted:
            return False
        if fault.code == "model_unavailable":
            return True  # the worker died before it had the request: nothing was tried yet
        if fault.code != "worker_lost":
            return False
        if self._last_death_at == self._generated.tokens:
            self._fault = WorkerFault(
                "poison_prompt",
                f"The model process died twice at the same place of this request. {fault.detail}",
                status=502,
            )
            return False
        self._last_death_at = self._generated.tokens
        if self._resumes >= MAX_RESUMES:
            return False
        self._resumes += 1
        log.warning("turn-resumes reply=%s after=%d", self.reply.id, self._generated.tokens)
        return True

    async def _resume(self, command: protocol.Generate) -> protocol.Generate | None:
        """Wait for the next worker and say how to go on; None when there is nothing left to generate."""
        await self._wait_model()
        budget = self.request.max_tokens
        if budget is not None:
            budget -= self._generated.tokens
            if budget <= 0:
                self._out_of_budget = True
                return None
        return attrs.evolve(
            command,
            request_id=f"{self.reply.id}.{self._resumes}",
            prompt_segments=self._prompt + self._generated.segments(),
            max_new_tokens=budget,
        )

    # ------------------------------------------------------------ the worker's events (synchronous)

    def on_event(self, event: RequestEvent) -> None:
        """One event of the generation, from the pipe reader."""
        match event:
            case protocol.Accepted():
                self._accepted = self._accepted or event
                model = self._board.value.model
                self.reply.accept(model.model_id if model is not None else "")
            case protocol.Progress():
                self.reply.show(Sign(phase=event.phase, processed=event.processed, total=event.total))
            case protocol.Tokens():
                self._generated.add(event)
                self._on_text(event.text)
            case protocol.Done():
                self._done = event
                self._news.notify()
            case protocol.Error():
                self._on_error(event)

    def on_lost(self, fault: MuseError) -> None:
        """The worker is gone."""
        self._fault = fault
        self._news.notify()

    def _on_error(self, event: protocol.Error) -> None:
        if event.code == "context_overflow" and self._generated.tokens:
            self._out_of_budget = True  # resumed with the window exactly full: there is no room for more
        self._fault = fault_of(event)
        self._news.notify()

    def _on_text(self, text: str) -> None:
        if self._times.first_token is None:
            self._times.first_token = trio.current_time()
        self.reply.show(DECODING)
        if self._stopped_by_string:
            return  # behind the stop string: generated before the cancel took effect
        visible, matched = self._stop.feed(text)
        self.reply.append("answer", visible)
        if matched:
            self._stopped_by_string = True
            self.cancel()

    # ------------------------------------------------------------ the end

    def _conclude(self) -> None:
        fault = self._fault
        if fault is not None and not self._out_of_budget and not self._cancel_wanted:
            self.reply.finish(Failed(fault=fault))
            return
        if not self._stopped_by_string:
            self.reply.append("answer", self._stop.flush())
        reason = self._finish_reason()
        self._times.ended = trio.current_time()
        metrics = metrics_of(
            self._times,
            self._accepted,
            self._done,
            reason,
            generated_tokens=self._generated.tokens,
            resumes=self._resumes,
        )
        self._record()
        self.reply.finish(
            Finished(
                finish_reason=reason,
                metrics=metrics,
                prompt_tokens=metrics.prompt_tokens,
                completion_tokens=metrics.completion_tokens,
            )
        )

    def _finish_reason(self) -> protocol.FinishReason:
        if self._stopped_by_string:
            return "stop"
        if self._out_of_budget:
            return "length"
        return "cancelled" if self._done is None else self._done.finish_reason

    def _record(self) -> None:
        session_id = self.request.session_id
        if session_id is None or self._done is None:
            return
        whole = self._done.finish_reason == "stop" and not self._stopped_by_string
        try:
            self._transcripts.tell_nowait(
                RecordTurn(
                    session_id=session_id,
                    turn=sum(message.role == "assistant" for message in self.request.messages),
                    content=self.reply.text("answer"),
                    ids=self._generated.ids() if whole and self._done.generated_token_ids is not None else None,
                )
            )
        except Unavailable as fault:
            log.warning("turn-not-recorded reply=%s reason=%s", self.reply.id, fault.code)
