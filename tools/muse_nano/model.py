"""The text model in torch: Muse Glimmer's architecture at a size that fits into a repository.

Written from the description of the architecture (contracts/muse-gguf.md section 1): sliding layers with RoPE and every
fourth layer global without; RMS norm without weights on embeddings, queries and keys; queries scaled; a sigmoid gate
on what attention gives; a norm after each block as well; scaled and softly capped logits.
"""

from __future__ import annotations

import math
from typing import Final

import attrs
import torch
from torch.nn import functional

from tools.muse_nano.tokens import VOCABULARY

Weights = dict[str, torch.Tensor]


@attrs.frozen(kw_only=True)
class TextConfig:
    """Sizes, and the constants that the real model has, too."""

    vocabulary: int = VOCABULARY
    hidden: int = 64
    inner: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    window: int = 32
    context: int = 4096
    rope_base: float = 500_000.0
    epsilon: float = 1e-5
    post_epsilon: float = 1e-8
    query_scale: float = 3.87
    logit_scale: float = 0.19611613513818404
    logit_cap: float = 20.0

    def is_global(self, layer: int) -> bool:
        """Whether a layer sees everything."""
        return (self.layers - 1 - layer) % 4 == 0


CONFIG: Final = TextConfig()
_NORMS: Final = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def rms(values: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMS norm without weights."""
    return values * torch.rsqrt((values * values).mean(-1, keepdim=True) + epsilon)


def rotate(values: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """RoPE on halves. angles: broadcast against values[..., :half]."""
    half = values.shape[-1] // 2
    first, second = values[..., :half], values[..., half:]
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def rope_angles(positions: torch.Tensor, head: int, base: float) -> torch.Tensor:
    """positions of any shape -> one more axis of head / 2 angles."""
    return positions.float()[..., None] * base ** (-torch.arange(0, head, 2).float() / head)


def initial_weights(config: TextConfig, seed: int) -> Weights:
    """Random weights under their Hugging Face names, without the prefix. Norms are stored without the one that is
    added to them, but for the final one."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(out: int, into: int, spread: float | None = None) -> torch.Tensor:
        return torch.randn(out, into, generator=generator) * (spread if spread is not None else 1 / math.sqrt(into))

    queries, keys = config.heads * config.head, config.kv_heads * config.head
    weights: Weights = {
        "model.embed_tokens.weight": matrix(config.vocabulary, config.hidden, 1.0),
        "model.norm.weight": torch.ones(config.hidden),
        "lm_head.weight": matrix(config.vocabulary, config.hidden, 0.3),
    }
    shapes = {
        "self_attn.q_proj": (queries, config.hidden),
        "self_attn.k_proj": (keys, config.hidden),
        "self_attn.v_proj": (keys, config.hidden),
        "self_attn.o_proj": (config.hidden, queries),
        "self_attn.gate_proj": (queries, config.hidden),
        "mlp.gate_proj": (config.inner, config.hidden),
        "mlp.up_proj": (config.inner, config.hidden),
        "mlp.down_proj": (config.hidden, config.inner),
    }
    for layer in range(config.layers):
        for name, (out, into) in shapes.items():
            weights[f"model.layers.{layer}.{name}.weight"] = matrix(out, into)
        for name in _NORMS:
            weights[f"model.layers.{layer}.{name}.weight"] = torch.zeros(config.hidden)
    return weights


class TextModel:
    """A forward pass over weights by name; no state of its own."""

    def __init__(self, config: TextConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights

    def forward(
        self, ids: torch.Tensor, images: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """ids [batch, length]. images: where (bool) and which (features) embeddings stand instead of those of ids.

        Gives the logits, and the hidden states before the first layer and after each one."""
        config = self.config
        x = functional.embedding(ids, self.weights["model.embed_tokens.weight"])
        if images is not None:
            x = torch.where(images[0][..., None], images[1], x)
        x = rms(x, config.epsilon)
        positions = torch.arange(ids.shape[1])
        angles = rope_angles(positions, config.head, config.rope_base)
        distance = positions[:, None] - positions[None]
        causal = distance >= 0
        sliding = causal & (distance < config.window)
        states = [x]
        for layer in range(config.layers):
            is_global = config.is_global(layer)
            x = self._layer(layer, x, causal if is_global else sliding, None if is_global else angles)
            states.append(x)
        final = rms(x, config.epsilon) * self.weights["model.norm.weight"]
        logits = functional.linear(final, self.weights["lm_head.weight"]) * config.logit_scale
        return torch.tanh(logits / config.logit_cap) * config.logit_cap, states

    def _layer(self, layer: int, x: torch.Tensor, mask: torch.Tensor, angles: torch.Tensor | None) -> torch.Tensor:
        config = self.config

        def weight(name: str) -> torch.Tensor:
            return self.weights[f"model.layers.{layer}.{name}.weight"]

        def heads(values: torch.Tensor, count: int) -> torch.Tensor:
            return values.unflatten(-1, (count, config.head)).transpose(1, 2)

        y = rms(x, config.epsilon) * (1 + weight("input_layernorm"))
        query = heads(functional.linear(y, weight("self_attn.q_proj")), config.heads)
        key = heads(functional.linear(y, weight("self_attn.k_proj")), config.kv_heads)
        value = heads(functional.linear(y, weight("self_attn.v_proj")), config.kv_heads)
        query, key = rms(query, config.epsilon) * config.query_scale, rms(key, config.epsilon)
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        group = config.heads // config.kv_heads
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        gate = torch.sigmoid(functional.linear(y, weight("self_attn.gate_proj")))
        out = functional.linear(mixed.transpose(1, 2).flatten(2) * gate, weight("self_attn.o_proj"))
        x = x + rms(out, config.post_epsilon) * (1 + weight("post_attention_layernorm"))
        y = rms(x, config.epsilon) * (1 + weight("pre_feedforward_layernorm"))
        inner = functional.silu(functional.linear(y, weight("mlp.gate_proj")))
        out = functional.linear(inner * functional.linear(y, weight("mlp.up_proj")), weight("mlp.down_proj"))
        return x + rms(out, config.post_epsilon) * (1 + weight("post_feedforward_layernorm"))


def greedy(
    model: TextModel, ids: list[int], end: int, most: int, images: dict[int, torch.Tensor] | None = None
) -> tuple[list[int], float]:
    """Greedy ids up to the end token (left out), and the smallest distance of a chosen logit from the next best.
    images: position to embedding. Recomputes everything for each token, so that nothing but the model is tested."""
    generated: list[int] = []
    margin = math.inf
    with torch.no_grad():
        while len(generated) < most:
            tokens = torch.tensor([ids + generated])
            best = model.forward(tokens, place_images(tokens, images or {}))[0][0, -1].topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            token = int(best.indices[0])
            if token == end:
                break
            generated.append(token)
    return generated, margin


def place_images(tokens: torch.Tensor, images: dict[int, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The form that `forward` takes, for a batch of one."""
    if not images:
        return None
    where = torch.zeros(tokens.shape, dtype=torch.bool)
    features = torch.zeros(*tokens.shape, CONFIG.hidden)
    for position, feature in images.items():
        where[0, position] = True
        features[0, position] = feature
    return where, features
