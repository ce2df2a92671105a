"""Exports and lowers the methods to one program, and writes the folder of an artifact.

Lowered to XNNPACK, with portable kernels for the rest; constants as contracts/pte-contract.md section 4 names them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import torch
from executorch.backends.xnnpack.partition.config import AddmmConfig, BMMConfig, LinearConfig, MMConfig, SoftmaxConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.export import Dim, export

from tools.muse_nano.draft import DRAFT
from tools.muse_nano.model import CONFIG, TextConfig, Weights, initial_weights
from tools.muse_nano.pte import weights as stored
from tools.muse_nano.pte.draft import DraftForward
from tools.muse_nano.pte.target import ACTIVATION, CHUNK, EmbedText, Target
from tools.muse_nano.pte.vision import VisionEncoder
from tools.muse_nano.pte.wide_vocabulary import widened
from tools.muse_nano.tokens import MASK
from tools.muse_nano.vision import VISION

MAX_BLOCK: Final = 16
MAX_PATCHES: Final = 1024
_PATCH_VALUES: Final = VISION.temporal * 3 * VISION.patch**2
_WIDE_CONTEXT: Final = 1024
_WIDE_CHUNK: Final = 32
"""Logits of a whole chunk are planned memory: 400 MB with 512 rows of the real vocabulary."""
_DELEGATED: Final = (AddmmConfig, BMMConfig, LinearConfig, MMConfig, SoftmaxConfig)
"""What takes the time at run time. Lowering everything that XNNPACK knows takes twice as long, and gives no more."""
_EXAMPLE: Final = 7
"""Any number of tokens that is no special case."""


@attrs.frozen(kw_only=True)
class Method:
    """One method before it is lowered. dynamic: a form like that of the inputs."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    dynamic: tuple[dict[int, Any], ...]


def _embed(config: TextConfig, text: Weights) -> Method:
    tokens = Dim("tokens", min=1, max=CHUNK)
    return Method(
        module=EmbedText(config, text), inputs=(torch.zeros(1, _EXAMPLE, dtype=torch.long),), dynamic=({1: tokens},)
    )


def _target(module: Target, hidden: int, chunk: int = CHUNK) -> Method:
    tokens = Dim("tokens", min=1, max=chunk)
    inputs = (torch.zeros(1, _EXAMPLE, hidden, dtype=ACTIVATION), torch.arange(_EXAMPLE))
    return Method(module=module, inputs=inputs, dynamic=({1: tokens}, {0: tokens}))


def _draft(text: Weights, context: int) -> Method:
    block, seen = Dim("block", min=2, max=MAX_BLOCK), Dim("seen", min=1, max=CHUNK)
    inputs = (
        torch.zeros(1, 4, dtype=torch.long),
        torch.zeros(1, _EXAMPLE, len(DRAFT.taps) * CONFIG.hidden, dtype=ACTIVATION),
        torch.zeros(1, dtype=torch.long),
    )
    module = DraftForward(text, stored.draft(), context=context)
    return Method(module=module, inputs=inputs, dynamic=({1: block}, {1: seen}, {}))


