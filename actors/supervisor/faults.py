"""The worker's errors as ours, with the HTTP status that tells whose fault it is."""

from __future__ import annotations

from muse import protocol
from muse.errors import ClientFault, MuseError, Unavailable, WorkerFault


def prompt_too_long(prompt_tokens: int | None, context_length: int) -> ClientFault:
    """A prompt that leaves no room for an answer, whoever found out. prompt_tokens None: it was not counted to its end,
    since it cannot fit."""
    tokens = f"more than {context_length}" if prompt_tokens is None else str(prompt_tokens)
    return ClientFault(
        "context_length_exceeded",
        f"The conversation has {tokens} tokens, but the model reads at most {context_length} "
        "with at least one left for the answer. Shorten it, or start a new chat.",
        param="messages",
        data={"prompt_tokens": prompt_tokens, "context_length": context_length},
    )


def model_unavailable(reason: str | None) -> Unavailable:
    """No model runs, and none will by itself. reason: why, as the worker or the system told it."""
    return Unavailable(
        "model_unavailable",
        f"The model is not running{'; the details say why' if reason else ''}. Fix the cause, then restart it with "
        "POST /api/worker/restart or on the page.",
        data={"details": reason} if reason else None,
    )


def fault_of(event: protocol.Error) -> MuseError:
    """The worker's error as ours, with the status that tells whose fault it is."""
    match event.code:
        case "context_overflow":
            if event.context_length is not None:
                return prompt_too_long(event.prompt_tokens, event.context_length)
            return ClientFault("context_length_exceeded", event.message, param="messages")
        case "bad_image":
            return ClientFault("invalid_image", event.message, param="messages")
        case "bad_request" | "unsupported" | "constrained_dead_end":
            return ClientFault(event.code, event.message)
        case "capacity_exhausted":
            return Unavailable(event.code, event.message, status=429, retry_after_s=2)
        case "engine_error" | "out_of_memory" | "engine_killed" | "draft_slower" | "cancel_overdue":
            return WorkerFault(event.code, event.message)
