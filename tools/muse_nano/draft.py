"""The draft in torch, a DFlash model: it fills in a whole block of tokens at once, from what the text model has seen.

Written from contracts/muse-gguf.md section 3. The block is the last token and then mask tokens; inside it everything
sees everything. Older positions are seen through hidden states that are tapped from the text model. Embedding and
head are those of the text model.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import torch
from torch.nn import functional

from tools.muse_nano.model import CONFIG, TextModel, Weights, rms, rope_angles, rotate


@attrs.frozen(kw_only=True)
class DraftConfig:
    """Sizes. block: tokens filled in at once, the last known one included. taps: layers of the text model."""

    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    inner: int = 128
    block: int = 8
    window: int = 64
    taps: tuple[int, ...] = (0, 2)


DRAFT: Final = DraftConfig()


def initial_weights(seed: int) -> Weights:
    """Random weights under their Hugging Face names."""
    generator = torch.Generator().manual_seed(seed)
    hidden, queries, keys = CONFIG.hidden, DRAFT.heads * CONFIG.head, DRAFT.kv_heads * CONFIG.head
    shapes = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (DRAFT.inner, hidden),
        "mlp.up_proj": (DRAFT.inner, hidden),
        "mlp.down_proj": (hidden, DRAFT.inner),
    }
    norms = {
        "input_layernorm": hidden,
        "post_attention_layernorm": hidden,
        "self_attn.q_norm": CONFIG.head,
        "self_attn.k_norm": CONFIG.head,
    }
    matrices = {"encoder.fc": (hidden, len(DRAFT.taps) * hidden)}
    ones = {"encoder.output_norm_enc": hidden, "norm": hidden}
    for layer in range(DRAFT.layers):
        matrices |= {f"layers.{layer}.{name}": shape for name, shape in shapes.items()}
        ones |= {f"layers.{layer}.{name}": width for name, width in norms.items()}
    weights = {
        f"{name}.weight": torch.randn(out, into, generator=generator) / math.sqrt(into)
        for name, (out, into) in matrices.items()
    }
    return weights | {f"{name}.weight": torch.ones(width) for name, width in ones.items()}


def positions_before(starts: torch.Tensor) -> torch.Tensor:
    """[n, DRAFT.window]: the positions that a block at each start may look back at, negative before the text."""
    return starts[:, None] - DRAFT.window + torch.arange(DRAFT.window)


class DraftModel:
    """A forward pass over weights by name, on top of a text model."""

    def __init__(self, text: TextModel, weights: Weights) -> None:
        self._text = text
        self._weights = weights

    @staticmethod
    def tap(states: list[torch.Tensor]) -> torch.Tensor:
        """What the draft is given of the text model's hidden states."""
        return torch.cat([states[layer + 1] for layer in DRAFT.taps], -1)

    def forward(self, tapped: torch.Tensor, blocks: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Logits [n, block, vocabulary], without scale and cap, which change no order.

        tapped: [n, DRAFT.window, taps], of the positions just before each block; what would lie before the text is
        not looked at. blocks: [n, block] ids. starts: [n] position of each block's first token.
        """
        fused = functional.linear(tapped, self._weights["encoder.fc.weight"])
        context = rms(fused, CONFIG.epsilon) * self._weights["encoder.output_norm_enc.weight"]
        x = functional.embedding(blocks, self._text.weights["model.embed_tokens.weight"])
        own = starts[:, None] + torch.arange(blocks.shape[1])
        there = torch.cat([positions_before(starts), own], 1)
        mask = ((there >= 0)[:, None] & (own[:, :, None] - there[:, None] < DRAFT.window))[:, None]
        for layer in range(DRAFT.layers):
            x = self._layer(f"layers.{layer}", x, context, mask, own, there)
        return functional.linear(
            rms(x, CONFIG.epsilon) * self._weights["norm.weight"], self._text.weights["lm_head.weight"]
        )

    def _layer(
        self,
        name: str,
        x: torch.Tensor,
        context: torch.Tensor,
        mask: torch.Tensor,
        own: torch.Tensor,
        there: torch.Tensor,
    ) -> torch.Tensor:
        y = self._norm(f"{name}.input_layernorm", x)
        around = torch.cat([context, y], 1)
        query = self._heads(f"{name}.self_attn.q", y, DRAFT.heads, own)
        key = self._heads(f"{name}.self_attn.k", around, DRAFT.kv_heads, there)
        value = self._linear(f"{name}.self_attn.v_proj", around).unflatten(-1, (DRAFT.kv_heads, -1)).transpose(1, 2)
        group = DRAFT.heads // DRAFT.kv_heads
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self._linear(f"{name}.self_attn.o_proj", mixed.transpose(1, 2).flatten(2))
        y = self._norm(f"{name}.post_attention_layernorm", x)
        inner = functional.silu(self._linear(f"{name}.mlp.gate_proj", y)) * self._linear(f"{name}.mlp.up_proj", y)
        return x + self._linear(f"{name}.mlp.down_proj", inner)

    def _heads(self, name: str, x: torch.Tensor, count: int, positions: torch.Tensor) -> torch.Tensor:
        values = self._linear(f"{name}_proj", x).unflatten(-1, (count, CONFIG.head)).transpose(1, 2)
        return rotate(
            self._norm(f"{name}_norm", values), rope_angles(positions, CONFIG.head, CONFIG.rope_base)[:, None]
        )

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self._weights[f"{name}.weight"])

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return rms(x, CONFIG.epsilon) * self._weights[f"{name}.weight"]
