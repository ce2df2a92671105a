"""What a program says of itself: its numbers, read with and without ExecuTorch, and why it cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.library import Library, Program
from muse.worker.pte_constants import read_constants
from tests.engines.executorch.artifacts import KINDS
from tests.engines.executorch.conftest import Artifact


@pytest.mark.parametrize("kind", KINDS)
def test_constants_are_those_of_the_program(artifact: Artifact, kind: str) -> None:
    """All whole numbers, of programs with and without a draft, with and without an image encoder."""
    path = artifact(kind) / "model.pte"
    program = Program(Library(threads=1), path)
    numbers = {
        name: value
        for name in program.names
        if not program.inputs(name) and type(value := program.constant(name)) is int
    }
    assert len(numbers) >= 3
    assert read_constants(path) == numbers


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [(4, b"ET99", "Program identifier 'ET99' != expected 'ET12'"), (200, b"\xff" * 200, "Verification failed")],
)
def test_a_failed_load_says_why(artifact: Artifact, tmp_path: Path, place: int, change: bytes, words: str) -> None:
    """Not with a number alone; and the log is ours again afterwards."""
    content = bytearray((artifact("solo") / "model.pte").read_bytes())
    content[place : place + len(change)] = change
    path = tmp_path / "model.pte"
    path.write_bytes(content)
    with pytest.raises(EngineFault) as caught:
        Program(Library(threads=1), path)
    assert caught.value.code == "bad_request"
    assert f"error: 0x:23 ({words}" in caught.value.message
    assert "made by another version than this one (executorch 1.5.1" in caught.value.message


def test_the_log_is_heard_by_others_as_well(
    artifact: Artifact, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once: what is heard for the message is a second failure."""
    path = tmp_path / "model.pte"
    path.write_bytes((artifact("solo") / "model.pte").read_bytes().replace(b"ET12", b"ET99", 1))
    with pytest.raises(EngineFault):
        Program(Library(threads=1), path)
    assert capfd.readouterr().err.count("Program identifier") == 1
