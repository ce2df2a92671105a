"""Small GGUF files for tests: settings of one's own, no tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Value = bool | int | str | Sequence[int] | Sequence[str]


def gguf(settings: Mapping[str, Value]) -> bytes:
    """A whole file of version 3 with these settings."""
    pairs = b"".join(
        _string(key) + struct.pack("<I", _kind(value)) + _content(value) for key, value in settings.items()
    )
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(settings)) + pairs
    return head + bytes(-len(head) % 32)


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _kind(value: Value) -> int:
    if isinstance(value, bool):
        return 7
    return 4 if isinstance(value, int) else 8 if isinstance(value, str) else 9


def _content(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<?", value)
    if isinstance(value, int):
        return struct.pack("<I", value)
    if isinstance(value, str):
        return _string(value)
    return struct.pack("<IQ", _kind(value[0]), len(value)) + b"".join(map(_content, value))
