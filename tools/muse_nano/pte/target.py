"""The text model as ExecuTorch methods: same names, inputs, types and cache forms as the real artifact's.

Written from contracts/pte-contract.md sections 3 and 5: global layers have a flat cache of the whole context, sliding
layers a ring of 2048 + 512 - 1 rows, whatever the window. Only the first position is read. Numbers are single
precision inside, since portable kernels know little else; what crosses a method's border is half precision.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from tools.muse_nano.model import CONFIG, TextConfig, Weights, rms, rope_angles, rotate

CHUNK: Final = 512
RING: Final = 2048 + CHUNK - 1
ACTIVATION: Final = torch.float16


def grouped_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention whose heads share keys and values by groups. query [1, heads, tokens, head], keys [1, groups, head,
    rows] and values [1, groups, rows, head]: turned or copied, the caches would take most of the time. mask [tokens,
    rows] is added."""
    by_group = query.unflatten(1, (keys.shape[1], -1))
    mixed: list[torch.Tensor] = []
    for number in range(by_group.shape[2]):
        scores = by_group[:, :, number] @ keys / math.sqrt(query.shape[3]) + mask
        mixed.append(scores.softmax(-1) @ values)
    return torch.stack(mixed, 2).flatten(1, 2)


class EmbedText(nn.Module):
    """`embed_text`: ids to embeddings, normed without weights."""

    def __init__(self, config: TextConfig, weights: Weights) -> None:
        super().__init__()
        self._epsilon = config.epsilon
        self.table = nn.Parameter(weights["model.embed_tokens.weight"], requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return rms(functional.embedding(tokens, self.table), self._epsilon).to(ACTIVATION)


class _Attention(nn.Module):
    """The past lies in `keys` (one column a position) and `values` (one row a position)."""

    def __init__(self, config: TextConfig, weights: Weights, layer: int, context: int) -> None:
        super().__init__()
        self.config = config
        self.is_global = config.is_global(layer)
        self.rows = context if self.is_global else RING
        for name in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj"):
            weight = weights[f"model.layers.{layer}.self_attn.{name}.weight"]
            setattr(self, name, nn.Parameter(weight, requires_grad=False))
        self.register_buffer("keys", torch.zeros(1, config.kv_heads, config.head, self.rows))
        self.register_buffer("values", torch.zeros(1, config.kv_heads, self.rows, config.head))

    def forward(self, y: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        config = self.config

        def heads(weight: torch.Tensor, count: int) -> torch.Tensor:
            return functional.linear(y, weight).unflatten(-1, (count, config.head)).transpose(1, 2)

        query = rms(heads(self.q_proj, config.heads), config.epsilon) * config.query_scale
        key = rms(heads(self.k_proj, config.kv_heads), config.epsilon)
        if not self.is_global:
            angles = rope_angles(own, config.head, config.rope_base)
            query, key = rotate(query, angles), rotate(key, angles)
        slots = own if self.is_global else own % RING
        self.keys[:, :, :, slots] = key.transpose(2, 3)
        self.values[:, :, slots] = heads(self.v_proj, config.kv_heads)
        mixed = grouped_attention(query, self.keys, self.values, mask)
        gate = torch.sigmoid(functional.linear(y, self.gate_proj))
        return functional.linear(mixed.transpose(1, 2).flatten(2) * gate, self.o_proj)


def sliding_mask(own: torch.Tensor, window: int) -> torch.Tensor:
    """Which rows of a ring each position sees. A row holds the newest position that it can; what lies there from beyond
    the newest of all, after a rewind, is taken for one a whole ring older, so that has to be outside every window."""
    last = own[-1:]
    held = last - (last - torch.arange(RING)) % RING
    distance = own[:, None] - held[None]
    return torch.where((distance >= 0) & (distance < window) & (held >= 0), 0.0, -1e9)


def global_mask(own: torch.Tensor, context: int) -> torch.Tensor:
    """Which rows of a flat cache each position sees."""
    return torch.where(own[:, None] >= torch.arange(context)[None], 0.0, -1e9)


class _Layer(nn.Module):
    def __init__(self, config: TextConfig, weights: Weights, layer: int, context: int) -> None:
        super().__init__()
        self.config = config
        self.attention = _Attention(config, weights, layer, context)
        prefix = f"model.layers.{layer}."
        for name in ("gate_proj", "up_proj", "down_proj"):
            setattr(self, name, nn.Parameter(weights[f"{prefix}mlp.{name}.weight"], requires_grad=False))
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            weight = 1 + weights[f"{prefix}{name}_layernorm.weight"]
            setattr(self, f"{name}_norm", nn.Parameter(weight, requires_grad=False))

    def forward(self, x: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        config = self.config
        out = self.attention(rms(x, config.epsilon) * self.input_norm, own, mask)
        x = x + rms(out, config.post_epsilon) * self.post_attention_norm
        y = rms(x, config.epsilon) * self.pre_feedforward_norm
        inner = functional.silu(functional.linear(y, self.gate_proj)) * functional.linear(y, self.up_proj)
        out = functional.linear(inner, self.down_proj)
        return x + rms(out, config.post_epsilon) * self.post_feedforward_norm


class Target(nn.Module):
    """`forward_from_embeddings` (taps None: logits of the last row) or `target_forward_from_embeddings` (logits of all
    rows, and beside each other the inputs of the layers in `taps`)."""

    def __init__(
        self, weights: Weights, *, config: TextConfig = CONFIG, context: int, taps: tuple[int, ...] | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.context = context
        self.taps = taps
        self.layers = nn.ModuleList(_Layer(config, weights, n, context) for n in range(config.layers))
        self.norm = nn.Parameter(weights["model.norm.weight"], requires_grad=False)
        self.head = nn.Parameter(weights["lm_head.weight"], requires_grad=False)

    def forward(
        self, embeddings: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        config = self.config
        own = positions[0] + torch.arange(embeddings.shape[1])
        x = embeddings.float()
        inputs: list[torch.Tensor] = []
        everything, window = global_mask(own, self.context), sliding_mask(own, config.window)
        for layer in self.layers:
            inputs.append(x)
            x = layer(x, own, everything if layer.attention.is_global else window)
        if self.taps is None:
            x = x[:, -1]
        final = rms(x, config.epsilon) * self.norm
        logits = functional.linear(final, self.head) * config.logit_scale
        logits = torch.tanh(logits / config.logit_cap) * config.logit_cap
        if self.taps is None:
            return logits
        return logits, torch.cat([inputs[tap] for tap in self.taps], -1).to(ACTIVATION)
