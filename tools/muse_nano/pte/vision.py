"""The image tower as an ExecuTorch method, `vision_encoder` (contracts/pte-contract.md section 3.5).

Every table comes in from outside. Layers see tiles, but for each fourth and the last, which see everything.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from tools.muse_nano.model import CONFIG, Weights, rms
from tools.muse_nano.pte.target import ACTIVATION
from tools.muse_nano.vision import VISION


def _is_global(layer: int) -> bool:
    return (layer + 1) % 4 == 0 or layer == VISION.layers - 1


def _rotate(values: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """On halves, as muse-nano's weights want it; the real tower rotates neighbours, which is the same of other rows."""
    first, second = values.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class VisionEncoder(nn.Module):
    """Patches to one embedding for each cell, normed as `embed_text` norms those of text."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        prefix = "vision_tower."
        self._names: dict[str, str] = {}
        for name, weight in weights.items():
            if "position_embedding_table" in name:
                continue  # it lies beside the program, and is read before it
            plain = name.removeprefix(prefix).replace(".", "_")
            self._names[name.removeprefix(prefix)] = plain
            self.register_parameter(plain, nn.Parameter(weight, requires_grad=False))

    def _of(self, name: str) -> torch.Tensor:
        return getattr(self, self._names[name])

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self._of(f"{name}.weight"), self._of(f"{name}.bias")
        return functional.layer_norm(x, (VISION.hidden,), weight, bias, VISION.epsilon)

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self._of(f"{name}.weight"), self._of(f"{name}.bias"))

    def forward(
        self,
        patches: torch.Tensor,
        positions: torch.Tensor,
        cosine: torch.Tensor,
        sine: torch.Tensor,
        sparse_perm: torch.Tensor,
        inv_perm: torch.Tensor,
        global_mask: torch.Tensor,
        sparse_mask: torch.Tensor,
        pixel_perm: torch.Tensor,
    ) -> torch.Tensor:
        x = functional.linear(patches, self._of("patch_embedder.patch_embedding.weight")) + positions.float()
        x = self._norm("ln_pre", x)
        for layer in range(VISION.layers):
            name = f"layers.{layer}"
            if _is_global(layer):
                x = self._layer(name, x, cosine, sine, global_mask)
            else:
                x = self._layer(name, x[:, sparse_perm], cosine[sparse_perm], sine[sparse_perm], sparse_mask)
                x = x[:, inv_perm]
        x = self._norm("ln_post", x)[0, pixel_perm]
        x = x.unflatten(0, (-1, VISION.merge**2)).transpose(1, 2).flatten(1)
        for name in ("vision_adapter.fc1", "vision_adapter.fc2"):
            x = functional.gelu(functional.linear(x, self._of(f"{name}.weight")))
        x = functional.linear(x, self._of("vision_projection.weight"))
        return rms(x, CONFIG.epsilon)[None].to(ACTIVATION)

    def _layer(
        self, name: str, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        y = self._norm(f"{name}.norm1", x)
        query, key, value = (
            self._linear(f"{name}.attn.{kind}_proj", y).unflatten(-1, (VISION.heads, -1)).transpose(1, 2)
            for kind in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(
            _rotate(query, cosine, sine),
            _rotate(key, cosine, sine),
            value,
            attn_mask=torch.where(mask, 0.0, -1e9),
        )
        x = x + self._linear(f"{name}.attn.proj", mixed.transpose(1, 2).flatten(2))
        y = functional.gelu(self._linear(f"{name}.mlp.fc1", self._norm(f"{name}.norm2", x)))
        return x + self._linear(f"{name}.mlp.fc2", y)
