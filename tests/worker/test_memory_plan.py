"""The cap on the memory of conversations: shared out at the load, refused in words where it cannot be kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.gguf import ModelFile, read_model_file
from muse.worker.engines.llamacpp.kv_cache import kv_cache_of
from muse.worker.engines.llamacpp.memory import MIB, machine_bytes, plan_memory
from tests.worker.client import WorkerProcess
from tests.worker.nano import DRAFT, as_ids, prompt_ids, turns
from tests.worker.nano import MODEL as NANO

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


# As the published file of the 30B model says, with the period in place of a flag for each layer; and its draft.
LARGE = ModelFile(
    path=Path("m"),
    size_bytes=0,
    metadata={
        "general.architecture": b"muse-glimmer",
        "muse-glimmer.block_count": 52,
        "muse-glimmer.context_length": 131072,
        "muse-glimmer.embedding_length": 6656,
        "muse-glimmer.attention.head_count": 32,
        "muse-glimmer.attention.head_count_kv": 2,
        "muse-glimmer.attention.key_length": 128,
        "muse-glimmer.attention.value_length": 128,
        "muse-glimmer.attention.sliding_window": 2048,
        "muse-glimmer.attention.sliding_window_pattern": 4,
    },
)
LARGE_DRAFT = ModelFile(
    path=Path("d"),
    size_bytes=0,
    metadata={
        "general.architecture": b"dflash",
        "dflash.block_count": 5,
        "dflash.embedding_length": 6656,
        "dflash.attention.head_count": 32,
        "dflash.attention.head_count_kv": 8,
        "dflash.attention.key_length": 128,
        "dflash.attention.value_length": 128,
        "dflash.attention.sliding_window": 2048,
        "dflash.attention.sliding_window_pattern": [True] * 5,
    },
)
# Tells the log of the native server, which has the sizes of what is allocated.
TALKATIVE = """
import runpy, sys
import muse.worker.engines.llamacpp.loading as loading
from muse.worker.engines.llamacpp.encoding_times import EncodingTimes
loading._LOG_WARNINGS = 4
EncodingTimes.read = lambda times, line: True
sys.argv = ["muse.worker", *{arguments}]
runpy.run_module("muse.worker", run_name="__main__")
"""


def plan(context: int | None, limit_mib: int | None, cache_mib: int | None = None, slots: int = 2) -> tuple[int, int]:
    made = plan_memory(MODEL, context=context, slots=slots, limit_mib=limit_mib, cache_mib=cache_mib)
    assert made.kv_bytes == -(-made.context // 256) * 256 * 1024 * slots
    assert made.kv_bytes + made.cache_bytes <= made.limit_bytes
    return made.context, made.cache_bytes // MIB


def test_a_token_costs_what_its_keys_and_values_take() -> None:
    """By the file's own figures."""
    assert kv_cache_of(MODEL, batch=512).whole == 2 * 2 * (64 + 64) * 2


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
    [(None, 8192, None), (2048, 8192, 1), (2048, 2048, 0), (1024, 8192, 5), (32, 4096, 32)],
    ids=["no window", "one fits", "none fits", "five fit", "the most"],
)
def test_checkpoints_fit_into_what_is_counted_too_much(window: int | None, context: int, expected: int | None) -> None:
    """Where nobody can tell which layers see the window, all are counted with the whole context."""
    metadata = MODEL.metadata | ({} if window is None else {"llama.attention.sliding_window": window})
    model = ModelFile(path=Path("m"), size_bytes=0, metadata=metadata)
    made = plan_memory(model, context=context, slots=2, limit_mib=1024, cache_mib=None)
    assert (made.checkpoints, made.checkpoint_bytes) == (expected, 0)
    assert made.kv_bytes == context * 1024 * 2


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


