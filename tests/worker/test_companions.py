"""Draft and image projector: what does not fit the model is refused in words, before llama.cpp sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from muse.protocol import Error
from muse.worker.engines.llamacpp.companions import block_size, read_draft, read_projector
from muse.worker.engines.llamacpp.gguf import ModelFile, ModelFileFault, read_model_file
from tests.worker.client import WorkerProcess
from tests.worker.gguf_file import Value, gguf
from tests.worker.nano import DRAFT, MMPROJ, MODEL

GOOD_DRAFT: Final[dict[str, Value]] = {
    "general.architecture": "dflash",
    "dflash.embedding_length": 64,
    "dflash.target_layers": [1, 3],
    "dflash.block_size": 8,
    "tokenizer.ggml.tokens": [str(number) for number in range(512)],
}
GOOD_PROJECTOR: Final[dict[str, Value]] = {
    "general.architecture": "clip",
    "clip.has_vision_encoder": True,
    "clip.projector_type": "muse-glimmer",
    "clip.vision.projection_dim": 64,
}


@pytest.fixture(scope="module")
def model() -> ModelFile:
    """muse-nano: 64 wide, 512 tokens, 4 layers."""
    return read_model_file(MODEL)


def written(folder: Path, settings: dict[str, Value]) -> Path:
    path = folder / "file.gguf"
    path.write_bytes(gguf(settings))
    return path


def test_the_right_files_are_taken(model: ModelFile, tmp_path: Path) -> None:
    """Those of muse-nano, and the smallest that say the same of themselves."""
    assert block_size(read_draft(DRAFT, model)) == 8
    assert read_projector(MMPROJ, model).size_bytes == MMPROJ.stat().st_size
    assert read_draft(written(tmp_path, GOOD_DRAFT), model).text("general.architecture") == "dflash"
    assert read_projector(written(tmp_path, GOOD_PROJECTOR), model).text("general.architecture") == "clip"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"general.architecture": "llama"}, "is no draft: its architecture is 'llama'"),
        ({"dflash.embedding_length": 96}, "its width is 96, the model needs 64"),
        ({"dflash.embedding_length": "wide"}, "its width is None, the model needs 64"),
        ({"tokenizer.ggml.tokens": ["a", "b"]}, "its vocabulary is 2, the model needs 512"),
        ({"tokenizer.ggml.tokens": 512}, "its vocabulary is 0, the model needs 512"),
        ({"dflash.target_layers": [2, 50]}, "reads the model's layer 50, the model has 4"),
        ({"dflash.block_size": 1}, "its blocks have 1 tokens"),
    ],
)
def test_a_wrong_draft_is_refused(model: ModelFile, tmp_path: Path, change: dict[str, Value], words: str) -> None:
    """With its figure and the model's."""
    with pytest.raises(ModelFileFault, match=words):
        read_draft(written(tmp_path, GOOD_DRAFT | change), model)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"general.architecture": "llama"}, "is no image projector: its architecture is 'llama'"),
        ({"clip.has_vision_encoder": False}, "with a vision encoder"),
        ({"clip.projector_type": "gemma3"}, "of the kind 'gemma3', the model's architecture is 'muse-glimmer'"),
        ({"clip.vision.projection_dim": 6656}, "its projection is 6656, the model needs 64"),
    ],
)
def test_a_wrong_projector_is_refused(model: ModelFile, tmp_path: Path, change: dict[str, Value], words: str) -> None:
    """With what it has and what the model needs."""
    with pytest.raises(ModelFileFault, match=words):
        read_projector(written(tmp_path, GOOD_PROJECTOR | change), model)


def test_a_model_of_another_kind_needs_another_projector(tmp_path: Path) -> None:
    """Also when the widths happen to agree."""
    other = read_model_file(written(tmp_path, {"general.architecture": "llama", "llama.embedding_length": 64}))
    with pytest.raises(ModelFileFault, match="of the kind 'muse-glimmer', the model's architecture is 'llama'"):
        read_projector(MMPROJ, other)


@pytest.mark.parametrize("option", ["--draft", "--mmproj"])
def test_the_worker_says_which_file_is_wrong(option: str, tmp_path: Path) -> None:
    """A missing one, one that is no GGUF, and the model itself in its place: a fatal error, then status 3."""
    text = tmp_path / "notes.txt"
    text.write_text("just some text, long enough to be read")
    what = {"--draft": "draft", "--mmproj": "image projector"}[option]
    for path, words in (
        (tmp_path / "no.gguf", f"the {what} cannot be used: there is no model file"),
        (text, "is not a GGUF model"),
        (MODEL, f"is no {what}"),
    ):
        with WorkerProcess("--engine", "llamacpp", "--model", str(MODEL), option, str(path)) as worker:
            error = worker.wait(Error)
            assert (error.code, error.fatal) == ("bad_request", True)
            assert words in error.message
            assert str(path) in error.message
            assert worker.wait_exit() == 3
