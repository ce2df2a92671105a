"""The ExecuTorch engine: one program, one cache, one request at a time.

Its calls hold the interpreter, so a cancel is read between two of them: a prompt goes in by chunks of the program's
limit, an answer token by token (with a draft, block by block). Nothing is reported while one runs; the supervisor's
limits know that.
"""

from __future__ import annotations

from muse.protocol import (
    PENALTY_WINDOW,
    Close,
    Count,
    Done,
    Draft,
    FinishReason,
    Generate,
    Open,
    Ready,
    Reset,
    Result,
    Show,
)
from muse.worker.command_line import WorkerOptions
from muse.worker.engines.base import CancelToken, Emit, EngineFault, ReportLoading, context_overflow
from muse.worker.engines.executorch.answer import Answer
from muse.worker.engines.executorch.cache import KvCache
from muse.worker.engines.executorch.constraint import JsonConstraint
from muse.worker.engines.executorch.decoding import Array
from muse.worker.engines.executorch.dflash import BLOCK
from muse.worker.engines.executorch.distribution import NotANumber
from muse.worker.engines.executorch.loading import Loaded, load
from muse.worker.engines.executorch.looking import Looking
from muse.worker.engines.executorch.residency import Residency
from muse.worker.engines.executorch.sampling import Sampler


class ExecuTorchEngine:
    """One artifact of Muse Glimmer."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._loaded: Loaded | None = None
        self._residency = Residency(KvCache(chunk=1))

    def load(self, report: ReportLoading) -> Ready:
        self._loaded, ready = load(self._options, report)
        self._residency = Residency(KvCache(chunk=self._loaded.facts.chunk))
        return ready

    def count(self, request: Count) -> Result:
        loaded = self._need_loaded()
        size = len(loaded.prompts.encode(request.prompt_segments).ids)
        return Result(request_id=request.request_id, prompt_tokens=size, room=loaded.context - size)

    def session(self, command: Open | Reset | Close | Show) -> Result:
        resident_ids: tuple[int, ...] | None = None
        match command:
            case Open():
                pass  # there is nothing to be kept ready: whoever asks gets the cache
            case Reset():
                self._residency.reset(command.session_id)
            case Close():
                self._residency.close(command.session_id)
            case Show():
                resident_ids = self._residency.resident(command.session_id)
        return Result(request_id=command.request_id, resident_ids=resident_ids)

    def check_alive(self) -> None:
        """It lives in this process."""

    def close(self) -> None:
        pass

    def generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        loaded = self._need_loaded()
        constraint = None
        if request.json_schema is not None:
            constraint = JsonConstraint(loaded.grammars, request.json_schema, request.constrained_prefix)
        prompt = loaded.prompts.encode(request.prompt_segments)
        answer = Answer(request.request_id, prompt, loaded.tokens, emit)
        if cancel.is_set:
            return answer.done("cancelled", None if loaded.facts.draft is None else Draft(proposed=0, accepted=0))
        if len(prompt.ids) >= loaded.context:
            raise context_overflow(len(prompt.ids), loaded.context)
        room = loaded.context - len(prompt.ids)
        budget = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
        looking = Looking(loaded.pictures, prompt, answer)
        looking.read(self._residency.reusable(request.session_id, prompt.ids), cancel)
        reused, reason = self._residency.take(request.session_id, prompt.ids)
        answer.accept(reused, reason, room)
        run = _Run(loaded, self._residency.cache, looking, answer, cancel)
        try:
            finish = run.to_end(Sampler(request.sampling, constraint, prompt.last(PENALTY_WINDOW)), reused, budget)
        except BaseException as fault:
            self._residency.fail()
            if isinstance(fault, NotANumber):
                raise EngineFault("engine_error", "the model's numbers went out of bounds in this answer") from fault
            raise
        if constraint is not None:
            constraint.check(loaded.tokens.decode(answer.generated), complete=finish == "stop")
        return answer.done(finish, run.draft)

    def _need_loaded(self) -> Loaded:
        assert self._loaded is not None, "the protocol loop serves no request before the load is over"
        return self._loaded


class _Run:
    """One generation on the cache."""

    def __init__(self, loaded: Loaded, cache: KvCache, looking: Looking, answer: Answer, cancel: CancelToken) -> None:
        self._loaded = loaded
        self._decoder = loaded.decoder
        self._cache = cache
        self._prompt = answer.prompt
        self._looking = looking
        self._answer = answer
        self._cancel = cancel

    @property
    def draft(self) -> Draft | None:
        """What the draft was good for."""
        if self._loaded.facts.draft is None:
            return None
        return Draft(proposed=self._decoder.proposed, accepted=self._decoder.accepted)

    def to_end(self, sampler: Sampler, reused: int, budget: int) -> FinishReason:
        """Evaluate what is new of the prompt, then answer."""
        self._decoder.begin(sampler, reused)
        if budget <= 0:
            return "length"
        return self._prefill(reused) or self._decode(budget)

    def _prefill(self, begin: int) -> FinishReason | None:
        total = len(self._prompt.ids)
        while begin < total:
            end = min(begin + self._loaded.chunk, total)
            embeddings = self._embeddings(begin, end)
            if embeddings is None or self._cancel.is_set:
                return "cancelled"
            self._decoder.prefill(embeddings)
            self._cache.add(self._prompt.ids[begin:end])
            self._answer.processed(end)
            begin = end
        return None

    def _decode(self, budget: int) -> FinishReason:
        left = budget
        while not self._cancel.is_set:
            given = self._decoder.step()
            said = given.tokens[: len(given.tokens) - given.is_end]
            kept = said[:left]
            left -= len(kept)
            self._answer.add(kept)
            self._remember(given.evaluated)
            if len(kept) < len(said) or (not left and not given.is_end):
                return "length"
            if given.is_end:
                return "stop"
        return "cancelled"

    def _remember(self, evaluated: int) -> None:
        """Note what the cache holds by now; a draft's refused tokens lie behind it."""
        prompt = len(self._prompt.ids)
        known = self._answer.generated[len(self._cache.ids) - prompt : evaluated - prompt]
        self._cache.add(known, lookahead=BLOCK if self._loaded.facts.draft is not None else 0)

    def _embeddings(self, begin: int, end: int) -> Array | None:
        """What a part of the prompt is to the model, pictures among it; None when the cancel came."""
        embeddings = self._loaded.embed(self._prompt.tokens[begin:end])
        for number, placed in enumerate(self._prompt.pictures):
            cells = placed.cells
            first, last = max(cells.start, begin), min(cells.stop, end)
            if first >= last:
                continue
            if self._cancel.is_set:
                return None
            features = self._looking.features(number)
            embeddings[0, first - begin : last - begin] = features[first - cells.start : last - cells.start]
        return embeddings
