"""Reads muse-nano's weights from the committed files: the draft's are only in its GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from gguf import GGUFReader

from tools.muse_nano import hugging_face
from tools.muse_nano.draft import DRAFT
from tools.muse_nano.gguf_files import DRAFT_TENSORS
from tools.muse_nano.model import Weights

FOLDER: Final = Path(__file__).resolve().parents[3] / "tests" / "data" / "muse-nano"


def text_and_vision() -> tuple[Weights, Weights]:
    """Weights of the text model and of the image tower, under their Hugging Face names."""
    return hugging_face.read(FOLDER / "hf")


def draft() -> Weights:
    """Weights of the draft, under the names that `tools.muse_nano.draft` has."""
    reader = GGUFReader(FOLDER / "dflash-muse-nano-F16.gguf")
    stored = {tensor.name: torch.from_numpy(tensor.data.copy()).float() for tensor in reader.tensors}
    names = {"fc": "encoder.fc", "enc.output_norm": "encoder.output_norm_enc", "output_norm": "norm"}
    for layer in range(DRAFT.layers):
        names |= {f"blk.{layer}.{name}": f"layers.{layer}.{theirs}" for name, theirs in DRAFT_TENSORS.items()}
    return {f"{theirs}.weight": stored[f"{name}.weight"] for name, theirs in names.items()}
