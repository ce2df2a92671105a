"""The scripted engine: answers from a script, with the delays and faults it asks for.

For tests and for load measurements: counts, sessions, reuse, progress, cancel and the context limit are real,
only the words are given. Sampling is ignored: the same prompt always gets the same answer.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Sequence

import attrs

from muse.protocol import (
    Accepted,
    Close,
    Count,
    Done,
    Draft,
    FinishReason,
    Generate,
    IdsSegment,
    ImageSegment,
    Open,
    Progress,
    Ready,
    Reset,
    ResetReason,
    Result,
    Show,
    Supports,
    TextSegment,
    Tokens,
)
from muse.worker.engines.base import CancelToken, Emit, EngineFault, ReportLoading, context_overflow
from muse.worker.engines.scripted_faults import At, FaultPlayer
from muse.worker.engines.scripted_script import Answer, Script
from muse.worker.engines.scripted_tokens import ScriptedTokenizer
from muse.worker.residency import common_prefix, reset_reason


class ScriptedEngine:
    """An engine without a model. player commits the script's faults. has_draft: every token is guessed."""

    def __init__(self, script: Script, player: FaultPlayer, *, has_draft: bool = False) -> None:
        self._script = script
        self._player = player
        self._has_draft = has_draft
        self._tokenizer = ScriptedTokenizer(script.special_tokens)
        self._lock = threading.Lock()
        self._resident: dict[str, list[int] | None] = {}
        for answer in script.answers:
            for word in answer.tokens:
                self._tokenizer.word_id(word)

    def load(self, report: ReportLoading) -> Ready:
        script = self._script
        self._player.play(script.faults, "start")
        for step in range(script.load_steps):
            report(step / script.load_steps, "reading the script")
            time.sleep(script.load_ms / 1000 / script.load_steps)
            if step == script.load_steps // 2:
                self._player.play(script.faults, "load")
        end = script.special_tokens[0]
        self._player.watch_ready(script.faults)
        return Ready(
            protocol=1,
            engine="scripted",
            engine_version="1",
            model_id=script.model_id,
            context_length=script.context_length,
            max_sessions=script.slots,
            max_named_sessions=script.max_named_sessions,
            max_inflight_requests=script.slots,
            supports=Supports(
                cancel=True,
                rewind=True,
                prefill_progress=True,
                grammar=script.grammar,
                penalties=script.penalties,
                draft=self._has_draft,
            ),
            chat_template=script.chat_template,
            special_tokens=script.special_tokens,
            bos_token="",
            eos_token=end,
            eos_ids=tuple(self._tokenizer.encode(end, special=True)),
            backend="a script",
            longest_token_bytes=max(len(spelling.encode()) for spelling in script.special_tokens),
            device="none",
        )

    def count(self, request: Count) -> Result:
        size = sum(map(len, self._encode(request)))
        return Result(request_id=request.request_id, prompt_tokens=size, room=self._script.context_length - size)

    def session(self, command: Open | Reset | Close | Show) -> Result:
        resident_ids: tuple[int, ...] | None = None
        with self._lock:
            match command:
                case Open():
                    self._resident.setdefault(command.session_id, [])
                case Reset():
                    self._resident[command.session_id] = []
                case Close():
                    self._resident.pop(command.session_id, None)
                case Show():
                    resident_ids = tuple(self._resident.get(command.session_id) or [])
        return Result(request_id=command.request_id, resident_ids=resident_ids)

    def check_alive(self) -> None:
        """It lives in this process."""

    def close(self) -> None:
        pass

    def generate(self, request: Generate, emit: Emit, cancel: CancelToken) -> Done:
        run = _Run(self._script, self._tokenizer, self._player, request, emit, cancel)
        run.begin(self._encode(request), self._take_resident(request.session_id))
        run.prefill()
        run.decode()
        self._leave_resident(request.session_id, run)
        generated = len(run.generated)
        return attrs.evolve(run.end(), draft=Draft(proposed=generated, accepted=generated) if self._has_draft else None)

    def _encode(self, request: Generate | Count) -> list[list[int]]:
        """Ids of each segment."""
        ids: list[list[int]] = []
        for segment in request.prompt_segments:
            match segment:
                case TextSegment():
                    ids.append(self._tokenizer.encode(segment.text, special=segment.special))
                case IdsSegment():
                    if not all(map(self._tokenizer.is_known, segment.ids)):
                        raise EngineFault("bad_request", "the prompt has token ids this model does not know")
                    ids.append(list(segment.ids))
                case ImageSegment():
                    raise EngineFault("unsupported", "the scripted engine sees no images")
        return ids

    def _take_resident(self, session_id: str | None) -> list[int] | None:
        with self._lock:
            return [] if session_id is None else self._resident.get(session_id, [])

    def _leave_resident(self, session_id: str | None, run: _Run) -> None:
        with self._lock:
            if session_id is None:
                return
            self._resident.pop(session_id, None)
            self._resident[session_id] = run.prompt[: run.processed] + run.generated
            while len(self._resident) > self._script.max_named_sessions:
                del self._resident[next(iter(self._resident))]  # the least recently used


