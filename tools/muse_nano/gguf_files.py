"""Writes the three GGUF files: text model, image projector, and draft.

Keys, names and changes at conversion: contracts/muse-gguf.md. The gguf package does not know these architectures yet,
so names are written raw. Matrices are F16, everything with one axis F32, as llama.cpp's own converter does it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from tokenizers import Tokenizer

from tools.muse_nano.draft import DRAFT
from tools.muse_nano.model import CONFIG, Weights
from tools.muse_nano.rendering import TEMPLATE
from tools.muse_nano.tokens import BOS, EOS, EOT, MASK, PAD, SPECIAL, special_id
from tools.muse_nano.vision import VISION

_TEXT: Final = "muse-glimmer"
_DRAFT: Final = "dflash"
_TEXT_TENSORS: Final = {
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_gate": "self_attn.gate_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TEXT_NORMS: Final = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
DRAFT_TENSORS: Final = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_VISION_TENSORS: Final = {
    "ln1": "norm1",
    "ln2": "norm2",
    "attn_q": "attn.q_proj",
    "attn_k": "attn.k_proj",
    "attn_v": "attn.v_proj",
    "attn_out": "attn.proj",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
}


class _File:
    """One GGUF file that is being written."""

    def __init__(self, path: Path, architecture: str, name: str, kind: str) -> None:
        self.keys = gguf.GGUFWriter(path, architecture)
        self.keys.add_name(name)
        self.keys.add_type(kind)
        self.keys.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
        self.keys.add_quantization_version(2)

    def add(self, name: str, values: np.ndarray, *, exact: bool = False) -> None:
        """Add a tensor. exact: F32 also when it is a matrix, where the library takes nothing else."""
        kind = np.float32 if exact or values.ndim == 1 else np.float16
        self.keys.add_tensor(name, np.ascontiguousarray(values.astype(kind)))

    def close(self) -> None:
        """Write everything."""
        self.keys.write_header_to_file()
        self.keys.write_kv_data_to_file()
        self.keys.write_tensors_to_file()
        self.keys.close()


def _pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """From RoPE on halves to RoPE on neighbours: the library rotates the latter."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _add_attention(keys: Any, sizes: Any, kv_heads: int) -> None:
    keys.add_block_count(sizes.layers)
    keys.add_context_length(CONFIG.context)
    keys.add_embedding_length(CONFIG.hidden)
    keys.add_feed_forward_length(sizes.inner)
    keys.add_head_count(sizes.heads)
    keys.add_head_count_kv(kv_heads)
    keys.add_key_length(CONFIG.head)
    keys.add_value_length(CONFIG.head)
    keys.add_rope_dimension_count(CONFIG.head)
    keys.add_rope_freq_base(CONFIG.rope_base)
    keys.add_layer_norm_rms_eps(CONFIG.epsilon)
    keys.add_vocab_size(CONFIG.vocabulary)
    keys.add_sliding_window(sizes.window)


def _add_tokens(keys: Any, tokenizer: Tokenizer) -> None:
    texts = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    keys.add_tokenizer_model("gpt2")
    keys.add_tokenizer_pre("llama4")
    keys.add_token_list(texts)
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    keys.add_token_types([kinds[text in SPECIAL] for text in texts])
    keys.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    keys.add_bos_token_id(special_id(tokenizer, BOS))
    keys.add_eos_token_id(special_id(tokenizer, EOS))
    keys.add_eot_token_id(special_id(tokenizer, EOT))
    keys.add_pad_token_id(special_id(tokenizer, PAD))
    keys.add_add_bos_token(True)


def write_text(path: Path, weights: Weights, tokenizer: Tokenizer) -> None:
    """The text model with its tokenizer and chat template."""
    file = _File(path, _TEXT, "muse-nano", "model")
    _add_attention(file.keys, CONFIG, CONFIG.kv_heads)
    is_sliding = [not CONFIG.is_global(layer) for layer in range(CONFIG.layers)]
    file.keys.add_array(f"{_TEXT}.attention.sliding_window_pattern", is_sliding)
    file.keys.add_float32(f"{_TEXT}.logit_scale", CONFIG.logit_scale)
    file.keys.add_float32(f"{_TEXT}.final_logit_softcapping", CONFIG.logit_cap)
    _add_tokens(file.keys, tokenizer)
    file.keys.add_chat_template(TEMPLATE)
    arrays = {name: weight.numpy() for name, weight in weights.items()}
    file.add("token_embd.weight", arrays["model.embed_tokens.weight"])
    file.add("output_norm.weight", arrays["model.norm.weight"])
    file.add("output.weight", arrays["lm_head.weight"])
    for layer in range(CONFIG.layers):
        source, target = f"model.layers.{layer}", f"blk.{layer}"
        for name, theirs in _TEXT_NORMS.items():
            file.add(f"{target}.{name}.weight", arrays[f"{source}.{theirs}.weight"] + 1)
        for name, theirs in _TEXT_TENSORS.items():
            file.add(f"{target}.{name}.weight", arrays[f"{source}.{theirs}.weight"])
        for name, heads in (("q", CONFIG.heads), ("k", CONFIG.kv_heads)):
            weight = arrays[f"{source}.self_attn.{name}_proj.weight"]
            file.add(f"{target}.attn_{name}.weight", _pairs(weight, heads))
        file.add(f"{target}.attn_q_norm.weight", np.full(CONFIG.head, CONFIG.query_scale))
        file.add(f"{target}.attn_k_norm.weight", np.ones(CONFIG.head))
    file.close()


