"""GGUF files: what is read from a whole one, and the clear words about a broken one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muse.protocol import Error
from muse.worker.engines.llamacpp.gguf import ModelFileFault, read_model_file
from tests.worker.client import WorkerProcess


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def small_gguf(*, architecture: str = "nonsense", tensor_bytes: int = 64) -> bytes:
    """A valid file with four settings and one F32 tensor of 16 values."""
    settings_ = [
        string("general.architecture") + struct.pack("<I", 8) + string(architecture),
        string("nonsense.context_length") + struct.pack("<II", 4, 4096),
        string("nonsense.attention.head_count_kv") + struct.pack("<IIQ3i", 9, 5, 3, 1, 4, 2),
        string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("<|end|>"),
    ]
    tensor = string("weights") + struct.pack("<IQQIQ", 2, 4, 4, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(settings_)) + b"".join(settings_) + tensor
    return head + bytes(-len(head) % 32) + bytes(tensor_bytes)


@pytest.fixture
def model_path(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return path

    return write


def test_settings_are_read(model_path: Callable[[bytes], Path]) -> None:
    """Scalars, strings and lists; `{arch}` names the architecture; of a value a layer the largest counts."""
    model = read_model_file(model_path(small_gguf()))
    assert model.text("general.architecture") == "nonsense"
    assert model.integer("{arch}.context_length") == 4096
    assert model.integer("{arch}.attention.head_count_kv") == 4
    assert model.integer("{arch}.missing") is None
    assert model.metadata["tokenizer.ggml.tokens"] == [b"a", b"<|end|>"]


def test_built_in_model_is_whole(builtin_model: Path) -> None:
    """The check accepts a real file."""
    assert read_model_file(builtin_model).integer("{arch}.context_length") == 8192


def test_every_cut_is_found(model_path: Callable[[bytes], Path]) -> None:
    """A file cut at any byte is refused, with the place in words."""
    whole = small_gguf()
    for size in range(len(whole)):
        with pytest.raises(ModelFileFault, match=r"model\.gguf"):
            read_model_file(model_path(whole[:size]))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(4, 200), value=st.binary(min_size=1, max_size=8))
def test_damage_is_a_fault_or_goes_unseen(model_path: Callable[[bytes], Path], position: int, value: bytes) -> None:
    """Any damage of the header gives a model or a ModelFileFault, nothing else, and no huge allocation."""
    content = bytearray(small_gguf())
    content[position : position + len(value)] = value
    with suppress(ModelFileFault):
        read_model_file(model_path(bytes(content)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too few"),
        (b"GGUF", "too few"),
        (b"just some text, long enough to be read", "is not a GGUF model"),
        (b"GGUF" + struct.pack("<I", 99) + bytes(40), "version 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 5) + bytes(40), "damaged"),
        (small_gguf(tensor_bytes=63), "is cut off"),
        (small_gguf(), "unknown model architecture: 'nonsense'"),
    ],
    ids=["empty", "magic only", "text", "version", "counts", "cut", "architecture"],
)
def test_worker_says_what_is_wrong_with_the_file(
    model_path: Callable[[bytes], Path], content: bytes, words: str
) -> None:
    """A fatal error that names the file or the reason, then status 3; also what only the library can see."""
    with WorkerProcess("--engine", "llamacpp", "--model", str(model_path(content))) as worker:
        error = worker.wait(Error)
        assert error.fatal
        assert words in error.message
        assert worker.wait_exit() == 3


def test_worker_says_that_there_is_no_file(tmp_path: Path) -> None:
    """Missing, and a folder in its place."""
    for path, words in ((tmp_path / "no.gguf", "there is no model file"), (tmp_path, "is a folder")):
        with WorkerProcess("--engine", "llamacpp", "--model", str(path)) as worker:
            assert words in worker.wait(Error).message
            assert worker.wait_exit() == 3
