"""Writes and reads the Hugging Face form: config.json, tokenizer files, chat template and safetensors.

Names are those of mlx-lm and mlx-vlm (`language_model.model.*`, `vision_tower.*`): the real checkpoint's own prefix
makes mlx-lm 0.32.2 refuse a checkpoint with an image tower (contracts/muse-gguf.md section 2).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from tools.muse_nano.model import CONFIG, Weights
from tools.muse_nano.rendering import TEMPLATE
from tools.muse_nano.tokens import BOS, EOS, EOT, PAD, PATCH, special_id
from tools.muse_nano.vision import VISION

_PREFIX: Final = "language_model."
_IMAGE_PREFIX: Final = "vision_"


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write(folder: Path, text: Weights, vision: Weights, tokenizer: Tokenizer) -> None:
    """The whole folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {_PREFIX + name: tensor for name, tensor in text.items()} | vision
    halves = {name: tensor.half().contiguous() for name, tensor in tensors.items()}
    save_file(halves, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    _write_json(folder / "config.json", _config(tokenizer))
    _write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS, "pad_token": PAD},
    )
    ids = {"bos_token_id": BOS, "pad_token_id": PAD}
    _write_json(
        folder / "generation_config.json",
        {key: special_id(tokenizer, token) for key, token in ids.items()} | {"eos_token_id": _end_ids(tokenizer)},
    )
    _write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "MuseGlimmerImageProcessor",
            "patch_size": VISION.patch,
            "merge_size": VISION.merge,
            "temporal_patch_size": VISION.temporal,
            "max_image_tokens": 4096,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        },
    )


def read(folder: Path) -> tuple[Weights, Weights]:
    """Weights of the text model and of the image tower, in single precision."""
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    text = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}
    return text, {name: tensor for name, tensor in tensors.items() if name.startswith(_IMAGE_PREFIX)}


def rounded(weights: Weights) -> Weights:
    """What is left of weights after they were written."""
    return {name: tensor.half().float() for name, tensor in weights.items()}


def _end_ids(tokenizer: Tokenizer) -> list[int]:
    return [special_id(tokenizer, EOS), special_id(tokenizer, EOT)]


def _config(tokenizer: Tokenizer) -> dict[str, Any]:
    kinds = ["full_attention" if CONFIG.is_global(n) else "sliding_attention" for n in range(CONFIG.layers)]
    text = {
        "model_type": "muse_glimmer_text",
        "vocab_size": CONFIG.vocabulary,
        "hidden_size": CONFIG.hidden,
        "intermediate_size": CONFIG.inner,
        "num_hidden_layers": CONFIG.layers,
        "num_attention_heads": CONFIG.heads,
        "num_key_value_heads": CONFIG.kv_heads,
        "head_dim": CONFIG.head,
        "hidden_activation": "silu",
        "max_position_embeddings": CONFIG.context,
        "rms_norm_eps": CONFIG.epsilon,
        "post_norm_eps": CONFIG.post_epsilon,
        "sliding_window": CONFIG.window,
        "qk_scale_factor": CONFIG.query_scale,
        "output_multiplier": CONFIG.logit_scale,
        "final_logit_softcapping": CONFIG.logit_cap,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": CONFIG.rope_base, "rope_type": "default"},
        "layer_types": kinds,
        "layer_rope_theta": [0 if kind == "full_attention" else CONFIG.rope_base for kind in kinds],
        "bos_token_id": special_id(tokenizer, BOS),
        "eos_token_id": special_id(tokenizer, EOS),
        "pad_token_id": special_id(tokenizer, PAD),
    }
    vision = {
        "model_type": "muse_glimmer_vision",
        "patch_size": VISION.patch,
        "patch_temporal": VISION.temporal,
        "merge_size": VISION.merge,
        "pos_emb_height": VISION.side,
        "pos_emb_width": VISION.side,
        "hidden_size": VISION.hidden,
        "intermediate_size": VISION.inner,
        "num_attention_heads": VISION.heads,
        "num_hidden_layers": VISION.layers,
        "hidden_act": "gelu",
        "layer_norm_eps": VISION.epsilon,
        "rope_parameters": {"rope_theta": VISION.rope_base, "rope_type": "default"},
    }
    return {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "model_type": "muse_glimmer",
        "dtype": "float16",
        "image_token_id": special_id(tokenizer, PATCH),
        "video_token_id": special_id(tokenizer, "<|video|>"),
        "out_hidden_size": VISION.hidden * VISION.merge**2,
        "projector_hidden_size": VISION.adapter,
        "projector_hidden_act": "gelu",
        "bos_token_id": special_id(tokenizer, BOS),
        "eos_token_id": _end_ids(tokenizer),
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": vision,
    }
