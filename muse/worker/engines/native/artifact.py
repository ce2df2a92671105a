"""The files of a Muse Glimmer artifact, and how the native worker is told to load them.

Its ready line says neither context nor name nor kind (contracts/worker-protocol.md section 2). The context is read from
the artifact, the kind from the program's log; what neither tells is given, or taken as that of the published artifacts
(contracts/pte-contract.md sections 1, 2 and 4).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Final, Literal

import attrs

from muse.protocol import FilePart, LoadedFile
from muse.worker.command_line import WorkerOptions
from muse.worker.hf_tokenizer import END_OF_TEXT, JsonTokenizer
from muse.worker.picture_size import MOST_CELLS, PATCHES_OF_CELL
from muse.worker.pte_constants import read_constants
from muse.worker.pte_files import artifact_fault, check_file, program_at, template_beside, tokenizer_beside

PUBLISHED_CONTEXT: Final = 131_072
_PUBLISHED_DRAFTS: Final = 3
PUBLISHED_MODEL_ID: Final = "muse-glimmer-30b"
WEIGHTS: Final = "aoti_cuda_blob.ptd"
"""Beside the program of an artifact for CUDA (contracts/pte-contract.md section 2)."""
# One conversation stays warm beside requests without one; each costs a whole KV set (section 9 of the former).
_MAX_SESSIONS: Final = 2
_OURS: Final = frozenset({"model_path", "tokenizer_path", "bos_id", "eos_id", "warm_resume"})
_FILES: Final = frozenset({"data_path", "pos_embed_path"})
_MODES: Final = ("auto", "autoregressive", "dflash")
# With these of the gflags library a program prints and ends.
_PRINTS: Final = re.compile(r"help(full|short|on|match|package|xml)?|version")
_HASH_CHARS: Final = 12

Kind = Literal["solo", "dflash", "unknown"]
KINDS: Final[dict[str, Kind]] = {"autoregressive": "solo", "dflash": "dflash"}
"""As the program names them."""


@attrs.frozen(kw_only=True)
class Artifact:
    """What is loaded. program: its file. flags: of the user's own. kind: what samples, as far as it is known.
    most_cells: of one picture."""

    program: Path
    model: Path
    tokenizer_path: Path
    tokenizer: JsonTokenizer
    template: str
    flags: tuple[str, ...]
    kind: Kind
    context: int
    most_cells: int
    model_id: str

    def command(self) -> list[str]:
        """The native worker's command line."""
        chosen = {"max_sessions": str(_MAX_SESSIONS)}
        if self._weights is not None:
            chosen["data_path"] = str(self._weights)
        given = {_name(flag) for flag in self.flags}
        return [
            str(self.program),
            f"--model_path={self.model}",
            f"--tokenizer_path={self.tokenizer_path}",
            f"--bos_id={self.tokenizer.begin}",
            f"--eos_id={self.tokenizer.id_of(END_OF_TEXT)}",
            *(f"--{name}={value}" for name, value in chosen.items() if name not in given),
            *self.flags,
        ]

    @property
    def is_cuda(self) -> bool:
        """Exported for CUDA: only such an artifact has its weights in a file of their own."""
        return self._weights is not None or any(_name(flag) == "data_path" for flag in self.flags)

    @property
    def size_bytes(self) -> int:
        """Of the model's files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def _weights(self) -> Path | None:
        """The file of weights, if there is one: named by a flag, or beside the program."""
        path = Path(_value(self.flags, "data_path") or self.model.with_name(WEIGHTS))
        return path if path.is_file() else None

    @property
    def files(self) -> tuple[LoadedFile, ...]:
        """What is loaded."""
        parts: dict[FilePart, Path | None] = {"model": self.model, "weights": self._weights}
        return tuple(
            LoadedFile(part=part, name=path.name, size_bytes=path.stat().st_size)
            for part, path in parts.items()
            if path is not None
        )

    @property
    def draft_tokens(self) -> int | None:
        """Tokens that are guessed in a step (section 10 of the former); None without a draft, or when unknown."""
        if self.kind != "dflash":
            return None
        drafts = _value(self.flags, "dflash_n_draft") or str(_PUBLISHED_DRAFTS)
        return int(drafts) if drafts.isdigit() and int(drafts) > 0 else None

    @property
    def backend(self) -> str:
        """What computes, as far as it shows from outside."""
        return "CUDA" if self.is_cuda else "MLX (Metal)" if sys.platform == "darwin" else ""

    def program_name(self) -> str:
        """The program names no version, so it is known by its content."""
        with self.program.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{self.program.name} sha256:{digest[:_HASH_CHARS]}"


def read_artifact(options: WorkerOptions) -> Artifact:
    """Look at the files. Raises EngineFault `bad_request` with what was expected and where."""
    assert options.model is not None
    assert options.worker_bin is not None
    check_file(options.worker_bin, "the native worker", "build muse_glimmer_worker, and name it by its path")
    for flag in options.worker_args:
        _check_flag(flag)
    model = program_at(options.model)
    constants = {name: number for name, number in read_constants(model).items() if number > 0}
    tokenizer_path, tokenizer = tokenizer_beside(model)
    return Artifact(
        program=options.worker_bin,
        model=model,
        tokenizer_path=tokenizer_path,
        tokenizer=tokenizer,
        template=template_beside(model),
        flags=options.worker_args,
        kind=_kind(options.worker_args, model),
        context=_context(options.context, constants.get("get_max_seq_len")),
        most_cells=max(1, constants.get("get_max_vision_patches", MOST_CELLS * PATCHES_OF_CELL) // PATCHES_OF_CELL),
        model_id=options.model_id or PUBLISHED_MODEL_ID,
    )


def _name(flag: str) -> str:
    """Of a flag in the form of the gflags library: dashes, name, value; `no` before the name says false."""
    name = flag.lstrip("-").partition("=")[0].replace("-", "_")
    return name.removeprefix("no") if name.removeprefix("no") in _OURS else name


def _value(flags: tuple[str, ...], name: str) -> str:
    """Of the last flag of a name; empty if there is none."""
    return next((flag.partition("=")[2] for flag in reversed(flags) if _name(flag) == name), "")


def _check_flag(flag: str) -> None:
    """What the program itself would refuse without a reason, or would end by, is refused here: its own checks come
    before its log can be written (contracts/native-trial.md, correction 5)."""
    name, value = _name(flag), flag.partition("=")[2]
    if not flag.startswith("-") or not name:
        raise artifact_fault(f"{flag!r} is no flag of the native worker: write --worker-arg=--name=value")
    if name in _OURS:
        raise artifact_fault(f"--{name} of the native worker is set by this program")
    if _PRINTS.fullmatch(name):
        raise artifact_fault(f"--{name} has the native worker print something and end: run it by hand for that")
    if name in _FILES and value:
        check_file(Path(value), f"--{name} of the native worker", "name a file that is there")
    if name == "artifact_mode" and value not in _MODES:
        raise artifact_fault(f"--artifact_mode of the native worker is {', '.join(_MODES)}, not {value!r}")
    if name == "max_image_bytes" and value.isdigit() and int(value) == 0:
        raise artifact_fault("--max_image_bytes of the native worker must be at least 1")


def _context(asked: int | None, held: int | None) -> int:
    """The context to be used. held: the artifact's, None where its file does not tell."""
    if asked and held and asked > held:
        raise artifact_fault(f"a context of {asked} tokens was asked for, and this artifact holds {held}")
    return asked or held or PUBLISHED_CONTEXT


def _kind(flags: tuple[str, ...], model: Path) -> Kind:
    """By the flag that asserts it, else by the folder's name, as the published ones are named."""
    mode = _value(flags, "artifact_mode")
    if mode in KINDS:
        return KINDS[mode]
    name = f"{model.parent.name} {model.name}".lower()
    kinds = [kind for kind in ("solo", "dflash") if kind in name]
    return "unknown" if len(kinds) != 1 else "dflash" if kinds == ["dflash"] else "solo"
