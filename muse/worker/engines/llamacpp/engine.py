"""The llama.cpp engine: loads a GGUF file into the native server and runs requests on it.

Sessions and slots: slots.py. A named session reuses whatever the native server finds to share, compared by
exact ids, its prompt cache in RAM included. A scratch request reuses nothing, so that the same request gives
the same answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import attrs

from muse.protocol import (
    Close,
    Count,
    Done,
    Error,
    Generate,
    ImageSegment,
    Open,
    Ready,
    Reset,
    Result,
    Segment,
    Show,
)
from muse.worker import exits
from muse.worker.answer_matcher import AnswerMatcher
from muse.worker.command_line import WorkerOptions
from muse.worker.engines.base import CancelToken, Emit, EngineFault, ReportLoading, context_overflow
from muse.worker.engines.llamacpp.client import EngineGone, Refused
from muse.worker.engines.llamacpp.constrained_rest import ConstrainedRest
from muse.worker.engines.llamacpp.draft_trial import Loss
from muse.worker.engines.llamacpp.draft_watch import DraftWatch
from muse.worker.engines.llamacpp.encoding_times import EncodingTimes
from muse.worker.engines.llamacpp.loading import SCRATCH_SLOTS, Loaded, load_model, read_files
from muse.worker.engines.llamacpp.picture_prompt import PicturePrompt
from muse.worker.engines.llamacpp.prefill_step import PrefillStep
from muse.worker.engines.llamacpp.prompt import EncodingCancelled
from muse.worker.engines.llamacpp.request_body import (
    PLAIN_TOKENS,
    completion_body,
    plain_step_body,
    rest_body,
    step_body,
)
from muse.worker.engines.llamacpp.server import InnerServer
from muse.worker.engines.llamacpp.slots import SlotTable
from muse.worker.engines.llamacpp.stream import CompletionReader, LeftGrammar
from muse.worker.json_form import grammar_of
from muse.worker.residency import common_prefix
from muse.worker.signs_of_life import signs_of_life

# After its first, tokens of an answer are passed on so often (33 times a second), all that came meanwhile.
# Where every core computes, waking up for each token costs more than the token's own work: measured on 2
# cores at 115 tokens/s 270 microseconds of CPU a token without gathering, 80 with it, and more of the same
# in every process behind us. The end of an answer is not delayed.
_GATHER_S: Final = 0.03
_IDLE_POLL_S: Final = 0.003
_LOST_WAIT_S: Final = 2.0


class LlamaCppEngine:
    """One GGUF model. emit: for the fatal event when the native process is lost."""

    def __init__(self, options: WorkerOptions, emit: Emit) -> None:
        self._options = options
        self._emit = emit
        self._server: InnerServer | None = None
        self._slots = SlotTable(options.slots + SCRATCH_SLOTS, named=options.slots)
        self._step = PrefillStep(options.batch)
        self._encoding = EncodingTimes()
        self._loaded: Loaded | None = None
        self._watch: DraftWatch | None = None

    # ------------------------------------------------------------ load

    def load(self, report: ReportLoading) -> Ready:
        options = self._options
        report(None, "reading the model file")
        files = read_files(options)
        self._server = server = InnerServer(self._lost, self._encoding.read)
        loaded, ready = load_model(options, files, server, self._step, report)
        if files.draft and not options.keep_draft:
            self._watch = DraftWatch(self._plain_step, self._draft_lost)
        self._loaded = loaded
        return ready

    # ------------------------------------------------------------ requests

    def generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        if self._watch is None:
            return self._generate(request, emit, cancel)
        return self._watch.follow(request, lambda: self._generate(request, emit, cancel))

    def _generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        loaded = self._need_loaded()
        grammar, matcher = None, None
        if request.json_schema is not None:
            grammar = grammar_of(request.json_schema)
            prefix = request.constrained_prefix
            # Only where it goes on the matcher has to know the model's tokens.
            matcher = AnswerMatcher(grammar, prefix=prefix, tokens=loaded.matcher_tokens if prefix else None)
        try:
            pictured, prompt, sizes = self._encode(request.prompt_segments, cancel)
        except EncodingCancelled:
            return CompletionReader(request.request_id, [], loaded.context, None, loaded.ids, emit).done()
        if len(prompt) >= loaded.context:
            raise context_overflow(len(prompt), loaded.context)
        room = loaded.context - len(prompt)
        budget = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
        resident = self._slots.resident(request.session_id)
        places = pictured.places if pictured else ()
        reader = CompletionReader(
            request.request_id, prompt, room, resident.ids, loaded.ids, emit, places, sizes, matcher
        )
        if budget <= 0:
            reader.give_nothing()
        native = loaded.pictures.native(pictured, cancel) if loaded.pictures and pictured else prompt
        if cancel.is_set or budget <= 0:
            return reader.done()
        with self._slots.taken(request.session_id) as slot:
            reuse = request.session_id is not None and not resident.cold
            expected = 0
            if reuse:
                expected = max(common_prefix(ids, prompt) for ids in (slot.ids, resident.ids or ()))
            left_behind: list[int] | None = None
            self._encoding.forget(slot.number)
            try:
                # Pictures go with everything behind the first of them in one request.
                lead = prompt[: places[0].start] if places else prompt
                reuse = self._prefill(lead, slot.number, expected, reuse, reader, cancel)
                if not cancel.is_set:
                    with self._signs_of_life(reader) if pictured else nullcontext():
                        if matcher is not None and request.constrained_prefix:
                            reader.begin_step(reader.total, least=0)
                            self._follow(step_body(native, slot=slot.number, reuse=reuse), reader, cancel)
                            reader.begin_answer()
                            self._follow_rest(request, native, slot.number, budget, matcher, reader, cancel)
                        else:
                            body = completion_body(
                                request,
                                native,
                                slot=slot.number,
                                max_tokens=budget,
                                reuse=reuse,
                                grammar=grammar,
                                has_draft=loaded.ids.has_draft,
                                control=loaded.ids.never_text,
                            )
                            try:
                                self._follow(body, reader, cancel)
                            except LeftGrammar as left:
                                self._wait_idle(slot.number)
                                matcher = self._matcher_behind(left, grammar, reader)
                                self._follow_rest(
                                    request, native, slot.number, budget, matcher, reader, cancel, left.refused
                                )
                if not reader.is_accepted:
                    # Ended before the engine looked at it, a request has changed nothing that it shares.
                    left_behind = prompt[:expected]
                elif reader.is_foretold:
                    left_behind = prompt[: reader.processed] + reader.evaluated
            except EngineFault as fault:
                if not fault.fatal:
                    self._wait_idle(slot.number)  # it may still write what nobody takes
                raise
            finally:
                cold = resident.cold and not reader.is_accepted
                self._slots.remember(request.session_id, slot, left_behind, cold=cold)
            if not reader.finished:
                self._wait_idle(slot.number)
            vision_ms = self._encoding.take(slot.number, reader.pictures_read) if pictured else None
        done = attrs.evolve(
            reader.done(), images_scaled=pictured.scaled if pictured else 0, vision_encoder_ms=vision_ms
        )
        if matcher is not None and done.finish_reason == "stop":
            matcher.check_end()
        return done

    def _prefill(
        self, prompt: list[int], slot: int, expected: int, reuse: bool, reader: CompletionReader, cancel: CancelToken
    ) -> bool:
        """Evaluate the prompt but for its last step, step by step, so that a cancel waits for one at most.

        expected: how many tokens are believed to be resident. Returns whether what follows may reuse what is
        resident: after a first step that is so, for the step itself left it there.
        """
        done = expected
        while len(prompt) - done > self._step.tokens and not cancel.is_set:
            size = self._step.tokens
            reader.begin_step(done + size, least=expected)
            began = time.monotonic()
            self._follow(step_body(prompt[: done + size], slot=slot, reuse=reuse), reader, cancel)
            if reader.has_less:
                # The cache gave the session's tokens up meanwhile. The step would have to evaluate all of
                # them, so it was ended; it goes on from where it stopped.
                self._wait_idle(slot)
                expected = 0
            else:
                self._step.took(size, time.monotonic() - began)
            reuse, done = True, reader.processed
        reader.begin_answer()
        return reuse

    def _follow(self, body: dict[str, Any], reader: CompletionReader, cancel: CancelToken) -> None:
        """Run one native request to its end, or to the end that a cancel puts to it."""
        client = self._need_loaded().client
        try:
            stream = client.stream("/completion", body)
            try:
                with cancel.hook(stream.interrupt):
                    while events := stream.events():
                        reader.feed(events)
                        if reader.has_less:
                            stream.interrupt()
                        if reader.is_decoding:
                            stream.gather(_GATHER_S)
            finally:
                stream.close()
        except Refused as fault:
            raise _request_fault(fault, self._need_loaded().context) from fault
        except EngineGone:
            if not cancel.is_set:
                raise
        if not (reader.is_over or reader.has_less or cancel.is_set):
            raise EngineGone("the engine broke off in the middle of an answer")

    def _follow_rest(
        self,
        request: Generate,
        prompt: object,
        slot: int,
        budget: int,
        matcher: AnswerMatcher,
        reader: CompletionReader,
        cancel: CancelToken,
        refused: Sequence[int] | None = None,
    ) -> None:
        """Go on with a constrained answer, of which the prompt and what is known have the beginning. refused: what was
        drawn behind them."""
        loaded = self._need_loaded()
        spelled = loaded.ids.vocabulary.spelled

        def ask(known: Sequence[int], options: dict[str, Any]) -> dict[str, Any] | None:
            text = b"".join(spelled[token] for token in known)
            body = rest_body(request, prompt, known, text, slot=slot, control=loaded.ids.never_text)
            body |= options | {"logit_bias": [*body["logit_bias"], *options.get("logit_bias", ())]}
            try:
                return loaded.client.call("POST", "/completion", body, cancel=cancel)
            except EngineGone:
                if cancel.is_set:
                    return None
                raise

        rest = ConstrainedRest(
            matcher,
            spelled=spelled,
            end=loaded.ids.end,
            ask=ask,
            as_text=not isinstance(prompt, list),
            refused=refused[0] if refused and len(refused) == 1 else None,
        )
        while not cancel.is_set and len(reader.known) < budget:
            step = rest.next(reader.known, budget - len(reader.known))
            reader.add(step.tokens, spelled, step.timings, evaluated=rest.evaluated)
            if step.is_end:
                reader.end("eos")
                return
        if not cancel.is_set:
            reader.end("limit")

    def _matcher_behind(self, left: LeftGrammar, grammar: str | None, reader: CompletionReader) -> AnswerMatcher:
        """One that has read the answer so far, where the engine's own grammar would have let it go on otherwise: its
        library is another version. Raises EngineFault."""
        loaded = self._need_loaded()
        if left.refused is None or grammar is None:
            raise left.fault
        text = b"".join(loaded.ids.vocabulary.spelled[token] for token in reader.known).decode()
        return AnswerMatcher(grammar, prefix=text, tokens=loaded.matcher_tokens)

    def _signs_of_life(self, reader: CompletionReader) -> AbstractContextManager[None]:
        assert self._server is not None
        return signs_of_life(self._server.cpu_seconds, reader.show_picture)

    def _wait_idle(self, slot: int) -> None:
        """Wait until the native server has stopped working on a cancelled request. How long that may take, whoever
        watches this worker decides (actors/supervisor/watchdog.py)."""
        client = self._need_loaded().client
        while client.call("GET", "/slots")[slot]["is_processing"]:
            time.sleep(_IDLE_POLL_S)

    def count(self, request: Count) -> Result:
        _, prompt, _ = self._encode(request.prompt_segments)
        size = len(prompt)
        room = self._need_loaded().context - size
        return Result(request_id=request.request_id, prompt_tokens=size, room=room)

    def session(self, command: Open | Reset | Close | Show) -> Result:
        resident_ids: Sequence[int] | None = None
        match command:
            case Open():
                self._slots.open(command.session_id)
            case Reset():
                self._slots.reset(command.session_id)
            case Close():
                self._slots.close(command.session_id)
            case Show():
                resident_ids = self._slots.resident(command.session_id).ids
        return Result(request_id=command.request_id, resident_ids=None if resident_ids is None else tuple(resident_ids))

    def check_alive(self) -> None:
        """A broken connection is mostly the death of the native process: its watcher, who knows how it ended, speaks
        first and ends this process."""
        if self._loaded is None:
            return
        try:
            self._loaded.client.call("GET", "/health")
        except Refused:
            pass  # it answers
        except EngineGone:
            if self._server and self._server.wait_lost(_LOST_WAIT_S):
                threading.Event().wait(_LOST_WAIT_S)
            raise

    def close(self) -> None:
        if self._server:
            self._server.close()

    def _plain_step(self, request: Generate) -> float:
        """Milliseconds that one more token takes without drafting, sampled as the request is; 0 if that failed."""
        with self._slots.taken(None) as slot:
            self._slots.remember(None, slot, None)
            answer = self._need_loaded().client.call("POST", "/completion", plain_step_body(request, slot=slot.number))
        timings = answer["timings"]
        return timings["predicted_ms"] if timings["predicted_n"] == PLAIN_TOKENS and "draft_n" not in timings else 0.0

    def _draft_lost(self, loss: Loss) -> None:
        self._emit(Error(request_id=None, code="draft_slower", message=loss.words))

    def _lost(self, fault: EngineFault, returncode: int) -> None:
        """The native process ended on its own: say so, and end alike."""
        self._emit(Error(request_id=None, code=fault.code, message=fault.message, fatal=True))
        self.close()
        exits.end_like(returncode)

    def _encode(
        self, segments: tuple[Segment, ...], cancel: CancelToken | None = None
    ) -> tuple[PicturePrompt | None, list[int], Sequence[int] | None]:
        """If the prompt has pictures, all that belongs to them; its ids; and how many of them each segment has, if that
        is known. Raises EncodingCancelled."""
        loaded = self._need_loaded()
        try:
            if not any(isinstance(segment, ImageSegment) for segment in segments):
                each = loaded.encoder.encode_each(segments, cancel)
                return None, loaded.encoder.joined(each), [len(ids) for ids in each]
            if loaded.pictures is None:
                raise EngineFault("unsupported", "without its image projector this model sees no pictures")
            pictured = loaded.pictures.encode(segments)
            return pictured, pictured.ids, pictured.segment_tokens
        except Refused as fault:
            raise _request_fault(fault, loaded.context) from fault

    def _need_loaded(self) -> Loaded:
        assert self._loaded is not None, "the protocol loop serves no request before the load is over"
        return self._loaded


def _request_fault(refused: Refused, context: int) -> EngineFault:
    """The native server's refusal of a request in our codes."""
    if refused.type == "exceed_context_size_error":
        return context_overflow(int(refused.prompt_tokens or 0), context)
    code = "bad_request" if 400 <= refused.status < 500 else "engine_error"
    return EngineFault(code, f"llama.cpp refuses the request: {refused.message}")
