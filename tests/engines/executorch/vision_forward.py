"""The image tower once more, place by place in plain NumPy and double precision, to compare the engine's path with.

Written from contracts/vision.md alone, sections 2 to 5, and from what muse-nano's weights need (rotation on halves).
Nothing of the product's is used: not its scaling, tables or masks. Windows are cut out and attended to one by one.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Final, Literal

import attrs
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tools.muse_nano.model import CONFIG
from tools.muse_nano.pte.weights import text_and_vision
from tools.muse_nano.vision import VISION

PATCH: Final = 14
TABLE: Final = 32
TILE: Final = 32
_ROPE_BASE: Final = 10_000

Floats = NDArray[np.float64]


def pixels_of(content: bytes, rows: int, columns: int) -> np.ndarray:
    """[height, width, 3] of a file without orientation or transparency, at so many cells."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    return np.asarray(image.resize((columns * 2 * PATCH, rows * 2 * PATCH), Image.Resampling.LANCZOS))


@attrs.frozen(kw_only=True)
class Forward:
    """order: in which the positions of the table are handed out. tile: patches of a window's side."""

    order: Literal["rows", "columns"] = "rows"
    tile: int = TILE

    def features(self, pixels: NDArray[np.uint8]) -> Floats:
        """Embeddings [cells, width], as the text model takes them."""
        rows, columns = pixels.shape[0] // PATCH, pixels.shape[1] // PATCH
        weights = {name: weight.double().numpy() for name, weight in text_and_vision()[1].items()}
        tower = _Tower(weights, list(_tiles(rows, columns, self.tile)), _angles(rows, columns))
        x = tower.plain("patch_embedder.patch_embedding", _patches(pixels, rows, columns))
        x = tower.norm("ln_pre", x + self._positions(weights, rows, columns))
        for layer in range(VISION.layers):
            x = tower.layer(f"layers.{layer}", x, sees_all=(layer + 1) % 4 == 0 or layer == VISION.layers - 1)
        x = tower.norm("ln_post", x)
        cells: list[Floats] = []
        for row in range(0, rows, 2):
            for column in range(0, columns, 2):
                four = [x[(row + dy) * columns + column + dx] for dy in (0, 1) for dx in (0, 1)]
                cells.append(np.stack(four, 1).reshape(-1))
        y = np.stack(cells)
        for name in ("vision_adapter.fc1", "vision_adapter.fc2"):
            y = _gelu(y @ weights[f"{name}.weight"].T)
        y = y @ weights["vision_projection.weight"].T
        return y / np.sqrt((y**2).mean(1, keepdims=True) + CONFIG.epsilon)

    def _positions(self, weights: dict[str, Floats], rows: int, columns: int) -> Floats:
        table = weights["vision_tower.patch_embedder.position_embedding_table.weight"].reshape(TABLE, TABLE, -1)
        found: list[Floats] = []
        if self.order == "columns":  # the grid is laid out with the column slow, and the table read by it from above
            rows, columns = columns, rows
        for number in range(rows * columns):
            row, column = divmod(number, columns)
            found.append(_between(table, (row + 0.5) / rows * TABLE - 0.5, (column + 0.5) / columns * TABLE - 0.5))
        return np.stack(found)


def _between(table: Floats, row: float, column: float) -> Floats:
    """Bilinear; outside the table there is nothing."""
    total = np.zeros(table.shape[2])
    for r in (math.floor(row), math.floor(row) + 1):
        for c in (math.floor(column), math.floor(column) + 1):
            if 0 <= r < TABLE and 0 <= c < TABLE:
                total = total + table[r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return total


def _patches(pixels: NDArray[np.uint8], rows: int, columns: int) -> Floats:
    """[patches, 1176]: two equal moments, colours, rows of points."""
    found: list[Floats] = []
    for row in range(rows):
        for column in range(columns):
            part = pixels[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] / 255
            moment = ((part - 0.5) / 0.5).transpose(2, 0, 1).reshape(-1)
            found.append(np.concatenate([moment, moment]))
    return np.stack(found)


def _angles(rows: int, columns: int) -> Floats:
    """[patches, head / 2]: of the column, then of the row, counted from one."""
    count = VISION.head // 4
    found = [
        [(place + 1) * _ROPE_BASE ** (-n / count) for place in (column, row) for n in range(count)]
        for row in range(rows)
        for column in range(columns)
    ]
    return np.array(found)


def _tiles(rows: int, columns: int, side: int) -> Iterator[list[int]]:
    """The patches of each window."""
    for top in range(0, rows, side):
        for left in range(0, columns, side):
            yield [
                row * columns + column
                for row in range(top, min(top + side, rows))
                for column in range(left, min(left + side, columns))
            ]


def _gelu(x: Floats) -> Floats:
    """The exact one."""
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def _softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@attrs.frozen
class _Tower:
    weights: dict[str, Floats]
    tiles: list[list[int]]
    angles: Floats

    def layer(self, name: str, x: Floats, *, sees_all: bool) -> Floats:
        y = self.norm(f"{name}.norm1", x)
        query, key = (self._turned(self._heads(f"{name}.attn.{kind}_proj", y)) for kind in "qk")
        value = self._heads(f"{name}.attn.v_proj", y)
        mixed = np.zeros_like(value)
        for window in [list(range(len(x)))] if sees_all else self.tiles:
            scores = query[:, window] @ key[:, window].transpose(0, 2, 1) / math.sqrt(VISION.head)
            mixed[:, window] = _softmax(scores) @ value[:, window]
        x = x + self.linear(f"{name}.attn.proj", mixed.transpose(1, 0, 2).reshape(len(x), -1))
        inner = _gelu(self.linear(f"{name}.mlp.fc1", self.norm(f"{name}.norm2", x)))
        return x + self.linear(f"{name}.mlp.fc2", inner)

    def _heads(self, name: str, x: Floats) -> Floats:
        return self.linear(name, x).reshape(len(x), VISION.heads, VISION.head).transpose(1, 0, 2)

    def _turned(self, values: Floats) -> Floats:
        first, second = np.split(values, 2, 2)
        cosine, sine = np.cos(self.angles), np.sin(self.angles)
        return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], 2)

    def plain(self, name: str, x: Floats) -> Floats:
        return x @ self.weights[f"vision_tower.{name}.weight"].T

    def linear(self, name: str, x: Floats) -> Floats:
        return self.plain(name, x) + self.weights[f"vision_tower.{name}.bias"]

    def norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + VISION.epsilon)
        return scaled * self.weights[f"vision_tower.{name}.weight"] + self.weights[f"vision_tower.{name}.bias"]
