"""The draft as an ExecuTorch method, `draft_forward` (contracts/pte-contract.md sections 3 and 7).

What the target has seen comes in as its tapped hidden states and stays here as keys and values, a flat cache of the
whole context; the block's own are not kept.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from tools.muse_nano.draft import DRAFT
from tools.muse_nano.model import CONFIG, Weights, rms, rope_angles, rotate
from tools.muse_nano.pte.target import grouped_attention


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
        self.register_buffer("keys", torch.zeros(1, DRAFT.kv_heads, CONFIG.head, context))
        self.register_buffer("values", torch.zeros(1, DRAFT.kv_heads, context, CONFIG.head))

    def forward(
        self, x: torch.Tensor, seen: torch.Tensor, seen_at: torch.Tensor, own: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        def heads(source: torch.Tensor, weight: torch.Tensor, count: int) -> torch.Tensor:
            return functional.linear(source, weight).unflatten(-1, (count, CONFIG.head)).transpose(1, 2)

        def keys(source: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            plain = rms(heads(source, self.k_proj, DRAFT.kv_heads), CONFIG.epsilon) * self.k_norm
            return rotate(plain, rope_angles(at, CONFIG.head, CONFIG.rope_base)).transpose(2, 3)

        self.keys[:, :, :, seen_at] = keys(seen, seen_at)
        self.values[:, :, seen_at] = heads(seen, self.v_proj, DRAFT.kv_heads)
        y = rms(x, CONFIG.epsilon) * self.input_layernorm
        query = rms(heads(y, self.q_proj, DRAFT.heads), CONFIG.epsilon) * self.q_norm
        query = rotate(query, rope_angles(own, CONFIG.head, CONFIG.rope_base))
        key = torch.cat([self.keys, keys(y, own)], 3)
        value = torch.cat([self.values, heads(y, self.v_proj, DRAFT.kv_heads)], 2)
        mixed = grouped_attention(query, key, value, mask)
        x = x + functional.linear(mixed.transpose(1, 2).flatten(2), self.o_proj)
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
        seen = rms(functional.linear(hidden.float(), self.fuse), CONFIG.epsilon) * self.fuse_norm
        seen_at = start[0] + torch.arange(hidden.shape[1])
        own = seen_at[-1] + 1 + torch.arange(tokens.shape[1])
        rows = torch.arange(self.context)
        # A row of the cache is a position; what lies there from beyond the newest one is of an abandoned past.
        cached = (rows <= seen_at[-1]) & (own[:, None] - rows < DRAFT.window)
        block = own[:, None] - own < DRAFT.window
        mask = torch.where(torch.cat([cached, block], 1), 0.0, -1e9)
        x = functional.embedding(tokens, self.table)
        for layer in self.layers:
            x = layer(x, seen, seen_at, own, mask)
        return functional.linear(rms(x, CONFIG.epsilon) * self.norm, self.head)
