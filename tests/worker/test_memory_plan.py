"""The cap on the memory of conversations: shared out at the load, refused in words where it cannot be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.gguf import ModelFile
from muse.worker.engines.llamacpp.memory import MIB, kv_bytes_per_token, machine_bytes, plan_memory
from tests.worker.client import WorkerProcess

# 2 layers, 2 KV heads of 64 values for keys and as many for values, 2 bytes each: 1 KiB a token.
MODEL = ModelFile(
    path=Path("m"),
    size_bytes=0,
    metadata={
        "general.architecture": b"llama",
        "llama.context_length": 8192,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.embedding_length": 256,
        "llama.block_count": 2,
    },
)


def plan(context: int | None, limit_mib: int | None, cache_mib: int | None = None, slots: int = 2) -> tuple[int, int]:
    made = plan_memory(MODEL, context=context, slots=slots, limit_mib=limit_mib, cache_mib=cache_mib)
    assert made.kv_bytes == made.context * 1024 * slots
    assert made.kv_bytes + made.cache_bytes <= made.limit_bytes
    return made.context, made.cache_bytes // MIB


def test_a_token_costs_what_its_keys_and_values_take() -> None:
    """By the file's own figures."""
    assert kv_bytes_per_token(MODEL) == 2 * 2 * (64 + 64) * 2


@pytest.mark.parametrize(
    ("context", "limit_mib", "cache_mib", "expected"),
    [
        (None, 1024, None, (8192, 256)),  # all that the model was trained for
        (None, 4096, None, (8192, 512)),  # the cache has a ceiling
        (None, 8, None, (3072, 2)),  # what fits
        (None, 8, 0, (4096, 0)),
        (1000, 8, None, (1000, 2)),  # what was asked for
        (99999, 1024, None, (8192, 256)),  # never more than trained for
    ],
)
def test_the_cap_is_shared_out(
    context: int | None, limit_mib: int, cache_mib: int | None, expected: tuple[int, int]
) -> None:
    """Slots and cache together stay below the cap."""
    assert plan(context, limit_mib, cache_mib) == expected


@pytest.mark.parametrize(
    ("window", "context", "expected"),
    [(None, 8192, None), (2048, 8192, 2), (2048, 2048, 0), (1024, 8192, 6), (32, 4096, 32)],
    ids=["no window", "two fit", "none fits", "six fit", "the most"],
)
def test_checkpoints_fit_into_what_is_counted_too_much(window: int | None, context: int, expected: int | None) -> None:
    """Copies of a sliding window stay below the cap: the window's layers were counted with the whole context."""
    metadata = MODEL.metadata | ({} if window is None else {"llama.attention.sliding_window": window})
    model = ModelFile(path=Path("m"), size_bytes=0, metadata=metadata)
    made = plan_memory(model, context=context, slots=2, limit_mib=1024, cache_mib=None)
    assert made.checkpoints == expected


def test_without_a_cap_it_is_a_quarter_of_the_machine() -> None:
    """Which is shown."""
    made = plan_memory(MODEL, context=None, slots=2, limit_mib=None, cache_mib=None)
    assert made.limit_bytes == machine_bytes() // 4


@pytest.mark.parametrize(("context", "most"), [(4096, "at most 3072"), (None, "--kv-memory")])
def test_what_does_not_fit_is_refused_with_a_way_out(context: int | None, most: str) -> None:
    """The figures, and what to choose instead."""
    with pytest.raises(EngineFault, match=most) as caught:
        plan_memory(MODEL, context=context, slots=2, limit_mib=8 if context else 2, cache_mib=None)
    assert (caught.value.code, caught.value.fatal) == ("out_of_memory", True)


@pytest.mark.model
def test_the_worker_keeps_the_cap_and_shows_it(builtin_model: Path) -> None:
    """A real load under a small cap: a shorter context, and both figures in the ready line."""
    with WorkerProcess("--engine", "llamacpp", "--model", str(builtin_model), "--kv-mib", "256") as worker:
        ready = worker.ready()
    assert ready.kv_limit_bytes == 256 * MIB
    assert ready.kv_bytes is not None
    assert 0 < ready.kv_bytes <= 192 * MIB
    assert ready.context_length < 8192
    assert ready.context_length * 3 * 23040 == ready.kv_bytes
