"""The files of an artifact: which there are, whether they are whole, what is missing.

What both engines of such artifacts need is in `muse/worker/pte_files.py`; for pictures there is `pos_embed.bin` as well
(contracts/pte-contract.md section 2). The runtime answers a broken program with a number, so it is looked at here
first.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import attrs

from muse.protocol import LoadedFile
from muse.worker.hf_tokenizer import JsonTokenizer
from muse.worker.pte_files import artifact_fault, program_at, template_beside, tokenizer_beside

_POSITIONS: Final = "pos_embed.bin"
# Head of a program: offset of the root, "ETnn", "eh00", length of the extended head, size of the program, where the
# segments begin, and, if the head is long enough, their size.
_HEAD: Final = struct.Struct("<I2s2s4sIQQQ")
_HEAD_WITH_SIZE: Final = 32
_BACKENDS: Final = ("MLXBackend", "XnnpackBackend", "CudaBackend", "CoreMLBackend", "VulkanBackend")
_DEVICES: Final = {"MLXBackend": "MLX (Metal)", "XnnpackBackend": "XNNPACK (CPU)"}


@attrs.frozen(kw_only=True)
class Artifact:
    """Files that were found whole. backends: the delegates that the program asks for. size_bytes: of the program."""

    program: Path
    tokenizer_path: Path
    tokenizer: JsonTokenizer
    template: str
    backends: tuple[str, ...]
    size_bytes: int

    @property
    def positions(self) -> Path:
        """Where the table for pictures is, if there is one."""
        return self.program.parent / _POSITIONS

    @property
    def backend(self) -> str:
        """What computes, in words."""
        return ", ".join(_DEVICES.get(name, name) for name in self.backends) or "portable kernels (CPU)"

    @property
    def files(self) -> tuple[LoadedFile, ...]:
        """What is loaded, by size."""
        program = LoadedFile(part="model", name=self.program.name, size_bytes=self.size_bytes)
        if not self.positions.is_file():
            return (program,)
        size = self.positions.stat().st_size
        return program, LoadedFile(part="positions", name=self.positions.name, size_bytes=size)

    @property
    def name(self) -> str:
        """What this artifact is called: its folder, since every program is called the same."""
        return self.program.parent.resolve().name


def read_artifact(path: Path) -> Artifact:
    """Look at a folder, or a program in it. Raises EngineFault `bad_request`."""
    program = program_at(path)
    template = template_beside(program)
    backends, size = _looked_at(program)
    tokenizer_path, tokenizer = tokenizer_beside(program)
    return Artifact(
        program=program,
        tokenizer_path=tokenizer_path,
        tokenizer=tokenizer,
        template=template,
        backends=backends,
        size_bytes=size,
    )


def _looked_at(path: Path) -> tuple[tuple[str, ...], int]:
    """The delegates that are named in a program's head part, which is looked at for damage on the way, and its size."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
            length = _length_of_head_part(path, head, size)
            file.seek(0)
            content = file.read(length)
    except OSError as fault:
        raise artifact_fault(f"cannot read {path}: {fault.strerror or fault}") from fault
    return tuple(name for name in _BACKENDS if name.encode() in content), size


def _length_of_head_part(path: Path, head: bytes, size: int) -> int:
    if len(head) < _HEAD.size or head[4:6] != b"ET":
        raise artifact_fault(f"{path} is no ExecuTorch program: bytes 4 and 5 should be 'ET', and are {head[4:6]!r}")
    _, _, _, magic, length, program_bytes, segments_at, segment_bytes = _HEAD.unpack(head)
    if magic != b"eh00":
        raise artifact_fault(
            f"{path} is a program of an old form, without the extended head that published artifacts have"
        )
    needed = max(program_bytes, segments_at + (segment_bytes if length >= _HEAD_WITH_SIZE else 0))
    if needed > size:
        raise artifact_fault(f"{path} is cut off: it should have {needed} bytes and has {size}. Fetch it again")
    return program_bytes