def _vision(weights: Weights) -> Method:
    cells = Dim("cells", min=1, max=MAX_PATCHES // 4)
    patches = 4 * cells
    size = 4 * _EXAMPLE
    tables = torch.zeros(size, VISION.head // 2)
    order = torch.arange(size)
    mask = torch.ones(1, 1, size, size, dtype=torch.bool)
    return Method(
        module=VisionEncoder(weights),
        inputs=(
            torch.zeros(1, size, _PATCH_VALUES),
            torch.zeros(1, size, VISION.hidden, dtype=torch.bfloat16),
            *(tables, tables.clone(), order, order.clone(), mask, mask.clone(), order.clone()),
        ),
        dynamic=(
            *({1: patches}, {1: patches}, {0: patches}, {0: patches}, {0: patches}, {0: patches}),
            *({2: patches, 3: patches}, {2: patches, 3: patches}, {0: patches}),
        ),
    )


def constants(config: TextConfig, *, context: int, has_vision: bool, mask_id: int | None) -> dict[str, Any]:
    """What the program says about itself. mask_id None: it has no draft."""
    found: dict[str, Any] = {
        "get_max_seq_len": context,
        "get_vocab_size": config.vocabulary,
        "get_max_prefill_chunk": CHUNK,
        "get_activation_dtype": "float16",
        "get_mutable_buffer_metadata": json.dumps({"version": 1, "mutable_buffers": []}),
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": False,
        "enable_dynamic_shape": True,
        "has_vision_encoder": has_vision,
    }
    if has_vision:
        found |= {"get_vision_hidden_size": config.hidden, "get_max_vision_patches": MAX_PATCHES}
    if mask_id is None:
        return found | {"use_sampling": False}
    return found | {
        "get_block_size": MAX_BLOCK,
        "get_mask_token_id": mask_id,
        "get_n_target_layers": len(DRAFT.taps),
        "get_draft_sliding_window": DRAFT.window,
    }


def lower(methods: Mapping[str, Method], facts: Mapping[str, Any], path: Path) -> None:
    """Write one program with these methods and constants."""
    exported = {
        name: export(method.module, method.inputs, dynamic_shapes=method.dynamic, strict=False)
        for name, method in methods.items()
    }
    edge = to_edge_transform_and_lower(
        exported,
        partitioner=[XnnpackPartitioner(configs=[*_DELEGATED])],
        constant_methods=dict(facts),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    # Rows that nothing was written to yet count nothing, but must be numbers.
    program = edge.to_executorch(ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["keys", "values"])]))
    with path.open("wb") as file:
        program.write_to_file(file)


def write_wide_artifact(folder: Path, *, vocabulary: int) -> None:
    """A program with a draft and random weights over a vocabulary of any size, to measure with; it knows nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    config = attrs.evolve(CONFIG, vocabulary=vocabulary, context=_WIDE_CONTEXT)
    text = initial_weights(config, seed=1)
    taps = tuple(layer + 1 for layer in DRAFT.taps)
    methods = {
        "embed_text": _embed(config, text),
        "target_forward_from_embeddings": _target(
            Target(text, config=config, context=config.context, taps=taps), config.hidden, chunk=_WIDE_CHUNK
        ),
        "draft_forward": _draft(text, config.context),
    }
    facts = constants(config, context=config.context, has_vision=False, mask_id=_id_of(MASK))
    lower(methods, facts | {"get_max_prefill_chunk": _WIDE_CHUNK}, folder / "model.pte")
    _copy_tokenizer(folder)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(widened(json.loads(path.read_bytes()), vocabulary)))


def write_artifact(folder: Path, *, has_draft: bool, has_vision: bool) -> None:
    """The folder of a stand-in artifact with muse-nano's weights: program, tokenizer, template, position table."""
    folder.mkdir(parents=True, exist_ok=True)
    text, vision = stored.text_and_vision()
    context = CONFIG.context
    methods = {"embed_text": _embed(CONFIG, text)}
    mask_id = None
    if has_draft:
        taps = tuple(layer + 1 for layer in DRAFT.taps)
        methods["target_forward_from_embeddings"] = _target(Target(text, context=context, taps=taps), CONFIG.hidden)
        methods["draft_forward"] = _draft(text, context)
        mask_id = _id_of(MASK)
    else:
        methods["forward_from_embeddings"] = _target(Target(text, context=context), CONFIG.hidden)
    if has_vision:
        methods["vision_encoder"] = _vision(vision)
        table = vision["vision_tower.patch_embedder.position_embedding_table.weight"]
        (folder / "pos_embed.bin").write_bytes(table.numpy().astype("<f4").tobytes())
    facts = constants(CONFIG, context=context, has_vision=has_vision, mask_id=mask_id)
    lower(methods, facts, folder / "model.pte")
    _copy_tokenizer(folder)


def _copy_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "chat_template.jinja"):
        shutil.copy(stored.FOLDER / "hf" / name, folder / name)


def _id_of(spelling: str) -> int:
    content = json.loads((stored.FOLDER / "hf" / "tokenizer.json").read_text(encoding="utf-8"))
    return next(token["id"] for token in content["added_tokens"] if token["content"] == spelling)
