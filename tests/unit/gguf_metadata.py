"""Reads the key-value part of a GGUF file, for tests that need what a model file says about itself."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_metadata(path: Path) -> dict[str, Any]:
    """All keys with their values."""
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF"
        _version, _tensors, keys = _unpack(file, "IQQ")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = _read_text(file)
            metadata[name] = _read_value(file, _unpack(file, "I")[0])
        return metadata


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _read_text(file: BinaryIO) -> str:
    return file.read(_unpack(file, "Q")[0]).decode("utf-8", "replace")


def _read_value(file: BinaryIO, kind: int) -> Any:
    if kind in _NUMBERS:
        return _unpack(file, _NUMBERS[kind])[0]
    if kind == 8:
        return _read_text(file)
    inner, length = _unpack(file, "IQ")
    return [_read_value(file, inner) for _ in range(length)]