class _Run:
    """One generation. processed: prompt tokens in the cache so far. generated: ids of the answer so far."""

    def __init__(
        self,
        script: Script,
        tokenizer: ScriptedTokenizer,
        player: FaultPlayer,
        request: Generate,
        emit: Emit,
        cancel: CancelToken,
    ) -> None:
        self._script = script
        self._controls = frozenset(spelling.encode() for spelling in script.special_tokens)
        self._tokenizer = tokenizer
        self._player = player
        self._request = request
        self._emit = emit
        self._cancel = cancel
        self._began = time.monotonic()
        self._prefilled = self._began
        self.prompt: list[int] = []
        self.generated: list[int] = []
        self.processed = 0
        self._finish: FinishReason = "cancelled"
        self._reason: ResetReason = "new"

    def begin(self, segments: Sequence[list[int]], resident: list[int] | None) -> None:
        """Check that the prompt fits, choose the answer, and say accepted."""
        prompt = [token for ids in segments for token in ids]
        if len(prompt) >= self._script.context_length:
            raise context_overflow(len(prompt), self._script.context_length)
        self.prompt = prompt
        user_texts = [s.text for s in self._request.prompt_segments if isinstance(s, TextSegment) and not s.special]
        last = user_texts[-1] if user_texts else ""
        echo = tuple(bytes([byte]) for byte in last.encode("utf-8", "replace"))
        self._tail = _resumed_part(self._request, self._tokenizer)
        if self._request.json_schema is not None and self._request.constrained_prefix.encode() != self._tail:
            # Engines with a grammar advance it by the one, and the model reads the other.
            raise EngineFault("bad_request", "the prompt does not end in the constrained answer's prefix")
        self._answer = self._script.answer_for(last) or Answer(tokens=echo)
        self._reused = min(common_prefix(resident or [], prompt), max(len(prompt) - 1, 0))
        self._reason = reset_reason(resident, prompt, self._reused)
        self.processed = self._reused
        room = self._script.context_length - len(prompt)
        wanted = self._request.max_new_tokens
        self._budget = room if wanted is None else min(room, wanted)
        if self._player.watch_request(self._answer.faults, self._request.request_id):
            self._cancel = CancelToken()  # one that never comes
        self._emit(
            Accepted(
                request_id=self._request.request_id,
                prompt_tokens=len(prompt),
                reused_prompt_tokens=self._reused,
                session_reset_reason=self._reason,
                room=room,
                segment_tokens=tuple(map(len, segments)),
            )
        )

    def prefill(self) -> None:
        """Work through the prompt, batch by batch."""
        total = len(self.prompt)
        self._play("prefill", range(1))
        while self.processed < total and not self._cancel.is_set:
            step = min(self._script.prefill_batch, total - self.processed)
            self._cancel.wait(self._script.prefill_us_per_token * step / 1e6)
            before, self.processed = self.processed, self.processed + step
            self._emit(
                Progress(request_id=self._request.request_id, phase="prefill", processed=self.processed, total=total)
            )
            self._play("prefill", range(before + 1, self.processed + 1))
        self._prefilled = time.monotonic()

    def decode(self) -> None:
        """Give the answer, from where the prompt left off, until its end, the budget's, or a cancel."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        words, skipped = _rest(self._answer.tokens, self._tail)
        held: list[int] = []
        text = ""
        for number, word in enumerate(words):
            if self._cancel.is_set:
                break
            if len(self.generated) >= self._budget:
                self._finish = "length"
                break
            self._play("token", range(skipped + number, skipped + number + 1))
            if self._answer.token_ms and self._cancel.wait(self._answer.token_ms / 1000):
                break
            token = self._tokenizer.word_id(word)
            self.generated.append(token)
            if word in self._controls:
                if held:
                    self._send(held, text)
                held, text = [], ""
                self._send([token], word.decode(), control=True)
                continue
            held.append(token)
            text += decoder.decode(word)
            # An event holds complete characters only, so ids wait for the end of their character.
            if not decoder.getstate()[0] and len(held) >= self._answer.batch:
                self._send(held, text)
                held, text = [], ""
        else:
            self._finish = "stop"
        if text:
            self._send(held, text)
        if self._cancel.is_set:
            self._play("cancel", range(1))

    def _send(self, ids: Sequence[int], text: str, *, control: bool = False) -> None:
        known = tuple(ids) if self._answer.ids else None
        control = control and known is not None
        self._emit(Tokens(request_id=self._request.request_id, ids=known, text=text, control=control))

    def end(self) -> Done:
        """The last event."""
        now = time.monotonic()
        prefill_s, decode_s = self._prefilled - self._began, now - self._prefilled
        fresh = self.processed - self._reused
        return Done(
            request_id=self._request.request_id,
            finish_reason=self._finish,
            prompt_tokens=len(self.prompt),
            completion_tokens=len(self.generated),
            reused_prompt_tokens=self._reused,
            prefilled_prompt_tokens=fresh,
            session_reset_reason=self._reason,
            prefill_ms=prefill_s * 1000,
            prefill_tokens_per_second=fresh / prefill_s if prefill_s else 0.0,
            decode_ms=decode_s * 1000,
            decode_tokens_per_second=len(self.generated) / decode_s if decode_s else 0.0,
            total_ms=(now - self._began) * 1000,
            generated_token_ids=tuple(self.generated) if self._answer.ids else None,
        )

    def _play(self, at: At, place: range) -> None:
        self._player.play(self._answer.faults, at, place)


def _resumed_part(request: Generate, tokenizer: ScriptedTokenizer) -> bytes:
    """What stands in the prompt after its last scaffold piece: the beginning of an answer that goes on. A
    prompt without scaffold has none, since the user's own words could look like it."""
    after: list[bytes] = []
    for segment in reversed(request.prompt_segments):
        if isinstance(segment, IdsSegment):
            after.append(tokenizer.decode(segment.ids))
        elif isinstance(segment, TextSegment) and not segment.special:
            after.append(segment.text.encode("utf-8", "replace"))
        else:
            return b"".join(reversed(after))
    return b""


def _rest(words: Sequence[bytes], tail: bytes) -> tuple[list[bytes], int]:
    """What is left of an answer after the longest beginning of it that the tail ends with: the words, the
    first perhaps cut into bytes, and how many words are over."""
    done = _overlap(b"".join(words), tail) if tail else 0
    over = 0
    while over < len(words) and done >= len(words[over]):
        done -= len(words[over])
        over += 1
    rest = list(words[over:])
    if done:
        rest[:1] = [bytes([byte]) for byte in rest[0][done:]]
    return rest, over


def _overlap(answer: bytes, tail: bytes) -> int:
    """Length of the longest beginning of `answer` that `tail` ends with."""
    start = max(0, len(tail) - len(answer))
    while (start := tail.find(answer[:1], start)) >= 0:
        if answer.startswith(tail[start:]):
            return len(tail) - start
        start += 1
    return 0
