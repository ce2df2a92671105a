"""Numbers that a `.pte` program says of itself, read from its file: no ExecuTorch is needed, and nothing is run.

A program is a FlatBuffer, and a constant is a method of it that gives one value and takes none
(contracts/pte-contract.md section 4). Slots below are those of ExecuTorch's schema (schema/program.fbs): the number of
a slot is its field's place in the table, and never changes. A table begins with the distance back to the list of its
slots' places; vectors, texts and tables inside others are distances forward.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

_IDENTIFIER: Final = slice(4, 6)
_PLANS: Final = 1  # Program.execution_plan
_NAME: Final = 0  # ExecutionPlan.name, .values
_VALUES: Final = 2
_KIND: Final = 0  # EValue.val_type, .val
_VALUE: Final = 1
_INT: Final = 2  # KernelTypes.Int, whose table has the number in slot 0
_MOST_METHODS: Final = 1000
_MOST_NAME: Final = 200


def read_constants(path: Path) -> dict[str, int]:
    """The whole numbers of a program, by name; empty where the file is none that can be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data) if data[_IDENTIFIER] == b"ET" else {}
    except (OSError, ValueError, struct.error, IndexError):
        # Whoever loads the program says what is wrong with it.
        return {}


def _read(data: mmap.mmap) -> dict[str, int]:
    constants: dict[str, int] = {}
    for plan in _vector(data, _slot(data, _follow(data, 0), _PLANS)):
        method = _follow(data, plan)
        values = _vector(data, _slot(data, method, _VALUES))
        if len(values) != 1:
            continue
        value = _follow(data, values[0])
        kind = _slot(data, value, _KIND)
        if kind and data[kind] == _INT:
            place = _slot(data, _follow(data, _slot(data, value, _VALUE)), 0)
            # A number that is left out is the default.
            constants[_text(data, _slot(data, method, _NAME))] = _number("<q", data, place) if place else 0
    return constants


def _number(form: str, data: mmap.mmap, place: int) -> int:
    if place < 0:
        raise IndexError(place)
    return struct.unpack_from(form, data, place)[0]


def _follow(data: mmap.mmap, place: int) -> int:
    """What the distance at a place leads to."""
    return place + _number("<I", data, place)


def _slot(data: mmap.mmap, table: int, slot: int) -> int:
    """The place of a slot's content; 0 where it is left out."""
    slots = table - _number("<i", data, table)
    at = 4 + 2 * slot
    offset = _number("<H", data, slots + at) if at < _number("<H", data, slots) else 0
    return table + offset if offset else 0


def _vector(data: mmap.mmap, place: int) -> range:
    """The places of the distances to a vector's tables."""
    if not place:
        return range(0)
    begin = _follow(data, place)
    count = min(_number("<I", data, begin), _MOST_METHODS)
    return range(begin + 4, begin + 4 + 4 * count, 4)


def _text(data: mmap.mmap, place: int) -> str:
    begin = _follow(data, place)
    return data[begin + 4 : begin + 4 + min(_number("<I", data, begin), _MOST_NAME)].decode()
