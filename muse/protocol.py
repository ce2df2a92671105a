"""Worker protocol, version 1: the messages between the main process and a worker.

One JSON object a line, UTF-8, split on byte 0x0A only. Lines to the worker carry `op`, lines from the
worker carry `event` (protocol_codec.py). Both sides import these two modules and nothing else of each other.
Names follow the upstream worker where the meaning is the same (contracts/worker-protocol.md sections 3 and 5).

Order for one request: `accepted`, any number of `progress` and `tokens`, then exactly one of `done`
or `error`; an `error` may also come instead of `accepted`. Requests may interleave, up to the ready
line's `max_inflight_requests`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar, dataclass_transform

import attrs

PROTOCOL_VERSION: Final = 1
MAX_WORKER_LINE_BYTES: Final = 4 * 1024 * 1024
"""Longest line accepted from a worker; a longer one means that it cannot be trusted any more."""
PENALTY_WINDOW: Final = 64
"""Tokens that penalties look back at: what llama.cpp takes by default."""

FinishReason = Literal["stop", "length", "cancelled"]
Phase = Literal["vision", "prefill"]
ResetReason = Literal["new", "exact_prefix", "rewound", "mismatch", "dirty", "equal"]
ErrorCode = Literal[
    "context_overflow",
    "bad_image",
    "bad_request",
    "capacity_exhausted",
    "unsupported",
    "engine_error",
    "out_of_memory",
    "engine_killed",
    "draft_slower",
    "cancel_overdue",
    "constrained_dead_end",
]
MAY_BE_A_CRASH: Final[frozenset[ErrorCode]] = frozenset({"engine_error", "out_of_memory", "engine_killed"})
"""Errors of a request that may be the first sign of a crash: the worker then asks its engine whether it is alive, and
the main process asks the worker."""
FilePart = Literal["model", "weights", "draft", "projector", "positions"]
PatchLevel = Literal["unpatched", "cancel_op", "control_pipe"]
"""How a native program of upstream's can be told to end a request: not at all, by our patch's line, by the pipe of a
later upstream."""

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(cls: _Class) -> _Class:
    """Class decorator of every message: frozen, slotted, keywords only."""
    return attrs.define(frozen=True, slots=True, kw_only=True)(cls)


# ---------------------------------------------------------------- parts


@message
class TextSegment:
    """Prompt text. `special` true: spellings of control tokens become those tokens (scaffold);
    false: they stay plain text (everything a client wrote)."""

    text: str
    special: bool


@message
class IdsSegment:
    """Token ids, taken as they are."""

    ids: tuple[int, ...]


@message
class ImageSegment:
    """One image: base64 of the file's bytes, and the hex sha256 of those bytes as its identity."""

    image: str
    sha256: str


Segment = TextSegment | IdsSegment | ImageSegment


