"""How much memory conversations may have, and how it is shared.

The cap covers the KV cache of all slots, the draft's included, the checkpoints that slots with a sliding window keep,
and the native server's cache in RAM for conversations that lost their slot. All three are fixed at the load: the
slots' cache is allocated then, the others never grow beyond their share, so nothing exceeds the cap later.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from typing import Final

import attrs

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.gguf import ModelFile
from muse.worker.engines.llamacpp.kv_cache import CELLS_STEP, KvCache, kv_cache_of
from muse.worker.engines.llamacpp.prefill_step import LARGEST, LAST_APART

MIB: Final = 1024 * 1024
# Without a given cap: this part of the machine's memory.
_SHARE: Final = 0.25
_LARGEST_CACHE: Final = 512 * MIB
_CACHE_SHARE: Final = 0.25
_LEAST_CONTEXT: Final = 2048
_MOST_CHECKPOINTS: Final = 32
# Without any, an edit or another try evaluates the whole conversation again: a context that nobody asked for leaves
# room for as many, but gives up no more than this part of it.
_KEPT_CHECKPOINTS: Final = 4
_KEPT_SHARE: Final = 0.25


@attrs.frozen(kw_only=True)
class MemoryPlan:
    """context: tokens a slot holds. kv_bytes: of all slots. checkpoints: most that a slot may keep of its sliding
    window; None without one. checkpoint_bytes: of all that all slots may keep. cache_bytes: most of the cache in RAM.
    limit_bytes: the cap, at least the sum of the three."""

    context: int
    kv_bytes: int
    checkpoints: int | None
    checkpoint_bytes: int
    cache_bytes: int
    limit_bytes: int


@attrs.frozen
class _Slots:
    """What all slots take together. caches: of the model, and of its draft."""

    count: int
    caches: Sequence[KvCache]

    def kv_bytes(self, context: int) -> int:
        return self.count * sum(cache.slot_bytes(context) for cache in self.caches)

    @property
    def checkpoint_bytes(self) -> int:
        """One of each."""
        return self.count * sum(cache.checkpoint_bytes for cache in self.caches)

    def checkpoints(self, context: int, room: int) -> int | None:
        """How many each slot may keep in a room of so many bytes; None: the model has no window."""
        windows = [cache for cache in self.caches if cache.window]
        if not windows:
            return None
        if not self._forgets(context):
            return 0
        fits = [cache.unseen_checkpoints(context) for cache in windows if not cache.sliding]
        if self.checkpoint_bytes:
            fits.append(room // self.checkpoint_bytes)
        return min(*fits, _MOST_CHECKPOINTS)

    def bytes_with_some(self, context: int, room: int) -> int:
        """Of a context with the checkpoints that it should have."""
        if not self.checkpoint_bytes or not self._forgets(context):
            return self.kv_bytes(context)
        kept = min(int(room * _KEPT_SHARE) // self.checkpoint_bytes, _KEPT_CHECKPOINTS)
        return self.kv_bytes(context) + kept * self.checkpoint_bytes

    def _forgets(self, context: int) -> bool:
        return any(cache.forgets(context) for cache in self.caches)


def plan_memory(
    model: ModelFile,
    *,
    draft: ModelFile | None = None,
    context: int | None,
    slots: int,
    limit_mib: int | None,
    cache_mib: int | None,
    batch: int = LARGEST,
) -> MemoryPlan:
    """Share the memory out. draft: it keeps keys and values of its own. context: what was asked for, None: as much as
    the model was trained for and fits. batch: prompt tokens evaluated at a time, at most.

    Raises EngineFault when what was asked for, or the least that is useful, does not fit.
    """
    limit = limit_mib * MIB if limit_mib is not None else int(machine_bytes() * _SHARE)
    cache = cache_mib * MIB if cache_mib is not None else min(int(limit * _CACHE_SHARE), _LARGEST_CACHE)
    room = max(limit - cache, 0)
    files = [model] if draft is None else [model, draft]
    all_slots = _Slots(slots, [kv_cache_of(file, batch=batch + LAST_APART) for file in files])
    trained = model.integer("{arch}.context_length") or _LEAST_CONTEXT
    wanted = min(context or trained, trained)
    least = wanted if context else min(wanted, _LEAST_CONTEXT)
    steps = range(CELLS_STEP, wanted + CELLS_STEP, CELLS_STEP)
    fitting = CELLS_STEP * bisect.bisect_right(steps, room, key=all_slots.kv_bytes)
    if fitting < least:
        raise EngineFault(
            "out_of_memory",
            f"a context of {least} tokens needs {all_slots.kv_bytes(least) // MIB + 1} MiB for {slots} conversations, "
            f"but {room // MIB} MiB are allowed for them: choose a smaller --context"
            f"{f' (at most {fitting})' if fitting else ''} or a larger --kv-memory",
            fatal=True,
        )
    with_some = CELLS_STEP * bisect.bisect_right(steps, room, key=lambda size: all_slots.bytes_with_some(size, room))
    chosen = wanted if context else min(wanted, max(with_some, least))
    checkpoints = all_slots.checkpoints(chosen, room - all_slots.kv_bytes(chosen))
    return MemoryPlan(
        context=chosen,
        kv_bytes=all_slots.kv_bytes(chosen),
        checkpoints=checkpoints,
        checkpoint_bytes=(checkpoints or 0) * all_slots.checkpoint_bytes,
        cache_bytes=cache,
        limit_bytes=limit,
    )


def machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
