"""Makes programs that say nothing but their constants, as FlatBuffers of ExecuTorch's schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

_KINDS: Final = {int: 2, bool: 3}


class _Writer:
    """Lays things one behind the other; a distance leads forward, so whatever is pointed to comes later."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0\0\0\0ET12")

    def here(self) -> int:
        self.data += bytes(-len(self.data) % 8)
        return len(self.data)

    def point(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.data, place, target - place)

    def table(self, sizes: Mapping[int, int]) -> dict[int, int]:
        """A table with slots of these sizes. Where each is; itself under -1."""
        begin = self.here()
        offsets, size = dict[int, int](), 8
        for slot, width in sizes.items():
            offsets[slot], size = size, size + 8 * (width > 0)
        count = max(sizes, default=-1) + 1
        slots = struct.pack("<HH", 4 + 2 * count, size) + b"".join(
            struct.pack("<H", offsets.get(slot, 0)) for slot in range(count)
        )
        self.data += slots
        table = self.here()
        self.data += struct.pack("<i", table - begin).ljust(size, b"\0")
        return {-1: table} | {slot: table + offset for slot, offset in offsets.items()}

    def vector(self, count: int) -> tuple[int, list[int]]:
        """Room for the distances to so many things. Where it is, and where each of them goes."""
        begin = self.here()
        self.data += struct.pack("<I", count) + bytes(4 * count)
        return begin, [begin + 4 + 4 * number for number in range(count)]


def program_with(constants: Mapping[str, int | bool]) -> bytes:
    """The file of a program with these constants, each a method without inputs, and one method that computes."""
    writer = _Writer()
    root = writer.table({0: 4, 1: 4})
    writer.point(0, root[-1])
    plans, places = writer.vector(len(constants) + 1)
    writer.point(root[1], plans)
    for place, (name, values) in zip(
        places, [*((name, [value]) for name, value in constants.items()), ("forward", [1, 2])], strict=True
    ):
        writer.point(place, _method(writer, name, values))
    return bytes(writer.data)


def _method(writer: _Writer, name: str, values: list[int | bool]) -> int:
    method = writer.table({0: 4, 2: 4})
    writer.point(method[0], writer.here())
    writer.data += struct.pack("<I", len(name)) + name.encode() + b"\0"
    held, places = writer.vector(len(values))
    writer.point(method[2], held)
    for place, value in zip(places, values, strict=True):
        wrapped = writer.table({0: 1, 1: 4})
        writer.point(place, wrapped[-1])
        writer.data[wrapped[0]] = _KINDS[type(value)]
        inner = writer.table({0: 8} if value else {})  # a default is left out
        writer.point(wrapped[1], inner[-1])
        if value:
            struct.pack_into("<q", writer.data, inner[0], value)
    return method[-1]
