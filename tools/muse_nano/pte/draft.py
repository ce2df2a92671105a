"""The draft as an ExecuTorch method, `draft_forward` (contracts/pte-contract.md sections 3 and 7).

What the target has seen comes in as its tapped hidden states and stays here as keys and values, a flat cache of the
whole context; the block's own are not kept.
"""

from __future__ import annotations

import attrs
import torch
from torch import nn
from torch.nn import functional

from tools.muse_nano.draft import DRAFT
from tools.muse_nano.model import CONFIG, Weights, rms
from tools.muse_nano.pte.target import Rotation, grouped_attention


@attrs.frozen(kw_only=True)
class Seen:
    """What the target has seen, [tokens, hidden], where its keys go, and their rotation."""

    states: torch.Tensor
    slots: torch.Tensor
    rotation: Rotation


class _Layer(nn.Module):
    def __init__(self, weights: Weights, layer: int, context: int) -> None:
        super().__init__()
        prefix = f"layers.{layer}."
        names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
        names += ("self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
        names += ("input_layernorm", "post_attention_layernorm")
        for name in names:
            weight = weights[f"{prefix}{name}.weight"]
            setattr(self, name.rpartition(".")[2], nn.Parameter(weight, requires_grad=False))
        self.register_buffer("keys", torch.zeros(DRAFT.kv_heads, CONFIG.head, context))
        self.register_buffer("values", torch.zeros(DRAFT.kv_heads, context, CONFIG.head))

    def forward(self, x: torch.Tensor, seen: Seen, rotation: Rotation, mask: torch.Tensor) -> torch.Tensor:
        def heads(source: torch.Tensor, weight: torch.Tensor, count: int) -> torch.Tensor:
            return functional.linear(source, weight).unflatten(-1, (count, CONFIG.head))

        def keys(source: torch.Tensor, its: Rotation) -> torch.Tensor:
            plain = rms(heads(source, self.k_proj, DRAFT.kv_heads), CONFIG.epsilon) * self.k_norm
            return its.turn(plain).permute(1, 2, 0)

        self.keys[:, :, seen.slots] = keys(seen.states, seen.rotation)
        self.values[:, seen.slots] = heads(seen.states, self.v_proj, DRAFT.kv_heads).transpose(0, 1)
        y = rms(x, CONFIG.epsilon) * self.input_layernorm
        query = rotation.turn(rms(heads(y, self.q_proj, DRAFT.heads), CONFIG.epsilon) * self.q_norm)
        key = torch.cat([self.keys, keys(y, rotation)], 2)
        value = torch.cat([self.values, heads(y, self.v_proj, DRAFT.kv_heads).transpose(0, 1)], 1)
        mixed = grouped_attention(query, key, value, mask)
        x = x + functional.linear(mixed, self.o_proj)
        y = rms(x, CONFIG.epsilon) * self.post_attention_layernorm
        inner = functional.silu(functional.linear(y, self.gate_proj)) * functional.linear(y, self.up_proj)
        return x + functional.linear(inner, self.down_proj)


class DraftForward(nn.Module):
    """Fills in a block of tokens behind what the target has seen."""

    def __init__(self, text: Weights, weights: Weights, *, context: int) -> None:
        super().__init__()
        self.table = nn.Parameter(text["model.embed_tokens.weight"], requires_grad=False)
        self.head = nn.Parameter(text["lm_head.weight"], requires_grad=False)
        self.fuse = nn.Parameter(weights["encoder.fc.weight"], requires_grad=False)
        self.fuse_norm = nn.Parameter(weights["encoder.output_norm_enc.weight"], requires_grad=False)
        self.norm = nn.Parameter(weights["norm.weight"], requires_grad=False)
        self.layers = nn.ModuleList(_Layer(weights, n, context) for n in range(DRAFT.layers))
        self.context = context

    def forward(self, tokens: torch.Tensor, hidden: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        states = rms(functional.linear(hidden[0].float(), self.fuse), CONFIG.epsilon) * self.fuse_norm
        seen_at = start[0] + torch.arange(hidden.shape[1])
        seen = Seen(states=states, slots=seen_at, rotation=Rotation.at(seen_at))
        own = seen_at[-1] + 1 + torch.arange(tokens.shape[1])
        rows = torch.arange(self.context)
        # A row of the cache is a position; what lies there from beyond the newest one is of an abandoned past.
        cached = (rows <= seen_at[-1]) & (own[:, None] - rows < DRAFT.window)
        block = own[:, None] - own < DRAFT.window
        mask = torch.where(torch.cat([cached, block], 1), 0.0, -1e9).repeat(DRAFT.heads // DRAFT.kv_heads, 1)
        rotation = Rotation.at(own)
        x = functional.embedding(tokens[0], self.table)
        for layer in self.layers:
            x = layer(x, seen, rotation, mask)
        return functional.linear(rms(x, CONFIG.epsilon) * self.norm, self.head)[None]