@pytest.mark.parametrize(
    ("limit_mib", "draft", "expected"),
    [
        (8192, None, (131072, 10)),
        (8192, LARGE_DRAFT, (131072, 6)),
        (4096, None, (67072, 3)),
        (4096, LARGE_DRAFT, (62720, 2)),
        (1536, None, (15616, 1)),
        (400, None, None),
    ],
    ids=["8 GiB", "8 GiB with draft", "4 GiB", "4 GiB with draft", "1.5 GiB", "400 MiB"],
)
def test_the_large_model_gets_the_context_that_fits(
    limit_mib: int, draft: ModelFile | None, expected: tuple[int, int] | None
) -> None:
    """13 of its 52 layers hold the whole context, 39 a window; with checkpoints, all within the cap."""
    arguments = {"draft": draft, "slots": 3, "limit_mib": limit_mib, "cache_mib": None}
    if expected is None:
        with pytest.raises(EngineFault, match="a context of 2048 tokens needs"):
            plan_memory(LARGE, context=None, **arguments)
        return
    made = plan_memory(LARGE, context=None, **arguments)
    assert (made.context, made.checkpoints) == expected
    cells = 3 * 2816  # window 2048, and 512 + 4 evaluated at a time, in steps of 256; three slots
    assert made.kv_bytes == 3 * made.context * 13 * 1024 + cells * 39 * 1024 + (cells * 5 * 4096 if draft else 0)
    assert made.kv_bytes + made.checkpoint_bytes + made.cache_bytes <= made.limit_bytes


def test_flags_and_period_say_the_same() -> None:
    """Both forms are in use."""
    flags = {"muse-glimmer.attention.sliding_window_pattern": [True, True, True, False] * 13}
    other = ModelFile(path=Path("m"), size_bytes=0, metadata=LARGE.metadata | flags)
    assert kv_cache_of(other, batch=512) == kv_cache_of(LARGE, batch=512)


def test_a_context_asked_for_leaves_what_it_leaves() -> None:
    """No checkpoint is worth refusing it; what lies within the window's cells needs none."""
    tight = plan_memory(LARGE, context=131072, slots=3, limit_mib=5600, cache_mib=0)
    assert (tight.context, tight.checkpoints) == (131072, 1)
    assert plan_memory(LARGE, context=2800, slots=3, limit_mib=5600, cache_mib=0).checkpoints == 0


@pytest.mark.parametrize(
    ("arguments", "batch"),
    [((), 512), (("--context", "300"), 512), (("--batch", "64", "--slots", "1"), 64), (("--draft", str(DRAFT)), 512)],
    ids=["alone", "short", "small steps", "with draft"],
)
def test_what_is_planned_is_what_the_library_allocates(arguments: tuple[str, ...], batch: int) -> None:
    """By the sizes in its own log, cell by cell; and a checkpoint is no larger than was thought."""
    files = [read_model_file(path) for path in (NANO, DRAFT) if path == NANO or "--draft" in arguments]
    given = ["--engine", "llamacpp", "--model", str(NANO), "--threads", "1", *arguments]
    with WorkerProcess(script=TALKATIVE.format(arguments=given)) as worker:
        ready = worker.ready()
        worker.ask(as_ids(prompt_ids(turns("needle-far-1")[0])[: ready.context_length - 1]), limit=1)
    log = worker.stderr.decode()
    # One line for the full layers of a model and one for the sliding ones; 128 bytes a cell and layer, as nano has it.
    sizes = re.findall(r"llama_kv_cache: size = .*\( *(\d+) cells, *(\d+) layers, *(\d+)/", log)[-2 * len(files) :]
    assert sum(128 * int(cells) * int(layers) * int(slots) for cells, layers, slots in sizes) == ready.kv_bytes
    checkpoint = sum(kv_cache_of(file, batch=batch).checkpoint_bytes for file in files)
    made = [float(size) * MIB for size in re.findall(r"created context checkpoint.*size = ([\d.]+) MiB", log)]
    assert bool(made) == ("--context" not in arguments)
    assert all(0.9 * checkpoint - 1000 <= size <= checkpoint + 1000 for size in made[-1:])
