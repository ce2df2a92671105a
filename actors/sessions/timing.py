"""Times of one turn on our clock, and the metrics made of them and the worker's own figures."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from actors.reply import Sign
from actors.sessions.answer import Answer
from muse import protocol
from muse.api.metrics import AnswerEnd, ContextShares, LengthLimit, MuseMetrics


@attrs.define(slots=True, kw_only=True)
class TurnTimes:
    """Monotonic seconds; None: did not happen (yet). thinking: since when, while it does. thought_s, earlier_thought_s:
    how long it did, in this turn and in those that it continues."""

    submitted: float
    started: float | None = None
    first_token: float | None = None
    ended: float | None = None
    thinking: float | None = None
    thought_s: float = 0.0
    earlier_thought_s: float = 0.0

    @property
    def all_thought_s(self) -> float:
        """In all turns together."""
        return self.earlier_thought_s + self.thought_s

    def note_thinking(self, is_thinking: bool, now: float) -> None:
        """Whether the model thinks from now on."""
        if is_thinking and self.thinking is None:
            self.thinking = now
        elif not is_thinking and self.thinking is not None:
            self.thought_s += now - self.thinking
            self.thinking = None


def decoding(answer: Answer, times: TurnTimes) -> Sign:
    """The sign of life while tokens come, with what the thinking took once it is over."""
    thought = answer.earlier_thinking_tokens + answer.thinking_tokens
    if answer.is_thinking or not thought:
        return Sign(phase="decode")
    return Sign(phase="decode", thinking_tokens=thought, thinking_ms=round(times.all_thought_s * 1000, 3))


def prompt_sign(event: protocol.Progress, reused: int) -> Sign:
    """The sign of life while the prompt is read, of which the model held `reused` tokens."""
    return Sign(
        phase=event.phase,
        processed=event.processed,
        total=event.total,
        reused=reused if event.phase == "prefill" else None,
    )


def _ms(start: float, end: float | None) -> float | None:
    return None if end is None else round((end - start) * 1000, 3)


def added_up(before: protocol.Draft | None, more: protocol.Draft | None) -> protocol.Draft | None:
    """Counts of two attempts together; None: no draft, or none that is known of."""
    if before is None or more is None:
        return before or more
    return protocol.Draft(proposed=before.proposed + more.proposed, accepted=before.accepted + more.accepted)


def metrics_of(
    times: TurnTimes,
    accepted: protocol.Accepted | None,
    done: protocol.Done | None,
    finish_reason: AnswerEnd,
    *,
    answer: Answer | None,
    draft: protocol.Draft | None,
    generated_tokens: int,
    context: ContextShares | None,
    max_tokens: int | None,
    attempts: int,
    resumes: int,
    schema_notes: Sequence[str] = (),
) -> MuseMetrics:
    """The receipt of one turn.

    draft: over all attempts. `accepted` is that of the first attempt: its prompt is the client's. `done` is that of the
    last: the engine's times and rates are of the attempt that ended the answer. Without `done` (cancelled before the
    worker had it, or lost with nothing left to do) the engine's figures are null.
    """
    known = accepted or done
    completion_tokens = generated_tokens
    if done is not None and attempts == 1:
        completion_tokens = done.completion_tokens
    return MuseMetrics(
        prompt_tokens=known.prompt_tokens if known is not None else 0,
        completion_tokens=completion_tokens,
        reused_prompt_tokens=known.reused_prompt_tokens if known is not None else 0,
        prefilled_prompt_tokens=done.prefilled_prompt_tokens if done is not None else 0,
        session_reset_reason=known.session_reset_reason if known is not None else None,
        prefill_ms=done.prefill_ms if done is not None else None,
        prefill_tokens_per_second=done.prefill_tokens_per_second if done is not None else None,
        decode_ms=done.decode_ms if done is not None else None,
        # The first token belongs to the prefill: one alone says nothing of a rate.
        decode_tokens_per_second=done.decode_tokens_per_second
        if done is not None and done.completion_tokens > 1
        else None,
        queue_ms=_ms(times.submitted, times.started if times.started is not None else times.ended),
        time_to_first_token_ms=_ms(times.submitted, times.first_token),
        total_ms=_ms(times.submitted, times.ended),
        vision_encoder_ms=done.vision_encoder_ms if done is not None else None,
        images_scaled=done.images_scaled if done is not None else 0,
        draft_proposed=draft.proposed if draft is not None else None,
        draft_accepted=draft.accepted if draft is not None else None,
        thinking_tokens=answer.thinking_tokens if answer is not None else 0,
        thinking_ms=times.thought_s * 1000 if answer is not None and answer.thinking_tokens else None,
        thinking_unfinished=answer is not None and answer.is_thinking and finish_reason == "length",
        earlier_tokens=answer.earlier_tokens if answer is not None else 0,
        earlier_thinking_tokens=answer.earlier_thinking_tokens if answer is not None else 0,
        earlier_thinking_ms=times.earlier_thought_s * 1000,
        max_tokens_cut_to=accepted.room
        if accepted is not None and max_tokens is not None and max_tokens > accepted.room
        else None,
        resumed=resumes,
        tool_warning=answer.tool_warning if answer is not None else None,
        tool_repairs=answer.tool_repairs if answer is not None else 0,
        schema_notes="; ".join(schema_notes) or None,
        cancelled=finish_reason == "cancelled",
        context=context,
        finish_reason=finish_reason,
        length_limit=_length_limit(max(completion_tokens, generated_tokens), max_tokens)
        if finish_reason == "length"
        else None,
    )


def _length_limit(tokens: int, max_tokens: int | None) -> LengthLimit:
    return "context" if max_tokens is None or tokens < max_tokens else "max_tokens"
