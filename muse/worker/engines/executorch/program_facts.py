"""What kind of program this is, and its numbers: by its methods, constants, inputs and results.

Kinds and constants: contracts/pte-contract.md sections 2 to 4. What `get_vision_hidden_size` means is upstream's
export: it writes the text's width there (`export_solo.py`, `export_dflash.py` of the pinned commit). What differs is
refused by name, since a call with other shapes could end the process.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar

import attrs

from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.dflash import DraftFacts
from muse.worker.engines.executorch.library import Program, Tensors

EMBED: Final = "embed_text"
SOLO: Final = "forward_from_embeddings"
TARGET: Final = "target_forward_from_embeddings"
DRAFT: Final = "draft_forward"
VISION: Final = "vision_encoder"
_CUDA_ONLY: Final = ("decode_from_embedding", "target_prefill_from_embeddings", "draft_prefill")
_VISION_INPUTS: Final = ("float32", "bfloat16", "float32", "float32", "int64", "int64", "bool", "bool", "int64")
_PATCH_VALUES: Final = 2 * 3 * 14 * 14
_GRID: Final = 32

Value = TypeVar("Value", int, bool, str)


@attrs.frozen(kw_only=True)
class VisionFacts:
    """latent: width of a position's embedding. rotary: angles of a patch. patches: the most of one picture."""

    latent: int
    rotary: int
    patches: int

    @property
    def table_bytes(self) -> int:
        """Size of the file with the positions."""
        return _GRID * _GRID * self.latent * 4


@attrs.frozen(kw_only=True)
class ProgramFacts:
    """activation: type of embeddings and hidden states. chunk: most tokens of a call. draft, vision: None without."""

    kind: Literal["solo", "dflash"]
    context: int
    vocabulary: int
    chunk: int
    width: int
    activation: str
    draft: DraftFacts | None
    vision: VisionFacts | None


def read_facts(program: Program) -> ProgramFacts:
    """Look at a program. Raises EngineFault `bad_request`."""
    names = program.names
    cuda = [name for name in _CUDA_ONLY if name in names]
    if cuda:
        raise _fault(f"this program is made for CUDA (it has {cuda[0]}), which the executorch wheel cannot run")
    is_drafted = {EMBED, TARGET, DRAFT} <= names
    if not is_drafted and (DRAFT in names or not {EMBED, SOLO} <= names):
        raise _fault(
            f"this is no program of Muse Glimmer: it should have {EMBED} and {SOLO}, or {EMBED}, {TARGET} and {DRAFT}, "
            f"and has {', '.join(sorted(names)) or 'nothing'}"
        )
    if not is_drafted and "use_sampling" in names and _constant(program, "use_sampling", bool):
        raise _fault("this program chooses its tokens itself, and an export without sampling was expected")
    activation = _constant(program, "get_activation_dtype", str)
    if activation not in ("float16", "bfloat16"):
        raise _fault(f"get_activation_dtype is {activation}; float16 or bfloat16 was expected")
    chunk = _constant(program, "get_max_prefill_chunk", int)
    context = _constant(program, "get_max_seq_len", int)
    forward = TARGET if is_drafted else SOLO
    (_, (_, _, width)), _ = _inputs(program, forward, (activation, "int64"), (3, 1))
    _outputs(program, forward, ("float32", activation) if is_drafted else ("float32",), (3, 3) if is_drafted else (2,))
    _inputs(program, EMBED, ("int64",), (2,))
    _outputs(program, EMBED, (activation,), (3,))
    return ProgramFacts(
        kind="dflash" if is_drafted else "solo",
        context=context,
        vocabulary=_constant(program, "get_vocab_size", int),
        chunk=chunk,
        width=width,
        activation=activation,
        draft=_draft(program, activation, chunk, context) if is_drafted else None,
        vision=_vision(program, activation, width) if _constant(program, "has_vision_encoder", bool) else None,
    )


def _draft(program: Program, activation: str, chunk: int, context: int) -> DraftFacts:
    _inputs(program, DRAFT, ("int64", activation, "int64"), (2, 3, 1))
    _outputs(program, DRAFT, ("float32",), (3,))
    return DraftFacts(
        mask_id=_constant(program, "get_mask_token_id", int),
        block=_constant(program, "get_block_size", int),
        chunk=chunk,
        window=_constant(program, "get_draft_sliding_window", int),
        context=context,
    )


def _vision(program: Program, activation: str, width: int) -> VisionFacts:
    if VISION not in program.names:
        raise _fault(f"has_vision_encoder is true, but there is no {VISION}")
    inputs = _inputs(program, VISION, _VISION_INPUTS, (3, 3, 2, 2, 1, 1, 4, 4, 1))
    _outputs(program, VISION, (activation,), (3,))
    patch, latent, rotary = (inputs[number][1][-1] for number in (0, 1, 2))
    if patch != _PATCH_VALUES:
        raise _fault(f"{VISION} takes {patch} values of a patch; {_PATCH_VALUES} were expected")
    # It is what comes out of the encoder, one row of the text's embeddings for each cell.
    told = _constant(program, "get_vision_hidden_size", int)
    if told != width:
        raise _fault(f"get_vision_hidden_size is {told}; {width}, the width of the text's embeddings, was expected")
    return VisionFacts(latent=latent, rotary=rotary, patches=_constant(program, "get_max_vision_patches", int))


def _inputs(program: Program, name: str, types: tuple[str, ...], ranks: tuple[int, ...]) -> Tensors:
    return _checked(f"{name} takes", program.inputs(name), types, ranks)


def _outputs(program: Program, name: str, types: tuple[str, ...], ranks: tuple[int, ...]) -> None:
    _checked(f"{name} gives", program.outputs(name), types, ranks)


def _checked(who: str, found: Tensors, types: tuple[str, ...], ranks: tuple[int, ...]) -> Tensors:
    if tuple(kind for kind, _ in found) != types or tuple(len(shape) for _, shape in found) != ranks:
        shown = ", ".join(f"{kind} {list(shape)}" for kind, shape in found)
        wanted = ", ".join(f"{kind} of {rank} axes" for kind, rank in zip(types, ranks, strict=True))
        raise _fault(f"{who} ({shown}); ({wanted}) was expected")
    return found


def _constant(program: Program, name: str, kind: type[Value]) -> Value:
    if name not in program.names:
        raise _fault(f"this program has no {name}, which every artifact of Muse Glimmer has")
    value = program.constant(name)
    if type(value) is not kind:
        raise _fault(f"{name} is {value!r}; a value of type {kind.__name__} was expected")
    return value


def _fault(message: str) -> EngineFault:
    return EngineFault("bad_request", message, fatal=True)
