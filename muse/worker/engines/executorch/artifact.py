"""The folder of an artifact: which files there are, whether they are whole, what is missing.

`model.pte` (or the only `.pte` file), `tokenizer.json`, `chat_template.jinja`, and for pictures `pos_embed.bin`
(contracts/pte-contract.md section 2). The runtime answers a broken file with a number, so it is looked at here first.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import attrs

from muse.protocol import LoadedFile
from muse.worker.engines.base import EngineFault

TOKENIZER: Final = "tokenizer.json"
TEMPLATE: Final = "chat_template.jinja"
POSITIONS: Final = "pos_embed.bin"
_PREFERRED: Final = "model.pte"
# Head of a program: offset of the root, "ETnn", "eh00", length of the extended head, size of the program, where the
# segments begin, and, if the head is long enough, their size.
_HEAD: Final = struct.Struct("<I2s2s4sIQQQ")
_HEAD_WITH_SIZE: Final = 32
_BACKENDS: Final = ("MLXBackend", "XnnpackBackend", "CudaBackend", "CoreMLBackend", "VulkanBackend")
_DEVICES: Final = {"MLXBackend": "MLX (Metal)", "XnnpackBackend": "XNNPACK (CPU)"}


@attrs.frozen(kw_only=True)
class Artifact:
    """A folder that was found whole. backends: the delegates that the program asks for. positions: the table for
    pictures, None if there is none. size_bytes: of the program."""

    folder: Path
    program: Path
    tokenizer: Path
    template: str
    positions: Path | None
    backends: tuple[str, ...]
    size_bytes: int

    @property
    def backend(self) -> str:
        """What computes, in words."""
        return ", ".join(_DEVICES.get(name, name) for name in self.backends) or "portable kernels (CPU)"

    @property
    def files(self) -> tuple[LoadedFile, ...]:
        """What is loaded, by size."""
        program = LoadedFile(part="model", name=self.program.name, size_bytes=self.size_bytes)
        if self.positions is None:
            return (program,)
        size = self.positions.stat().st_size
        return program, LoadedFile(part="positions", name=self.positions.name, size_bytes=size)

    @property
    def name(self) -> str:
        """What this artifact is called: its folder, since every program is called the same."""
        return self.folder.resolve().name


def read_artifact(folder: Path) -> Artifact:
    """Look at a folder. Raises EngineFault `bad_request`."""
    if folder.is_file():
        raise _fault(
            f"{folder} is a file: name the folder that has the program, {TOKENIZER} and {TEMPLATE} beside each other"
        )
    if not folder.is_dir():
        raise _fault(f"there is no folder at {folder}")
    try:
        program = _program_of(folder)
        tokenizer, template = folder / TOKENIZER, folder / TEMPLATE
        for path, what in ((tokenizer, "the model's tokenizer"), (template, "the model's chat template")):
            if not path.is_file():
                raise _fault(f"{path} is missing: {what}, from the repository of the model's weights")
        positions = folder / POSITIONS
        return Artifact(
            folder=folder,
            program=program,
            tokenizer=tokenizer,
            template=template.read_text(encoding="utf-8"),
            positions=positions if positions.is_file() else None,
            backends=_backends_of(program),
            size_bytes=program.stat().st_size,
        )
    except OSError as fault:
        raise _fault(f"cannot read {fault.filename or folder}: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise _fault(f"{folder / TEMPLATE} is no text in UTF-8") from fault


def _program_of(folder: Path) -> Path:
    found = sorted(folder.glob("*.pte"))
    preferred = [path for path in found if path.name == _PREFERRED]
    if preferred:
        return preferred[0]
    if len(found) == 1:
        return found[0]
    if not found:
        raise _fault(f"there is no program in {folder}: a file {_PREFERRED} was expected")
    names = ", ".join(path.name for path in found)
    raise _fault(f"{folder} has several programs ({names}): name the one to be used {_PREFERRED}")


def _backends_of(path: Path) -> tuple[str, ...]:
    """The delegates that are named in a program's head part, which is looked at for damage on the way."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[4:6] != b"ET":
            raise _fault(f"{path} is no ExecuTorch program: bytes 4 and 5 should be 'ET', and are {head[4:6]!r}")
        _, _, _, magic, length, program_bytes, segments_at, segment_bytes = _HEAD.unpack(head)
        if magic != b"eh00":
            raise _fault(f"{path} is a program of an old form, without the extended head that published artifacts have")
        needed = max(program_bytes, segments_at + (segment_bytes if length >= _HEAD_WITH_SIZE else 0))
        if needed > size:
            raise _fault(f"{path} is cut off: it should have {needed} bytes and has {size}. Fetch it again")
        file.seek(0)
        content = file.read(program_bytes)
    return tuple(name for name in _BACKENDS if name.encode() in content)


def _fault(message: str) -> EngineFault:
    return EngineFault("bad_request", message, fatal=True)
