"""The native engine: one request at a time on upstream's worker, and what that cannot do said or made up for.

Why it runs here, inside our worker, and is no second kind of worker for the supervisor: ping in every phase, exact
prompts, foretold reuse, sessions beyond the program's own number, the drain of what cannot be cancelled all need
somebody who is awake while the program, which reads nothing while it works, is not. And our protocol stays one.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

import attrs

from muse.protocol import (
    Accepted,
    Close,
    Count,
    Done,
    Error,
    FinishReason,
    Generate,
    Open,
    Phase,
    Progress,
    Ready,
    Reset,
    Result,
    Sampling,
    Show,
    Supports,
    penalties_on,
)
from muse.worker import exits
from muse.worker.command_line import WorkerOptions
from muse.worker.engines.base import CancelToken, Emit, EngineFault, ReportLoading, context_overflow
from muse.worker.engines.native.artifact import Artifact, read_artifact
from muse.worker.engines.native.exchange import Exchange, Refused
from muse.worker.engines.native.program import NativeProgram
from muse.worker.engines.native.prompt import Prompt, PromptEncoder
from muse.worker.engines.native.reader import AnswerReader
from muse.worker.engines.native.sessions import Plan, Sessions, settle
from muse.worker.engines.native.wire import ErrorLine, NativeReady, Terminal
from muse.worker.hardware import processor_name
from muse.worker.hf_tokenizer import BEGIN, END_OF_TEXT
from muse.worker.signs_of_life import signs_of_life

_NO_ROOM: Final = "prompt fills the context window"
"""How its error line begins (contracts/native-trial.md)."""
_MOST_SEED: Final = 2**63 - 1
"""Seeds are below 2^63, and 0 asks for a random one (contracts/worker-protocol.md section 3)."""


class NativeEngine:
    """emit: for what concerns the worker as a whole."""

    def __init__(self, options: WorkerOptions, emit: Emit) -> None:
        self._options = options
        self._emit = emit
        self._program = NativeProgram(self._lost, self._overdue)
        self._loaded: _Loaded | None = None

    def load(self, report: ReportLoading) -> Ready:
        report(None, "reading the artifact's files")
        artifact = read_artifact(self._options)
        started = self._program.start(artifact.command(), artifact.size_bytes, report)
        native = started.ready
        artifact = attrs.evolve(artifact, kind=started.kind or artifact.kind)
        sees = _sees(artifact, native)
        self._loaded = _Loaded(
            artifact=artifact,
            prompts=PromptEncoder(artifact, sees=sees),
            sessions=Sessions(native.max_named_sessions),
        )
        return Ready(
            protocol=1,
            engine="native",
            engine_version=artifact.program_name(),
            model_id=artifact.model_id,
            context_length=artifact.context,
            max_sessions=native.max_sessions,
            max_named_sessions=native.max_named_sessions,
            max_inflight_requests=1,
            supports=Supports(image=sees, ids_with_images=True, cancel=native.patch_level != "unpatched"),
            chat_template=artifact.template,
            special_tokens=tuple(artifact.tokenizer.control.values()),
            bos_token=BEGIN,
            eos_token=END_OF_TEXT,
            eos_ids=tuple(sorted(artifact.tokenizer.end_ids)),
            backend=artifact.backend,
            device="" if artifact.is_cuda else processor_name(),
            files=artifact.files,
            draft_tokens=artifact.draft_tokens,
            max_image_cells=artifact.most_cells if sees else None,
            memory_bytes=self._program.memory_bytes(),
            patch_level=native.patch_level,
            longest_token_bytes=artifact.tokenizer.longest_token_bytes,
        )

    # ------------------------------------------------------------ requests

    def generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        loaded = self._need_loaded()
        sampling = _sampling(request, loaded.artifact)
        prompt = loaded.prompts.encode(request.prompt_segments)
        if len(prompt.ids) >= loaded.artifact.context:
            raise context_overflow(len(prompt.ids), loaded.artifact.context)
        run = _Run(request, emit, prompt, AnswerReader(request.request_id, loaded.artifact.tokenizer, emit))
        with self._program.turn(cancel) as turn:
            if turn is None:
                return run.done(None)
            run.plan = plan = loaded.sessions.prepare(turn, request.session_id, prompt)
            segments = loaded.prompts.native(prompt, resident=plan.reused)
            room = loaded.artifact.context - len(prompt.ids)
            limit = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
            run.accept(room)
            if cancel.is_set or limit <= 0:
                return run.done(None, reason="cancelled" if cancel.is_set else "length")
            return self._generate(turn, run, cancel, sampling | {"prompt_segments": segments, "max_new_tokens": limit})

    def _generate(self, turn: Exchange, run: _Run, cancel: CancelToken, fields: dict[str, Any]) -> Done:
        sessions = self._need_loaded().sessions
        if run.plan.name:
            fields = {"session_id": run.plan.name, **fields}
        settle(run.plan, run.prompt, None)  # in doubt, until it is known

        def over(end: Terminal | None) -> None:
            settle(run.plan, run.prompt, end)

        try:
            with signs_of_life(self._program.cpu_seconds, run.show_reading):
                end = turn.generate(fields, run.reader.take, cancel, over)
        except Refused as refused:
            if cancel.is_set:
                return run.done(None)
            if refused.line.message.startswith(_NO_ROOM):
                raise _no_room(len(run.prompt.ids), self._need_loaded().artifact.context) from refused
            raise _request_fault(refused.line, run.request.sampling) from refused
        if end is not None:
            over(end)
            sessions.tidy(turn)
        return run.done(end)

    def count(self, request: Count) -> Result:
        loaded = self._need_loaded()
        size = len(loaded.prompts.encode(request.prompt_segments).ids)
        return Result(request_id=request.request_id, prompt_tokens=size, room=loaded.artifact.context - size)

    def session(self, command: Open | Reset | Close | Show) -> Result:
        """Never waits for a request that runs: what it means for the program is done when that is free."""
        sessions = self._need_loaded().sessions
        resident: list[int] | None = None
        match command:
            case Open():
                pass  # it is opened with its first prompt
            case Reset():
                sessions.reset(command.session_id)
            case Close():
                sessions.close(command.session_id)
                with self._program.turn_now() as turn:
                    if turn is not None:
                        sessions.tidy(turn)
            case Show():
                resident = sessions.resident(command.session_id)
        return Result(request_id=command.request_id, resident_ids=None if resident is None else tuple(resident))

    # ------------------------------------------------------------ ends

    def check_alive(self) -> None:
        """Its errors are told behind an answer of its own (exchange.py), and its death by `_lost`."""

    def close(self) -> None:
        self._program.close()

    def _lost(self, fault: EngineFault, returncode: int) -> None:
        """The program ended by itself, or cannot be trusted: say so, and end alike."""
        self._emit(Error(request_id=None, code=fault.code, message=fault.message, fatal=True))
        self.close()
        exits.end_like(returncode)

    def _overdue(self, reason: str) -> None:
        self._emit(Error(request_id=None, code="cancel_overdue", message=reason))
        self.close()
        os._exit(exits.ENGINE_GONE)

    def _need_loaded(self) -> _Loaded:
        assert self._loaded is not None, "the protocol loop serves no request before the load is over"
        return self._loaded


@attrs.frozen(kw_only=True)
class _Loaded:
    """What exists only after a load."""

    artifact: Artifact
    prompts: PromptEncoder
    sessions: Sessions


class _Run:
    """One request. Its counts are ours until the program says its own."""

    def __init__(self, request: Generate, emit: Emit, prompt: Prompt, reader: AnswerReader) -> None:
        self.request = request
        self.prompt = prompt
        self.reader = reader
        self.plan = Plan(name="", held=None, reason="new", reused=0)
        self._emit = emit
        self._began = time.monotonic()

    def accept(self, room: int) -> None:
        """Say what will be read, and begin to."""
        self._emit(
            Accepted(
                request_id=self.request.request_id,
                prompt_tokens=len(self.prompt.ids),
                reused_prompt_tokens=self.plan.reused,
                session_reset_reason=self.plan.reason,
                room=room,
                segment_tokens=self.prompt.segment_tokens,
            )
        )
        self.show_reading()

    def show_reading(self) -> None:
        """Say that the prompt is being read; the program tells nothing of how far it is. Any thread."""
        if self.reader.has_text:
            return
        phase: Phase = "prefill"
        processed, total = self.plan.reused, len(self.prompt.ids)
        if any(place.start >= self.plan.reused for place in self.prompt.places):
            phase, processed, total = "vision", 0, 1
        self._emit(Progress(request_id=self.request.request_id, phase=phase, processed=processed, total=total))

    def done(self, end: Terminal | None, reason: FinishReason = "cancelled") -> Done:
        """The last event. end None: the program has not said anything at the end."""
        if end is None:
            return self._done_without(reason)
        if end.reused_prompt_tokens != self.plan.reused:
            sys.stderr.write(f"reuse foretold {self.plan.reused}, was {end.reused_prompt_tokens}\n")
        return Done(
            request_id=self.request.request_id,
            finish_reason="cancelled" if end.cancelled else end.finish_reason,
            prompt_tokens=end.prompt_tokens,
            completion_tokens=end.completion_tokens,
            reused_prompt_tokens=end.reused_prompt_tokens,
            prefilled_prompt_tokens=end.prefilled_prompt_tokens,
            session_reset_reason=self.plan.reason,
            prefill_ms=end.prefill_ms,
            prefill_tokens_per_second=end.prefill_tok_s,
            decode_ms=end.decode_ms,
            decode_tokens_per_second=end.decode_tok_s,
            total_ms=end.total_ms,
            generated_token_ids=self.reader.check(end.ids),
            vision_encoder_ms=end.vision_encoder_ms,
            images_scaled=self.prompt.scaled,
        )

    def _done_without(self, reason: FinishReason) -> Done:
        total_ms = (time.monotonic() - self._began) * 1000
        return Done(
            request_id=self.request.request_id,
            finish_reason=reason,
            prompt_tokens=len(self.prompt.ids),
            completion_tokens=len(self.reader.ids),
            reused_prompt_tokens=self.plan.reused,
            prefilled_prompt_tokens=0,
            session_reset_reason=self.plan.reason,
            prefill_ms=0.0,
            prefill_tokens_per_second=0.0,
            decode_ms=0.0,
            decode_tokens_per_second=0.0,
            total_ms=total_ms,
            generated_token_ids=self.reader.check(None),
            images_scaled=self.prompt.scaled,
        )


def _sees(artifact: Artifact, native: NativeReady) -> bool:
    """Whether pictures can be read. Without our patch the image tower runs outside any session, which MLX refuses as
    soon as there may be two (contracts/worker-protocol.md section 12)."""
    if not native.supports_image:
        return False
    if native.patch_level == "cancel_op" or native.max_sessions == 1 or artifact.is_cuda:
        return True
    sys.stderr.write(
        "pictures are off: without our patch this worker reads them only with --worker-arg=--max_sessions=1, and then "
        "keeps no conversation warm\n"
    )
    return False


def _sampling(request: Generate, artifact: Artifact) -> dict[str, Any]:
    """The request's fields of sampling. Raises EngineFault for what the program cannot follow."""
    sampling = request.sampling
    if request.json_schema is not None:
        raise EngineFault("unsupported", "the native worker does not support structured output")
    if sampling.min_p > 0:
        raise EngineFault("unsupported", "the native worker has no min_p: leave it out")
    if penalties := penalties_on(sampling):
        raise EngineFault("unsupported", f"the native worker has no {_and(penalties)}: leave it out")
    if sampling.temperature <= 0:
        return {"temperature": 0.0}
    chosen: dict[str, Any] = {}
    if sampling.top_p < 1:
        chosen["top_p"] = sampling.top_p
    if sampling.top_k > 0:
        chosen["top_k"] = sampling.top_k
    if sampling.seed is not None:
        chosen["seed"] = sampling.seed % _MOST_SEED or _MOST_SEED
    if chosen and artifact.kind == "solo":
        raise EngineFault(
            "unsupported",
            f"the native worker draws by temperature alone with a solo artifact: leave {_and(chosen)} out",
        )
    return {"temperature": sampling.temperature, **chosen}


def _and(names: dict[str, Any]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _no_room(prompt_tokens: int, context: int) -> EngineFault:
    """The program's context is shorter than the one that it was said to have; by how much it does not tell."""
    return EngineFault(
        "context_overflow",
        f"the prompt has {prompt_tokens} tokens, and this artifact's context holds fewer: it is shorter than the "
        f"--context of {context} that the server was started with",
        prompt_tokens=prompt_tokens,
    )


def _request_fault(line: ErrorLine, sampling: Sampling) -> EngineFault:
    """An error line in our codes. The program's text names no reason of its engine's: that is on its log alone."""
    hint = ""
    if sampling.temperature > 0 and (sampling.top_p < 1 or sampling.top_k or sampling.seed is not None):
        hint = " (a solo artifact takes no top_p, top_k or seed: leave them out)"
    code = "capacity_exhausted" if line.code == "capacity_exhausted" else "engine_error"
    return EngineFault(code, f"the native worker: {line.message[:300]}{hint}")