@message
class Sampling:
    """Sampling as the engine applies it. temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off;
    seed null means random.

    Penalties come before everything else, also at temperature 0, and look at the last PENALTY_WINDOW tokens of prompt
    and answer together, control tokens included, so that an answer that goes on elsewhere goes on alike. Of a picture
    only the two tokens that enclose it are among them. Of each token that is among them the logit is divided by
    repeat_penalty (multiplied where it is negative), then lowered by presence_penalty, and by frequency_penalty for
    each time. 1, 0 and 0 are off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None


def penalties_on(sampling: Sampling) -> dict[str, float]:
    """The penalties that are not off, by the names of their fields."""
    penalties = {
        "repeat_penalty": (sampling.repeat_penalty, 1.0),
        "presence_penalty": (sampling.presence_penalty, 0.0),
        "frequency_penalty": (sampling.frequency_penalty, 0.0),
    }
    return {name: value for name, (value, off) in penalties.items() if value != off}


@message
class Supports:
    """What the engine can do; what is false is refused by name, never ignored."""

    image: bool = False
    ids_with_images: bool = False
    cancel: bool = False
    rewind: bool = False
    prefill_progress: bool = False
    grammar: bool = False
    penalties: bool = False
    logprobs: bool = False
    draft: bool = False


@message
class LoadedFile:
    """A file that the model came from: what it is of the model, its name without folders, its size in bytes.
    `weights` and `positions`, the table of places in pictures, come beside a `.pte` program."""

    part: FilePart
    name: str
    size_bytes: int


@message
class Draft:
    """Speculative decoding of one answer: tokens proposed by the draft and accepted by the model."""

    proposed: int
    accepted: int


# ---------------------------------------------------------------- from the worker


@message
class Loading:
    """The model is being loaded. fraction 0..1, or null when the engine cannot tell."""

    fraction: float | None
    stage: str


@message
class Ready:
    """The model answers. Sent once. Counts are in tokens, memory in bytes (null when unknown).

    special_tokens: spellings of all control tokens, for checks. bos_token, eos_token: spellings that
    the chat template may use, empty when the model has none. chat_template: Jinja source or null.
    kv_bytes: what conversations have been given at the load; kv_limit_bytes: the most that they, the copies to go back
    to and their cache may have. patch_level: of a native program, null for engines that are none.

    For people: backend, what computes ("MLX (Metal)", "XNNPACK (CPU)"), and device, on which hardware; empty when
    unknown. files: what was loaded, the model first. load_ms: since the load began, set by the protocol loop.
    longest_token_bytes: the most bytes of a text that one token stands for, where the vocabulary splits texts into
    their bytes; else null. draft_tokens: the most that the draft proposes at a time, null without one or
    when unknown. max_image_cells: into how many cells one image is cut at most, null where none are read.
    """

    protocol: int
    engine: str
    engine_version: str
    model_id: str
    context_length: int
    max_sessions: int
    max_named_sessions: int
    max_inflight_requests: int
    supports: Supports
    chat_template: str | None
    special_tokens: tuple[str, ...]
    bos_token: str
    eos_token: str
    eos_ids: tuple[int, ...]
    device: str
    memory_bytes: int | None = None
    kv_bytes: int | None = None
    kv_limit_bytes: int | None = None
    patch_level: PatchLevel | None = None
    backend: str = ""
    files: tuple[LoadedFile, ...] = ()
    load_ms: float | None = None
    draft_tokens: int | None = None
    longest_token_bytes: int | None = None
    max_image_cells: int | None = None


@message
class Accepted:
    """The prompt fits and generation begins. room: how many tokens fit after the prompt. segment_tokens: of each prompt
    segment, null when they cannot be told; what they lack to prompt_tokens the engine put before the first."""

    request_id: str
    prompt_tokens: int
    reused_prompt_tokens: int
    session_reset_reason: ResetReason
    room: int
    segment_tokens: tuple[int, ...] | None = None


@message
class Progress:
    """Work on the prompt, in tokens (prefill) or images (vision)."""

    request_id: str
    phase: Phase
    processed: int
    total: int


@message
class Tokens:
    """Newly generated tokens. ids null: not known for this piece. text: complete UTF-8 characters. control:
    it is exactly one control token, and text its spelling; where ids are known, text is otherwise free of them."""

    request_id: str
    ids: tuple[int, ...] | None
    text: str
    control: bool = False


@message
class Done:
    """The request is over. completion_tokens and generated_token_ids leave the end-of-turn token out;
    generated_token_ids is null when any id is unknown. images_scaled: pictures that were made smaller than the model
    could see them, so that the prompt fits. vision_encoder_ms: what the image encoder took in this request, without the
    evaluation of what it gave; null where it read no image, or the engine does not tell."""

    request_id: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    reused_prompt_tokens: int
    prefilled_prompt_tokens: int
    session_reset_reason: ResetReason
    prefill_ms: float
    prefill_tokens_per_second: float
    decode_ms: float
    decode_tokens_per_second: float
    total_ms: float
    generated_token_ids: tuple[int, ...] | None
    draft: Draft | None = None
    vision_encoder_ms: float | None = None
    images_scaled: int = 0


@message
class Result:
    """Answer of open, reset, close (empty), show (`resident_ids`), count (`prompt_tokens`, `room`) and ping
    (empty). resident_ids null: not known; where a picture stands, a negative number for each of its tokens."""

    request_id: str
    prompt_tokens: int | None = None
    room: int | None = None
    resident_ids: tuple[int, ...] | None = None


@message
class Error:
    """A request failed (request_id given), or the worker as a whole (null). fatal: the worker exits. image: with code
    bad_image, which of the prompt's pictures it is, from 0. prompt_tokens: with context_overflow; null: it was not
    counted to its end, since it cannot fit.

    `engine_killed`: a signal from outside ended the engine, so another try may work, also after a failed load.
    `draft_slower` comes for the worker as a whole and not fatal: it goes on, but would be faster without its draft.
    `constrained_dead_end`: a constrained answer cannot go on by its schema; nothing outside of it was sent.
    `cancel_overdue` comes for the worker as a whole: what was cancelled does not end, so the worker does, and another
    one is to take its place. That is no death that says anything against the model.
    """

    request_id: str | None
    code: ErrorCode
    message: str
    fatal: bool = False
    prompt_tokens: int | None = None
    context_length: int | None = None
    image: int | None = None


WorkerEvent = Loading | Ready | Accepted | Progress | Tokens | Done | Result | Error


# ---------------------------------------------------------------- to the worker


@message
class Generate:
    """Prefill the segments and decode. session_id null: scratch, never reused. max_new_tokens null:
    fill the room. json_schema: JSON text of what the answer must be, only if `supports.grammar`. constrained_prefix:
    what of that answer was generated before and stands at the end of the prompt; empty where it only begins."""

    request_id: str
    session_id: str | None
    prompt_segments: tuple[Segment, ...]
    max_new_tokens: int | None
    sampling: Sampling
    json_schema: str | None = None
    constrained_prefix: str = ""


@message
class Cancel:
    """End another request now; it answers `done` with finish_reason cancelled. No answer of its own;
    an unknown or finished target is ignored."""

    request_id: str
    target_request_id: str


@message
class Open:
    """Make a named session resident. Idempotent."""

    request_id: str
    session_id: str


@message
class Reset:
    """Forget what is resident of a session, keep its slot. Idempotent."""

    request_id: str
    session_id: str


@message
class Close:
    """Forget a session and free its slot. Idempotent."""

    request_id: str
    session_id: str


@message
class Show:
    """What is resident of a session?"""

    request_id: str
    session_id: str


@message
class Count:
    """How many tokens would this prompt have?"""

    request_id: str
    prompt_segments: tuple[Segment, ...]


@message
class Ping:
    """Answered by a result, from the protocol loop, also while requests run."""

    request_id: str


@message
class Shutdown:
    """End all requests and exit 0. No answer."""

    request_id: str


WorkerCommand = Generate | Cancel | Open | Reset | Close | Show | Count | Ping | Shutdown
