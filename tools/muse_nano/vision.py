"""The image tower in torch: patches to one embedding for each cell of 2 x 2 patches.

Written from contracts/vision.md and contracts/muse-gguf.md section 4. Only for images of at most 32 patches a side,
whose windows are the whole image. The weights stay random: what a tower of this size gives for plain colours is
different enough, and the text model learns what each means.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Final

import attrs
import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from tools.muse_nano.model import CONFIG, Weights, rope_angles, rotate

PIXELS_OF_CELL: Final = 28
RGB: Final = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
SHAPES: Final = {"red": (2, 2), "green": (2, 3), "blue": (3, 2)}
"""Cells of the stored image of each colour: rows, columns."""


@attrs.frozen(kw_only=True)
class VisionConfig:
    """Sizes; what is not here is fixed in the architecture."""

    hidden: int = 32
    inner: int = 64
    layers: int = 2
    heads: int = 2
    patch: int = 14
    temporal: int = 2
    merge: int = 2
    side: int = 32
    adapter: int = 48
    rope_base: float = 10_000.0
    epsilon: float = 1e-5

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads


VISION: Final = VisionConfig()


def initial_weights(seed: int) -> Weights:
    """Random weights under their Hugging Face names."""
    generator = torch.Generator().manual_seed(seed)
    config = VISION

    def matrix(out: int, into: int, spread: float = 1.0) -> torch.Tensor:
        return torch.randn(out, into, generator=generator) * spread / math.sqrt(into)

    patch = config.temporal * 3 * config.patch**2
    weights: Weights = {
        "vision_tower.patch_embedder.patch_embedding.weight": matrix(config.hidden, patch, 4.0),
        "vision_tower.patch_embedder.position_embedding_table.weight": matrix(config.side**2, config.hidden, 0.5),
        "vision_adapter.fc1.weight": matrix(config.adapter, config.hidden * config.merge**2, 2.0),
        "vision_adapter.fc2.weight": matrix(config.adapter, config.adapter, 2.0),
        "vision_projection.weight": matrix(CONFIG.hidden, config.adapter),
    }
    names = {"attn.q_proj": 0, "attn.k_proj": 0, "attn.v_proj": 0, "attn.proj": 0, "mlp.fc1": 1, "mlp.fc2": 2}
    widths = ((config.hidden, config.hidden), (config.inner, config.hidden), (config.hidden, config.inner))
    for layer in range(config.layers):
        for name, kind in names.items():
            weights[f"vision_tower.layers.{layer}.{name}.weight"] = matrix(*widths[kind])
            bias = torch.randn(widths[kind][0], generator=generator) * 0.1
            weights[f"vision_tower.layers.{layer}.{name}.bias"] = bias
    norms = ["ln_pre", "ln_post"]
    norms += [f"layers.{layer}.norm{number}" for layer in range(config.layers) for number in (1, 2)]
    for name in norms:
        weights[f"vision_tower.{name}.weight"] = 1 + 0.1 * torch.randn(config.hidden, generator=generator)
        weights[f"vision_tower.{name}.bias"] = 0.1 * torch.randn(config.hidden, generator=generator)
    return weights


class VisionTower:
    """A forward pass over weights by name."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def features(self, pixels: np.ndarray) -> torch.Tensor:
        """Embeddings [cells, hidden of the text model], before the norm of the text model. pixels: [height, width, 3],
        0..255, both sides multiples of a cell."""
        config = VISION
        rows, columns = (side // config.patch for side in pixels.shape[:2])
        values = torch.from_numpy(pixels.astype(np.float32) / 255 * 2 - 1)
        patches = values.unflatten(1, (columns, config.patch)).unflatten(0, (rows, config.patch))
        patches = patches.permute(0, 2, 4, 1, 3).reshape(rows * columns, -1).repeat(1, config.temporal)
        x = functional.linear(patches, self._weights["vision_tower.patch_embedder.patch_embedding.weight"])
        x = self._norm("ln_pre", x + self._positions(rows, columns))
        angles = self._angles(rows, columns)
        for layer in range(config.layers):
            x = self._layer(f"layers.{layer}", x, angles)
        x = self._norm("ln_post", x).reshape(rows // 2, 2, columns // 2, 2, config.hidden)
        x = x.permute(0, 2, 4, 1, 3).reshape(rows * columns // 4, -1)
        for name in ("vision_adapter.fc1", "vision_adapter.fc2"):
            x = functional.gelu(functional.linear(x, self._weights[f"{name}.weight"]))
        return functional.linear(x, self._weights["vision_projection.weight"])

    def _positions(self, rows: int, columns: int) -> torch.Tensor:
        """The table, read between its entries: row of the image to row of the table."""
        table = self._weights["vision_tower.patch_embedder.position_embedding_table.weight"]
        table = table.reshape(VISION.side, VISION.side, -1)
        for axis, count in ((0, rows), (1, columns)):
            where = (torch.arange(count) + 0.5) * (VISION.side / count) - 0.5
            low = where.floor().long()
            share = (where - low).reshape([-1 if n == axis else 1 for n in range(3)])
            table = (
                table.index_select(axis, low.clamp(0, VISION.side - 1)) * (1 - share)
                + table.index_select(axis, (low + 1).clamp(0, VISION.side - 1)) * share
            )
        return table.reshape(rows * columns, -1)

    def _angles(self, rows: int, columns: int) -> torch.Tensor:
        """[patches, head / 2]: the column's first, then the row's, both counted from one."""
        row, column = torch.meshgrid(torch.arange(rows) + 1, torch.arange(columns) + 1, indexing="ij")
        parts = [rope_angles(axis.reshape(-1), VISION.head // 2, VISION.rope_base) for axis in (column, row)]
        return torch.cat(parts, -1)

    def _layer(self, name: str, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        y = self._norm(f"{name}.norm1", x)
        query, key, value = (
            self._linear(f"{name}.attn.{kind}_proj", y).unflatten(-1, (VISION.heads, -1)).transpose(0, 1)
            for kind in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(rotate(query, angles), rotate(key, angles), value)
        x = x + self._linear(f"{name}.attn.proj", mixed.transpose(0, 1).flatten(1))
        y = functional.gelu(self._linear(f"{name}.mlp.fc1", self._norm(f"{name}.norm2", x)))
        return x + self._linear(f"{name}.mlp.fc2", y)

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = (self._weights[f"vision_tower.{name}.{kind}"] for kind in ("weight", "bias"))
        return functional.linear(x, weight, bias)

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = (self._weights[f"vision_tower.{name}.{kind}"] for kind in ("weight", "bias"))
        return functional.layer_norm(x, (VISION.hidden,), weight, bias, VISION.epsilon)


def plain_image(colour: str, rows: int, columns: int) -> np.ndarray:
    """Pixels of an image of one colour, so many cells large."""
    shape = (rows * PIXELS_OF_CELL, columns * PIXELS_OF_CELL, 3)
    return np.broadcast_to(np.array(RGB[colour], np.uint8), shape).copy()


def decode(content: bytes) -> np.ndarray:
    """Pixels of an image file."""
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def as_png(pixels: np.ndarray) -> bytes:
    """The smallest kind of file that keeps every value."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows, 9)))
    signed = ((kind + data, len(data)) for kind, data in (*chunks, (b"IEND", b"")))
    body = b"".join(struct.pack(">I", size) + data + struct.pack(">I", zlib.crc32(data)) for data, size in signed)
    return b"\x89PNG\r\n\x1a\n" + body


def as_jpeg(pixels: np.ndarray) -> bytes:
    """A JPEG file; its colours are a little off."""
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG", quality=90)
    return content.getvalue()
