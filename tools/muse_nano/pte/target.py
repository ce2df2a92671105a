"""The text model as ExecuTorch methods: same names, inputs, types and cache forms as the real artifact's.

Written from contracts/pte-contract.md sections 3 and 5: global layers have a flat cache of the whole context, sliding
layers a ring of 2048 + 512 - 1 rows, whatever the window. Only the first position is read. Numbers are single
precision inside, since portable kernels know little else; what crosses a method's border is half precision.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import torch
from torch import nn
from torch.nn import functional

from tools.muse_nano.model import CONFIG, TextConfig, Weights, rms, rope_angles

CHUNK: Final = 512
RING: Final = 2048 + CHUNK - 1
ACTIVATION: Final = torch.float16


def grouped_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention whose heads share keys and values by groups; gives [tokens, heads * head]. query [tokens, heads, head],
    keys [groups, head, rows] and values [groups, rows, head]: turned or copied, the caches would take most of the time.
    mask [tokens of all heads of a group, rows] is added."""
    by_group = query.unflatten(1, (keys.shape[0], -1)).permute(1, 2, 0, 3)
    scores = torch.bmm(by_group.flatten(1, 2), keys) / math.sqrt(query.shape[2]) + mask
    mixed = torch.bmm(scores.softmax(-1), values).unflatten(1, by_group.shape[1:3])
    return mixed.permute(2, 0, 1, 3).flatten(1)


class EmbedText(nn.Module):
    """`embed_text`: ids to embeddings, normed without weights."""

    def __init__(self, config: TextConfig, weights: Weights) -> None:
        super().__init__()
        self._epsilon = config.epsilon
        self.table = nn.Parameter(weights["model.embed_tokens.weight"], requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return rms(functional.embedding(tokens, self.table), self._epsilon).to(ACTIVATION)


@attrs.frozen
class Rotation:
    """RoPE on halves, by angles that many layers share. cosine, sine: [tokens, 1, head / 2]."""

    cosine: torch.Tensor
    sine: torch.Tensor

    @classmethod
    def at(cls, positions: torch.Tensor) -> Rotation:
        """Of these positions."""
        angles = rope_angles(positions, CONFIG.head, CONFIG.rope_base)[:, None]
        return cls(angles.cos(), angles.sin())

    def turn(self, values: torch.Tensor) -> torch.Tensor:
        """Values [tokens, heads, head], turned."""
        first, second = values.chunk(2, -1)
        return torch.cat([first * self.cosine - second * self.sine, second * self.cosine + first * self.sine], -1)


@attrs.frozen(kw_only=True)
class Place:
    """Where tokens stand, for all layers of a kind. slots: their rows of the cache. rotation None: there is none.
    mask: as attention takes it."""

    slots: torch.Tensor
    rotation: Rotation | None
    mask: torch.Tensor


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
        self.register_buffer("keys", torch.zeros(config.kv_heads, config.head, self.rows))
        self.register_buffer("values", torch.zeros(config.kv_heads, self.rows, config.head))

    def forward(self, y: torch.Tensor, place: Place) -> torch.Tensor:
        config = self.config

        def heads(weight: torch.Tensor, count: int) -> torch.Tensor:
            return functional.linear(y, weight).unflatten(-1, (count, config.head))

        query = rms(heads(self.q_proj, config.heads), config.epsilon) * config.query_scale
        key = rms(heads(self.k_proj, config.kv_heads), config.epsilon)
        if place.rotation is not None:
            query, key = place.rotation.turn(query), place.rotation.turn(key)
        self.keys[:, :, place.slots] = key.permute(1, 2, 0)
        self.values[:, place.slots] = heads(self.v_proj, config.kv_heads).transpose(0, 1)
        mixed = grouped_attention(query, self.keys, self.values, place.mask)
        gate = torch.sigmoid(functional.linear(y, self.gate_proj))
        return functional.linear(mixed * gate, self.o_proj)


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

    def forward(self, x: torch.Tensor, place: Place) -> torch.Tensor:
        config = self.config
        out = self.attention(rms(x, config.epsilon) * self.input_norm, place)
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
        x = embeddings[0].float()
        inputs: list[torch.Tensor] = []
        heads = config.heads // config.kv_heads
        everything = Place(slots=own, rotation=None, mask=global_mask(own, self.context).repeat(heads, 1))
        window = Place(
            slots=own % RING,
            rotation=Rotation.at(own),
            mask=sliding_mask(own, config.window).repeat(heads, 1),
        )
        for layer in self.layers:
            inputs.append(x)
            x = layer(x, everything if layer.attention.is_global else window)
        if self.taps is None:
            x = x[-1:]
        final = rms(x, config.epsilon) * self.norm
        logits = functional.linear(final, self.head) * config.logit_scale
        logits = torch.tanh(logits / config.logit_cap) * config.logit_cap
        if self.taps is None:
            return logits
        return logits[None], torch.cat([inputs[tap] for tap in self.taps], -1)[None].to(ACTIVATION)
