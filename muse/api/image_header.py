"""What a picture's file says of itself in its first bytes: its kind, width and height.

The main process reads this much and no more, and in plain Python: decoding is native code that has been broken by
crafted files before, and belongs into the worker, whose death is an event. So nothing here judges the pixels; a file
that ends too early or holds nonsense behind a right header is found by the worker.

Sources: PNG (W3C, third edition) sections 5.2, 5.3 and 11.2.1, acTL in 11.3.6.1; JPEG (ITU T.81) annex B; WebP
(RFC 9649) sections 2.3 to 2.7.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal

import attrs

ImageKind = Literal["jpeg", "png", "webp"]

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_MAX_PIECES: Final = 10_000
"""Chunks or segments before the pixels; files of cameras and editors have up to some hundred."""
# Frames: start-of-frame markers, C0 to CF without tables (C4, CC) and a reserved one (C8).
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE: Final = frozenset((0x01, *range(0xD0, 0xD8)))
_JPEG_END: Final = 0xD9
_JPEG_SCAN: Final = 0xDA
_WEBP_ANIMATED: Final = 0x02


class HeaderFault(ValueError):
    """No picture, or none that can be taken; the text is the rest of a sentence about it."""


@attrs.frozen(kw_only=True)
class ImageHeader:
    """width, height: pixels as stored, 0 or more; a camera may want them turned."""

    kind: ImageKind
    width: int
    height: int


def read_image_header(data: bytes) -> ImageHeader:
    """Read the header of a JPEG, PNG or WebP file. Raises HeaderFault, also for animations."""
    try:
        if data.startswith(_PNG_SIGNATURE):
            return _read_png(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _read_jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _read_webp(data)
    except IndexError as fault:
        raise HeaderFault("is cut off in its header") from fault
    raise HeaderFault("is no JPEG, PNG or WebP file")


def _number(data: bytes, start: int, size: int, order: Literal["big", "little"]) -> int:
    if start + size > len(data):
        raise IndexError(start)
    return int.from_bytes(data[start : start + size], order)


def _read_png(data: bytes) -> ImageHeader:
    start = len(_PNG_SIGNATURE)
    if _number(data, start, 4, "big") != 13 or data[start + 4 : start + 8] != b"IHDR":
        raise HeaderFault("has no PNG header")
    if zlib.crc32(data[start + 4 : start + 21]) != _number(data, start + 21, 4, "big"):
        raise HeaderFault("has a damaged PNG header")
    width, height = _number(data, start + 8, 4, "big"), _number(data, start + 12, 4, "big")
    position = start + 25
    for _ in range(_MAX_PIECES):
        size, name = _number(data, position, 4, "big"), data[position + 4 : position + 8]
        if name == b"IDAT":
            return ImageHeader(kind="png", width=width, height=height)
        if name == b"acTL":
            raise HeaderFault("is animated, and only still pictures are taken")
        position += 12 + size
    raise HeaderFault("has too many pieces before its pixels")


def _read_jpeg(data: bytes) -> ImageHeader:
    position = 2
    for _ in range(_MAX_PIECES):
        if data[position] != 0xFF:
            raise HeaderFault("has a damaged JPEG header")
        while data[position] == 0xFF:  # any number of them may fill up
            position += 1
        marker = data[position]
        position += 1
        if marker in _JPEG_ALONE:
            continue
        if marker in (_JPEG_SCAN, _JPEG_END, 0x00):
            raise HeaderFault("has no frame in its JPEG header")
        size = _number(data, position, 2, "big")
        if size < 2:
            raise HeaderFault("has a damaged JPEG header")
        if marker in _JPEG_FRAMES:
            # One byte of precision; then a height of 0 would mean that it is told behind the pixels.
            height, width = _number(data, position + 3, 2, "big"), _number(data, position + 5, 2, "big")
            return ImageHeader(kind="jpeg", width=width, height=height)
        position += size
    raise HeaderFault("has too many pieces before its pixels")


def _read_webp(data: bytes) -> ImageHeader:
    if _number(data, 4, 4, "little") + 8 > len(data):
        raise HeaderFault("is cut off: its WebP header promises more bytes")
    name, body = data[12:16], 20
    if name == b"VP8X":
        if _number(data, body, 1, "little") & _WEBP_ANIMATED:
            raise HeaderFault("is animated, and only still pictures are taken")
        width, height = _number(data, body + 4, 3, "little") + 1, _number(data, body + 7, 3, "little") + 1
    elif name == b"VP8L":
        if data[body] != 0x2F:
            raise HeaderFault("has a damaged WebP header")
        bits = _number(data, body + 1, 4, "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif name == b"VP8 ":
        if data[body] & 1 or data[body + 3 : body + 6] != b"\x9d\x01\x2a":
            raise HeaderFault("has a damaged WebP header")
        width, height = _number(data, body + 6, 2, "little") & 0x3FFF, _number(data, body + 8, 2, "little") & 0x3FFF
    else:
        raise HeaderFault("has no WebP header")
    return ImageHeader(kind="webp", width=width, height=height)