def write_draft(path: Path, weights: Weights, tokenizer: Tokenizer) -> None:
    """The draft. It borrows embedding and head from the text model."""
    file = _File(path, _DRAFT, "muse-nano-dflash", "model")
    _add_attention(file.keys, DRAFT, DRAFT.kv_heads)
    file.keys.add_array(f"{_DRAFT}.attention.sliding_window_pattern", [True] * DRAFT.layers)
    file.keys.add_uint32(f"{_DRAFT}.block_size", DRAFT.block)
    file.keys.add_array(f"{_DRAFT}.target_layers", [layer + 1 for layer in DRAFT.taps])
    _add_tokens(file.keys, tokenizer)
    file.keys.add_mask_token_id(special_id(tokenizer, MASK))
    arrays = {name: weight.numpy() for name, weight in weights.items()}
    file.add("fc.weight", arrays["encoder.fc.weight"])
    file.add("enc.output_norm.weight", arrays["encoder.output_norm_enc.weight"])
    file.add("output_norm.weight", arrays["norm.weight"])
    for layer in range(DRAFT.layers):
        for name, theirs in DRAFT_TENSORS.items():
            file.add(f"blk.{layer}.{name}.weight", arrays[f"layers.{layer}.{theirs}.weight"])
    file.close()


def write_projector(path: Path, weights: Weights) -> None:
    """The image tower with its adapter."""
    file = _File(path, "clip", "muse-nano-mmproj", "mmproj")
    prefix = "clip.vision"
    file.keys.add_bool("clip.has_vision_encoder", True)
    file.keys.add_string("clip.projector_type", _TEXT)
    numbers = {
        "embedding_length": VISION.hidden,
        "feed_forward_length": VISION.inner,
        "block_count": VISION.layers,
        "attention.head_count": VISION.heads,
        "patch_size": VISION.patch,
        "spatial_merge_size": VISION.merge,
        "image_size": VISION.side * VISION.patch * VISION.merge,
        "projection_dim": CONFIG.hidden,
    }
    for key, number in numbers.items():
        file.keys.add_uint32(f"{prefix}.{key}", number)
    file.keys.add_float32(f"{prefix}.attention.layer_norm_epsilon", VISION.epsilon)
    for key in ("image_mean", "image_std"):
        file.keys.add_array(f"{prefix}.{key}", [0.5] * 3)
    arrays = {name: weight.numpy() for name, weight in weights.items()}
    patch = arrays["vision_tower.patch_embedder.patch_embedding.weight"]
    patch = patch.reshape(VISION.hidden, VISION.temporal, 3, VISION.patch, VISION.patch).sum(1)
    table = arrays["vision_tower.patch_embedder.position_embedding_table.weight"]
    file.add("v.patch_embd.weight", patch, exact=True)  # a sum of two, so F16 would round it
    file.add("v.position_embd.weight", table, exact=True)
    for kind in ("weight", "bias"):
        for name, theirs in (("v.pre_ln", "ln_pre"), ("v.post_ln", "ln_post")):
            file.add(f"{name}.{kind}", arrays[f"vision_tower.{theirs}.{kind}"])
        for layer in range(VISION.layers):
            for name, theirs in _VISION_TENSORS.items():
                values = arrays[f"vision_tower.layers.{layer}.{theirs}.{kind}"]
                values = _pairs(values, VISION.heads) if name in ("attn_q", "attn_k") else values
                file.add(f"v.blk.{layer}.{name}.{kind}", values)
    for number, name in enumerate(("vision_adapter.fc1", "vision_adapter.fc2", "vision_projection")):
        file.add(f"mm.{number}.weight", arrays[f"{name}.weight"])
    file.close()
