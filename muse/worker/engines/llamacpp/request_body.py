"""What the native server is asked: the bodies of its completion requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import attrs

from muse.protocol import PENALTY_WINDOW, Generate, Sampling, penalties_on

_RANDOM_SEED: Final = 0xFFFFFFFF
PLAIN_TOKENS: Final = 2
_FINAL_FIELDS: Final = ["stop", "stop_type", "tokens_predicted", "timings"]


def step_body(prompt: object, *, slot: int, reuse: bool) -> dict[str, Any]:
    """The native request that evaluates a prompt and generates nothing."""
    return {
        "prompt": prompt,
        "id_slot": slot,
        "cache_prompt": reuse,
        "n_predict": 0,
        "samplers": ["top_k"],
        "top_k": 1,
        "stream": True,
        "return_progress": True,
        "response_fields": _FINAL_FIELDS,
    }


def completion_body(
    request: Generate,
    prompt: object,
    *,
    slot: int,
    max_tokens: int,
    reuse: bool,
    grammar: str | None,
    has_draft: bool = False,
    control: Iterable[int] = (),
) -> dict[str, Any]:
    """The native request. prompt: ids, or what stands for a prompt with pictures. With a draft every event carries the
    counts so far, since a cancelled stream has no last one. control: tokens that are no part of a constrained answer;
    the native server takes some of them for text there."""
    body: dict[str, Any] = {
        "prompt": prompt,
        "id_slot": slot,
        "cache_prompt": reuse,
        "n_predict": max_tokens,
        "stream": True,
        "return_tokens": True,
        "return_progress": True,
        "timings_per_token": has_draft,
        "response_fields": _FINAL_FIELDS,
    }
    if grammar is not None:
        body |= {"grammar": grammar, "logit_bias": _never(control)}
    return body | _sampling(request.sampling)


def rest_body(
    request: Generate, prompt: object, known: Sequence[int], spelled: bytes, *, slot: int, control: Iterable[int]
) -> dict[str, Any]:
    """The native request for a few tokens more of a constrained answer. known: those that came behind the prompt,
    spelled: their bytes. control: see above. Each request has a seed of its own, since the same one would draw alike
    each time."""
    if isinstance(prompt, list):
        prompt = [*cast("list[int]", prompt), *known]
    else:
        pictured = cast("dict[str, object]", prompt)
        prompt = {**pictured, "prompt_string": f"{pictured['prompt_string']}{spelled.decode()}"}
    sampling = request.sampling
    if sampling.seed is not None:
        sampling = attrs.evolve(sampling, seed=sampling.seed + len(known))
    return {
        "prompt": prompt,
        "id_slot": slot,
        "cache_prompt": True,
        "return_tokens": True,
        "logit_bias": _never(control),
        "response_fields": ["tokens", "timings"],
    } | _sampling(sampling)


def _never(tokens: Iterable[int]) -> list[list[object]]:
    return [[token, False] for token in tokens]


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """Only the samplers named take part, so nothing penalises or truncates by default. The order is llama.cpp's own:
    penalties first (which cost time with every token, so only if there are any), then truncation, temperature last. Its
    penalties are those of our protocol, also over a prompt that is reused (tests/worker/test_penalties.py)."""
    samplers: list[str] = []
    options: dict[str, Any] = {}
    if penalties_on(sampling):
        samplers = ["penalties"]
        options = {
            "repeat_last_n": PENALTY_WINDOW,
            "repeat_penalty": sampling.repeat_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        }
    if sampling.temperature <= 0:
        return options | {"samplers": [*samplers, "top_k"], "top_k": 1}
    seed = _RANDOM_SEED if sampling.seed is None else sampling.seed % _RANDOM_SEED
    return options | {
        "samplers": [*samplers, "top_k", "top_p", "min_p", "temperature"],
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": seed,
    }


def plain_step_body(request: Generate, *, slot: int) -> dict[str, Any]:
    """The native request whose `predicted_ms` is the time of one step that drafts nothing: of its two tokens the first
    is the prompt's, and behind the second nothing is wanted that could be guessed."""
    body = completion_body(request, [0], slot=slot, max_tokens=PLAIN_TOKENS, reuse=False, grammar=None)
    return body | {"stream": False, "return_progress": False, "ignore_eos": True}
