"""The files that may go with a model: its draft and its image projector, checked against it before the load.

llama.cpp aborts the whole process on a draft of another width, and takes a projector that only happens to have the
right one. Keys and rules: contracts/muse-gguf.md sections 3 and 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from muse.worker.engines.llamacpp.gguf import ModelFile, ModelFileFault, read_model_file

_DRAFT: Final = "dflash"
_PROJECTOR: Final = "clip"
_MUSE: Final = "muse-glimmer"
# A block is the last token and what is drafted behind it.
_LEAST_BLOCK: Final = 2


def read_draft(path: Path, model: ModelFile) -> ModelFile:
    """Read a DFlash draft and see that it was made for the model. Raises ModelFileFault."""
    draft = _read("draft", path)
    architecture = draft.text("general.architecture")
    if architecture != _DRAFT:
        raise ModelFileFault(f"{path} is no draft: its architecture is {architecture!r}, that of a draft is {_DRAFT!r}")
    _compare("draft", path, "width", draft.integer("{arch}.embedding_length"), _width(model))
    _compare("draft", path, "vocabulary", _vocabulary_size(draft), _vocabulary_size(model))
    tapped, layers = draft.integer("{arch}.target_layers"), model.integer("{arch}.block_count")
    if tapped is None or layers is None or tapped > layers:
        raise ModelFileFault(
            f"the draft {path} does not fit the model: it reads the model's layer {tapped}, the model has {layers}"
        )
    if block_size(draft) < _LEAST_BLOCK:
        raise ModelFileFault(f"the draft {path} cannot be used: its blocks have {block_size(draft)} tokens")
    return draft


def block_size(draft: ModelFile) -> int:
    """Tokens of a draft's block, the one that it begins with included."""
    return draft.integer("{arch}.block_size") or 0


def read_projector(path: Path, model: ModelFile) -> ModelFile:
    """Read an image projector (mmproj) and see that it was made for the model. Raises ModelFileFault.

    Muse Glimmer and its projector know each other by name. Other kinds cut pictures into tokens by other rules, which
    this engine does not know: it could not tell beforehand whether a prompt fits.
    """
    projector = _read("image projector", path)
    architecture = projector.text("general.architecture")
    if architecture != _PROJECTOR or not projector.metadata.get("clip.has_vision_encoder"):
        raise ModelFileFault(
            f"{path} is no image projector: its architecture is {architecture!r}, that of a projector is "
            f"{_PROJECTOR!r}, with a vision encoder"
        )
    kind = projector.text("clip.projector_type") or projector.text("clip.vision.projector_type")
    family = model.text("general.architecture")
    if kind != family:
        raise ModelFileFault(
            f"the image projector {path} does not fit the model: it is of the kind {kind!r}, the model's architecture "
            f"is {family!r}"
        )
    if kind != _MUSE:
        raise ModelFileFault(
            f"the image projector {path} is of the kind {kind!r}; pictures are only supported for {_MUSE!r}"
        )
    _compare("image projector", path, "projection", projector.integer("clip.vision.projection_dim"), _width(model))
    return projector


def _vocabulary_size(model: ModelFile) -> int:
    """Number of tokens that a file knows."""
    tokens: object = model.metadata.get("tokenizer.ggml.tokens")
    return len(cast("list[object]", tokens)) if isinstance(tokens, list) else 0


def _width(model: ModelFile) -> int | None:
    return model.integer("{arch}.embedding_length")


def _read(what: str, path: Path) -> ModelFile:
    try:
        return read_model_file(path)
    except ModelFileFault as fault:
        raise ModelFileFault(f"the {what} cannot be used: {fault}") from fault


def _compare(what: str, path: Path, measure: str, own: int | None, models: int | None) -> None:
    if own is None or own != models:
        raise ModelFileFault(
            f"the {what} {path} does not fit the model: its {measure} is {own}, the model needs {models}"
        )
