"""How much memory conversations may have, and how it is shared.

The cap covers the KV cache of all slots and the native server's cache in RAM for conversations that lost
their slot. Both are fixed at the load: the slots' cache is allocated then, the other never grows beyond its
share, so nothing exceeds the cap later.
"""

from __future__ import annotations

import os
from typing import Final

import attrs

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.gguf import ModelFile
from muse.worker.engines.llamacpp.prefill_step import LARGEST

MIB: Final = 1024 * 1024
# Without a given cap: this part of the machine's memory.
_SHARE: Final = 0.25
_LARGEST_CACHE: Final = 512 * MIB
_CACHE_SHARE: Final = 0.25
_LEAST_CONTEXT: Final = 2048
_BYTES_PER_VALUE: Final = 2
_CONTEXT_STEP: Final = 256
_MOST_CHECKPOINTS: Final = 32


@attrs.frozen(kw_only=True)
class MemoryPlan:
    """context: tokens a slot holds. kv_bytes: of all slots. cache_bytes: most of the cache in RAM. limit_bytes: the
    cap, at least the sum of both. checkpoints: most that a slot may keep of its sliding window; None without one."""

    context: int
    kv_bytes: int
    cache_bytes: int
    limit_bytes: int
    checkpoints: int | None = None


def plan_memory(
    model: ModelFile,
    *,
    draft: ModelFile | None = None,
    context: int | None,
    slots: int,
    limit_mib: int | None,
    cache_mib: int | None,
) -> MemoryPlan:
    """Share the memory out. draft: it keeps keys and values of its own. context: what was asked for, None: as much as
    the model was trained for and fits.

    Raises EngineFault when what was asked for, or the least that is useful, does not fit.
    """
    limit = limit_mib * MIB if limit_mib is not None else int(machine_bytes() * _SHARE)
    cache = cache_mib * MIB if cache_mib is not None else min(int(limit * _CACHE_SHARE), _LARGEST_CACHE)
    trained = model.integer("{arch}.context_length") or _LEAST_CONTEXT
    slot_token = (kv_bytes_per_token(model) + (kv_bytes_per_token(draft) if draft else 0)) * slots
    fitting = max(limit - cache, 0) // slot_token // _CONTEXT_STEP * _CONTEXT_STEP
    wanted = min(context or trained, trained)
    least = wanted if context else min(wanted, _LEAST_CONTEXT)
    if fitting < least:
        raise EngineFault(
            "out_of_memory",
            f"a context of {least} tokens needs {least * slot_token // MIB + 1} MiB for {slots} conversations, but "
            f"{max(limit - cache, 0) // MIB} MiB are allowed for them: choose a smaller --context"
            f"{f' (at most {fitting})' if fitting else ''} or a larger --kv-memory",
            fatal=True,
        )
    chosen = wanted if context else min(wanted, fitting)
    return MemoryPlan(
        context=chosen,
        kv_bytes=chosen * slot_token,
        cache_bytes=cache,
        limit_bytes=limit,
        checkpoints=_checkpoints(model, chosen),
    )


def _checkpoints(model: ModelFile, context: int) -> int | None:
    """How many checkpoints fit into what `kv_bytes_per_token` counts too much.

    A checkpoint is a copy of the sliding layers' window, by which a conversation can be rewound farther than that
    window: 82 MB each for the 30B model, and the library would keep 32 of them for each slot. Those layers are
    counted with the whole context, but hold no more than a window and what is evaluated at a time, rounded up.
    """
    window = model.integer("{arch}.attention.sliding_window")
    if not window:
        return None
    return min(max((context - window - LARGEST - _CONTEXT_STEP) // window, 0), _MOST_CHECKPOINTS)


def kv_bytes_per_token(model: ModelFile) -> int:
    """Bytes that one token costs in the KV cache, at least; sliding-window layers are counted as full ones."""
    heads = model.integer("{arch}.attention.head_count") or 1
    per_head = (model.integer("{arch}.embedding_length") or 0) // heads
    key = model.integer("{arch}.attention.key_length") or per_head
    value = model.integer("{arch}.attention.value_length") or per_head
    kv_heads = model.integer("{arch}.attention.head_count_kv") or heads
    layers = model.integer("{arch}.block_count") or 1
    return max(1, layers * kv_heads * (key + value) * _BYTES_PER_VALUE)


def machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
