"""What one answer cost: the `muse_metrics` object of a reply, and its reset reasons in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from muse.errors import JsonScalar
from muse.protocol import FinishReason, ResetReason

LengthLimit = Literal["max_tokens", "context"]
"""What ended an answer with finish_reason `length`: max_tokens of the request, or the model's context is full."""
AnswerEnd = FinishReason | Literal["tool_calls"]
"""Why an answer ended; tool_calls: the model is done and waits for the results of its calls."""

_RESET_SENTENCES: Final[Mapping[ResetReason, str]] = {
    "new": "Nothing of this conversation was in the model's memory, so all of it was read.",
    "exact_prefix": "The model still held the conversation so far and read only what is new.",
    "rewound": "The model kept the common beginning, dropped what came after it, and read the rest.",
    "mismatch": "The conversation differs from what the model held, so all of it was read again.",
    "dirty": "What the model held could not be trusted after an interruption, so all of it was read again.",
    "equal": "The model held exactly this prompt already; it read the end of it again to answer.",
}

_NEW_BUT_SHARED: Final = (
    "This conversation is new to the model; it still held a beginning that another one shares, and read the rest."
)


@attrs.define(frozen=True, slots=True, kw_only=True)
class ContextShares:
    """What the tokens of a prompt were spent on; in all they are prompt_tokens. length: the model's context.

    The parts of the prompt that `GET /api/replies/{id}/prompt` lists, summed up. template: the template's own text.
    system: system messages and settings that the template writes. tools: their definitions and results. question: the
    user's last message. begun: what the answer goes on from. history: all else.
    """

    length: int
    template: int
    system: int
    history: int
    images: int
    tools: int
    question: int
    begun: int


def reset_explanation(reason: ResetReason, reused: int) -> str:
    """What the model had to read of a prompt and why, in one sentence."""
    return _NEW_BUT_SHARED if reason == "new" and reused else _RESET_SENTENCES[reason]


@attrs.define(frozen=True, slots=True, kw_only=True)
class MuseMetrics:
    """Counts in tokens, times in milliseconds, rates in tokens per second. null: not applicable or unknown.

    completion_tokens leaves the end-of-turn token out and includes thinking. queue_ms: from admission to
    the moment that the worker took the request. time_to_first_token_ms and total_ms: from admission.
    images_scaled: pictures that were made smaller than the model could see them, so that the prompt fits.
    vision_encoder_ms: what the image encoder took in the last attempt at the answer, without the evaluation of what it
    gave. null: it read no image (none was sent, or all were still in the model's memory), the answer was cancelled
    before, or the engine does not tell.
    thinking_ms: the reasoning, from its first token to the answer's; with the pause of a restart in it.
    thinking_unfinished: the budget ended inside the reasoning, so there is no answer yet. earlier_*: the same counts of
    the replies that this one continues; they are not in the others. tool_warning: what was wrong with a call that the
    model tried to make. tool_repairs: how often it was told so and tried again. schema_notes: what in the client's JSON
    Schema does not restrict the answer (unknown formats and keywords), each with its place. max_tokens_cut_to: the
    room that the prompt left, where max_tokens asked for more. resumed: how often the answer was continued after
    the model process died. draft_proposed, draft_accepted: tokens that the draft guessed and that the model took, over
    all parts of the answer but those in which the process died: of these nothing is known. context: what fills the
    model's context now, with `thinking` and `answer`; all but `length` together are prompt_tokens and
    completion_tokens. null: the worker does not tell. finish_reason also says `cancelled`, which OpenAI's field has no
    word for. length_limit: which limit an answer with finish_reason `length` came to.
    """

    prompt_tokens: int
    completion_tokens: int
    reused_prompt_tokens: int = 0
    prefilled_prompt_tokens: int = 0
    session_reset_reason: ResetReason | None = None
    prefill_ms: float | None = None
    prefill_tokens_per_second: float | None = None
    decode_ms: float | None = None
    decode_tokens_per_second: float | None = None
    queue_ms: float | None = None
    time_to_first_token_ms: float | None = None
    total_ms: float | None = None
    thinking_tokens: int | None = None
    thinking_ms: float | None = None
    thinking_unfinished: bool = False
    earlier_tokens: int = 0
    earlier_thinking_tokens: int = 0
    earlier_thinking_ms: float = 0.0
    max_tokens_cut_to: int | None = None
    vision_encoder_ms: float | None = None
    images_scaled: int = 0
    draft_proposed: int | None = None
    draft_accepted: int | None = None
    resumed: int = 0
    tool_warning: str | None = None
    tool_repairs: int = 0
    schema_notes: str | None = None
    cancelled: bool = False
    context: ContextShares | None = None
    finish_reason: AnswerEnd
    length_limit: LengthLimit | None = None

    @property
    def session_reset_explanation(self) -> str | None:
        """What the model had to read for this answer and why, in one sentence; None while that is unknown."""
        if self.session_reset_reason is None:
            return None
        return reset_explanation(self.session_reset_reason, self.reused_prompt_tokens)

    def to_dict(self) -> dict[str, JsonScalar | dict[str, int]]:
        """The JSON object, keys in the order above; times and rates rounded to what can be measured."""
        shown: dict[str, JsonScalar | dict[str, int]] = {}
        thinking = self.thinking_tokens or 0
        for key, value in attrs.asdict(self).items():
            if self.context is not None and key == "context":
                value |= {"thinking": thinking, "answer": self.completion_tokens - thinking}
            shown[key] = round(value, 3) if isinstance(value, float) else value
            if key == "session_reset_reason":
                shown["session_reset_explanation"] = self.session_reset_explanation
        return shown
