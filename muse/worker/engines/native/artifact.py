"""The files of a Muse Glimmer artifact, and how the native worker is told to load them.

Its ready line says neither context nor name nor kind (contracts/worker-protocol.md section 2), so these are given, or
taken as those of the published artifacts (contracts/pte-contract.md sections 1, 2 and 4).
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Final, Literal

import attrs

from muse.protocol import FilePart, LoadedFile
from muse.worker.command_line import WorkerOptions
from muse.worker.hf_tokenizer import END_OF_TEXT, JsonTokenizer
from muse.worker.pte_files import artifact_fault, program_at, template_beside, tokenizer_beside

PUBLISHED_CONTEXT: Final = 131_072
_PUBLISHED_DRAFTS: Final = 3
PUBLISHED_MODEL_ID: Final = "muse-glimmer-30b"
WEIGHTS: Final = "aoti_cuda_blob.ptd"
"""Beside the program of an artifact for CUDA (contracts/pte-contract.md section 2)."""
# One conversation stays warm beside requests without one; each costs a whole KV set (section 9 of the former).
_MAX_SESSIONS: Final = 2
_OURS: Final = frozenset({"model_path", "tokenizer_path", "bos_id", "eos_id", "warm_resume"})
_HASH_CHARS: Final = 12

Kind = Literal["solo", "dflash", "unknown"]


@attrs.frozen(kw_only=True)
class Artifact:
    """What is loaded. program: its file. flags: of the user's own. kind: what samples, as far as it is known."""

    program: Path
    model: Path
    tokenizer_path: Path
    tokenizer: JsonTokenizer
    template: str
    flags: tuple[str, ...]
    kind: Kind
    context: int
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
    if not options.worker_bin.is_file():
        raise artifact_fault(
            f"there is no native worker at {options.worker_bin}: build muse_glimmer_worker, name it by its path"
        )
    for flag in options.worker_args:
        _check_flag(flag)
    model = program_at(options.model)
    tokenizer_path, tokenizer = tokenizer_beside(model)
    return Artifact(
        program=options.worker_bin,
        model=model,
        tokenizer_path=tokenizer_path,
        tokenizer=tokenizer,
        template=template_beside(model),
        flags=options.worker_args,
        kind=_kind(options.worker_args, model),
        context=options.context or PUBLISHED_CONTEXT,
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
    if not flag.startswith("-") or not _name(flag):
        raise artifact_fault(f"{flag!r} is no flag of the native worker: write --worker-arg=--name=value")
    if _name(flag) in _OURS:
        raise artifact_fault(f"--{_name(flag)} of the native worker is set by this program")


def _kind(flags: tuple[str, ...], model: Path) -> Kind:
    """By the flag that asserts it, else by the folder's name, as the published ones are named."""
    mode = _value(flags, "artifact_mode")
    if mode in ("autoregressive", "dflash"):
        return "dflash" if mode == "dflash" else "solo"
    name = f"{model.parent.name} {model.name}".lower()
    kinds = [kind for kind in ("solo", "dflash") if kind in name]
    return "unknown" if len(kinds) != 1 else "dflash" if kinds == ["dflash"] else "solo"
