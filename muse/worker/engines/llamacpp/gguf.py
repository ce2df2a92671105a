"""Reads what the worker needs from a GGUF file, and finds out whether the file is whole.

Format: magic, version, counts, key-value pairs, tensor table, then the tensors at aligned offsets (the
specification of ggml's repository, versions 2 and 3, little endian). The native loader answers a broken file
with a fixed text at best and an abort at worst, so the file is checked here first.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import attrs

_MAGIC: Final = b"GGUF"
_DEFAULT_ALIGNMENT: Final = 32
# Far above any real file; a larger number is a sign of a damaged header.
_MAX_COUNT: Final = 1 << 24
_MAX_DIMENSIONS: Final = 4

_SCALARS: Final[dict[int, str]] = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9

# ggml type: (values a block, bytes a block). Types not listed are newer than this table: for them only the
# beginning of the tensor is checked.
_BLOCKS: Final[dict[int, tuple[int, int]]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


class ModelFileFault(Exception):
    """The file is missing, damaged, or no GGUF; the text says what, where, and what to do."""


@attrs.define(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A checked GGUF file. metadata: key to scalar, string (bytes) or list of these."""

    path: Path
    size_bytes: int
    metadata: dict[str, Any]

    def integer(self, key: str, default: int | None = None) -> int | None:
        """An integer of the metadata; `{arch}` in the key stands for the architecture."""
        value = self.value(key)
        # Some keys may have a value a layer: the largest bounds them all.
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        return max((n for n in values if isinstance(n, int) and not isinstance(n, bool)), default=default)

    def value(self, key: str) -> Any:
        """What the metadata have, None if nothing; `{arch}` as above."""
        return self.metadata.get(key.replace("{arch}", self.text("general.architecture")))

    def text(self, key: str) -> str:
        """A string of the metadata, empty when it is missing."""
        value = self.metadata.get(key)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def read_model_file(path: Path) -> ModelFile:
    """Read and check a GGUF file. Raises ModelFileFault."""
    try:
        if path.is_dir():
            raise ModelFileFault(f"{path} is a folder: name the .gguf file in it")
        size = path.stat().st_size
        if size < 24:
            raise ModelFileFault(f"{path} has {size} bytes, too few for a model: fetch it again")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(path, size, data)
    except FileNotFoundError as fault:
        raise ModelFileFault(f"there is no model file at {path}") from fault
    except OSError as fault:
        raise ModelFileFault(f"cannot read the model file {path}: {fault.strerror or fault}") from fault


def _read(path: Path, size: int, data: mmap.mmap) -> ModelFile:
    if data[:4] != _MAGIC:
        raise ModelFileFault(f"{path} is not a GGUF model: it begins with {data[:4]!r} instead of {_MAGIC!r}")
    cursor = _Cursor(data)
    version = cursor.number("<I")
    if version not in (2, 3):
        raise ModelFileFault(f"{path} has GGUF version {version}; versions 2 and 3 can be read")
    try:
        tensors, pairs = cursor.number("<Q"), cursor.number("<Q")
        if max(tensors, pairs) > _MAX_COUNT:
            raise ModelFileFault(f"{path} is damaged: its header promises {tensors} tensors and {pairs} settings")
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = cursor.string().decode("utf-8", "replace")
            metadata[key] = cursor.value(cursor.number("<I"))
        needed = _tensors_end(cursor, tensors, metadata.get("general.alignment", _DEFAULT_ALIGNMENT))
    except (struct.error, IndexError, KeyError, ValueError) as fault:
        raise ModelFileFault(
            f"{path} is cut off or damaged in its header, at byte {cursor.position} of {size}: fetch it again"
        ) from fault
    if needed > size:
        raise ModelFileFault(f"{path} is cut off: its tensors end at byte {needed}, the file at {size}: fetch it again")
    return ModelFile(path=path, size_bytes=size, metadata=metadata)


def _tensors_end(cursor: _Cursor, count: int, alignment: object) -> int:
    """Number of bytes the file must have, by its tensor table."""
    end = 0
    for _ in range(count):
        cursor.string()
        dimensions = cursor.number("<I")
        if dimensions > _MAX_DIMENSIONS:
            raise ValueError(dimensions)
        values = 1
        for _ in range(dimensions):
            values *= cursor.number("<Q")
        kind, offset = cursor.number("<I"), cursor.number("<Q")
        per_block, block_bytes = _BLOCKS.get(kind, (1, 0))
        end = max(end, offset + values // per_block * block_bytes)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ValueError(alignment)
    start = -(-cursor.position // alignment) * alignment
    return start + end


class _Cursor:
    """Reads values one after another. position: bytes read so far."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.position = len(_MAGIC)

    def number(self, form: str) -> Any:
        value = struct.unpack_from(form, self._data, self.position)[0]
        self.position += struct.calcsize(form)
        return value

    def string(self) -> bytes:
        size = self.number("<Q")
        end = self.position + size
        if end > len(self._data):
            raise IndexError(end)
        value = self._data[self.position : end]
        self.position = end
        return value

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        item, count = self.number("<I"), self.number("<Q")
        if count > _MAX_COUNT:
            raise ValueError(count)
        if item == _STRING:
            return self._strings(count)
        if item == _ARRAY:
            return [self.value(_ARRAY) for _ in range(count)]
        form = f"<{count}{_SCALARS[item][1]}"
        values = list(struct.unpack_from(form, self._data, self.position))
        self.position += struct.calcsize(form)
        return values

    def _strings(self, count: int) -> list[bytes]:
        # A vocabulary has hundreds of thousands of strings: the loop is kept bare.
        data, position, size_of = self._data, self.position, struct.Struct("<Q").unpack_from
        strings: list[bytes] = []
        append: Callable[[bytes], None] = strings.append
        total = len(data)
        for _ in range(count):
            start = position + 8
            position = start + size_of(data, position)[0]
            if position > total:
                raise IndexError(position)
            append(data[start:position])
        self.position = position
        return strings
