"""What a model's keys and values take in memory, as llama.cpp allocates them: contracts/muse-gguf.md section 6.

A layer that sees everything has a cell for each token of the context. One that sees a window has as many as the window
and what is evaluated at a time, never more than the context. Both are rounded up to 256, for each slot. A checkpoint is
a copy of the window in the sliding layers, by which a conversation can be rewound farther than these cells reach.
"""

from __future__ import annotations

from typing import Final, cast

import attrs

from muse.worker.engines.llamacpp.gguf import ModelFile

CELLS_STEP: Final = 256
_BYTES_PER_VALUE: Final = 2
# Position and owners of a cell in a checkpoint.
_CELL_BYTES: Final = 16
# Whose windows were seen to be allocated so. Some other kinds have keys for a window that the library does not heed, or
# a pattern that the file does not name: their layers are counted as full ones, which is never too little.
_SLIDING_KINDS: Final = frozenset({"muse-glimmer", "dflash"})


@attrs.frozen(kw_only=True)
class KvCache:
    """Of one model. whole, sliding: bytes of a token in all layers of that kind; sliding layers that nobody can tell
    count as whole ones. window: tokens that sliding layers see, 0 if there are none. batch: tokens evaluated at a time.
    """

    whole: int
    sliding: int
    window: int
    batch: int

    def slot_bytes(self, context: int) -> int:
        """Bytes of a slot that holds so many tokens."""
        return self.whole * _cells(context) + self.sliding * self._sliding_cells(context)

    def forgets(self, context: int) -> bool:
        """Whether a conversation of that length is longer than the sliding layers' cells."""
        return self.window > 0 and self._sliding_cells(context) < _cells(context)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of one checkpoint, of the sliding layers that can be told."""
        return self.window * (self.sliding + _CELL_BYTES) if self.sliding else 0

    def unseen_checkpoints(self, context: int) -> int:
        """How many checkpoints fit into what is counted too much, sliding layers that were counted as whole ones; less
        one, for what a copy has besides keys and values."""
        return max((_cells(context) - self._sliding_cells(context)) // self.window - 1, 0)

    def _sliding_cells(self, context: int) -> int:
        return _cells(min(_cells(context), self.window + self.batch))


def kv_cache_of(model: ModelFile, *, batch: int) -> KvCache:
    """By the file's own figures."""
    heads = model.integer("{arch}.attention.head_count") or 1
    per_head = (model.integer("{arch}.embedding_length") or 0) // heads
    key = model.integer("{arch}.attention.key_length") or per_head
    value = model.integer("{arch}.attention.value_length") or per_head
    kv_heads = model.integer("{arch}.attention.head_count_kv") or heads
    layers = model.integer("{arch}.block_count") or 1
    layer_bytes = max(1, kv_heads * (key + value) * _BYTES_PER_VALUE)
    window = model.integer("{arch}.attention.sliding_window") or 0
    sliding = _sliding_layers(model, layers) if window else 0
    return KvCache(
        whole=(layers - sliding) * layer_bytes,
        sliding=sliding * layer_bytes,
        window=window,
        batch=batch,
    )


def _sliding_layers(model: ModelFile, layers: int) -> int:
    """How many layers see a window: a flag for each, or the period of which the last layer is a full one."""
    if model.text("general.architecture") not in _SLIDING_KINDS:
        return 0
    pattern: object = model.value("{arch}.attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return sum(flag is True for flag in cast("list[object]", pattern)[:layers])
    if isinstance(pattern, int) and pattern > 0:
        return sum(layer % pattern < pattern - 1 for layer in range(layers))
    return 0


def _cells(tokens: int) -> int:
    return -(-tokens // CELLS_STEP) * CELLS_STEP
