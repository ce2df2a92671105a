"""One answer on its way out: the events of a request, its text in whole characters, and its receipt."""

from __future__ import annotations

import codecs
import time
from collections.abc import Sequence

from muse.protocol import Accepted, Done, Draft, FinishReason, Phase, Progress, ResetReason, Tokens
from muse.worker.engines.base import Emit
from muse.worker.engines.executorch.prompt import Prompt
from muse.worker.hf_tokenizer import JsonTokenizer


class Answer:
    """prompt: what it answers. generated: the ids so far, without the end token."""

    def __init__(self, request_id: str, prompt: Prompt, tokenizer: JsonTokenizer, emit: Emit) -> None:
        self._request_id = request_id
        self.prompt = prompt
        self._tokenizer = tokenizer
        self._emit = emit
        self._began = time.monotonic()
        self._first_token: float | None = None
        self._vision_s: float | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[int] = []
        self._text = ""
        self._reused = 0
        self._processed = 0
        self._reason: ResetReason = "new"
        self.generated: list[int] = []

    def accept(self, reused: int, reason: ResetReason, room: int) -> None:
        """The prompt fits; so much of it is there already."""
        self._reused = self._processed = reused
        self._reason = reason
        self._emit(
            Accepted(
                request_id=self._request_id,
                prompt_tokens=len(self.prompt.ids),
                reused_prompt_tokens=reused,
                session_reset_reason=reason,
                room=room,
                segment_tokens=self.prompt.segment_tokens,
            )
        )

    def processed(self, tokens: int) -> None:
        """So many tokens of the prompt are evaluated."""
        self._processed = tokens
        self._progress("prefill", tokens, len(self.prompt.ids))

    def looks_at(self, picture: int, of: int) -> None:
        """A picture, from 0, is being encoded."""
        self._progress("vision", picture, of)

    def looked(self, seconds: float) -> None:
        """A picture took so long."""
        self._vision_s = (self._vision_s or 0.0) + seconds

    def _progress(self, phase: Phase, processed: int, total: int) -> None:
        self._emit(Progress(request_id=self._request_id, phase=phase, processed=processed, total=total))

    def add(self, tokens: Sequence[int]) -> None:
        """Further tokens; they leave together, up to the last whole character."""
        if self._first_token is None:
            self._first_token = time.monotonic()
        for token in tokens:
            self.generated.append(token)
            spelling = self._tokenizer.control.get(token)
            if spelling is None:
                self._held.append(token)
                self._text += self._decoder.decode(self._tokenizer.decode([token]))
            else:
                self._text += self._decoder.decode(b"", final=True)
                self._send()
                self._emit(Tokens(request_id=self._request_id, ids=(token,), text=spelling, control=True))
        if not self._decoder.getstate()[0]:
            self._send()

    def _send(self) -> None:
        if self._held:
            self._emit(Tokens(request_id=self._request_id, ids=tuple(self._held), text=self._text))
            self._held, self._text = [], ""

    def done(self, finish: FinishReason, draft: Draft | None) -> Done:
        """The last event. Whole characters that waited for the end of another go out before; bytes that never became a
        character are only in the ids."""
        if self._text:
            self._send()
        now = time.monotonic()
        prefill_s = (self._first_token or now) - self._began
        decode_s = now - self._first_token if self._first_token is not None else 0.0
        fresh = self._processed - self._reused
        return Done(
            request_id=self._request_id,
            finish_reason=finish,
            prompt_tokens=len(self.prompt.ids),
            completion_tokens=len(self.generated),
            reused_prompt_tokens=self._reused,
            prefilled_prompt_tokens=fresh,
            session_reset_reason=self._reason,
            prefill_ms=prefill_s * 1000,
            prefill_tokens_per_second=fresh / prefill_s if prefill_s > 0 else 0.0,
            decode_ms=decode_s * 1000,
            decode_tokens_per_second=len(self.generated) / decode_s if decode_s > 0 else 0.0,
            total_ms=(now - self._began) * 1000,
            generated_token_ids=tuple(self.generated),
            draft=draft,
            vision_encoder_ms=None if self._vision_s is None else self._vision_s * 1000,
            images_scaled=self.prompt.scaled,
        )
