"""What a `.pte` file says of itself is read without ExecuTorch, and a damaged file raises nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.worker.pte_constants import read_constants
from tests.native.pte_file import program_with

PROGRAM = program_with(
    {"get_max_seq_len": 4096, "get_max_vision_patches": 1024, "zero": 0, "low": -1, "has_vision_encoder": True}
)
FOUND = {"get_max_seq_len": 4096, "get_max_vision_patches": 1024, "zero": 0, "low": -1}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files are written."""
    return tmp_path_factory.mktemp("pte") / "model.pte"


def test_whole_numbers_are_read_by_name(path: Path) -> None:
    """Switches and methods that compute are none."""
    path.write_bytes(PROGRAM)
    assert read_constants(path) == FOUND


@pytest.mark.parametrize("content", [b"", b"ET12", b"\0" * 4 + b"ET12", b"GGUF" * 100, PROGRAM[4:]])
def test_what_is_no_program_says_nothing(path: Path, content: bytes) -> None:
    """What loads it has the words for it."""
    path.write_bytes(content)
    assert read_constants(path) == {}


@given(place=st.integers(8, len(PROGRAM) - 1), byte=st.integers(0, 255), size=st.integers(1, len(PROGRAM)))
def test_a_damaged_file_raises_nothing(path: Path, place: int, byte: int, size: int) -> None:
    """Wherever it is changed or cut off."""
    changed = bytearray(PROGRAM)
    changed[place] = byte
    path.write_bytes(changed[:size])
    assert all(isinstance(name, str) and isinstance(value, int) for name, value in read_constants(path).items())


def test_a_file_that_is_not_there_says_nothing(path: Path) -> None:
    """It is missed elsewhere."""
    assert read_constants(path.with_name("other.pte")) == {}
