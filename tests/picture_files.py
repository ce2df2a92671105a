"""Picture files of every kind for tests, made with Pillow, and damaged ones made of them."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from PIL import Image

from muse.protocol import ImageSegment

WIDTH: Final = 40
HEIGHT: Final = 30


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """A picture as a file."""
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def plain(mode: str = "RGB", colour: Any = None, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Image.Image:
    """A picture with something in it; with a colour, one of that colour."""
    if colour is not None:
        return Image.new(mode, size, colour)
    picture = Image.radial_gradient("L").resize(size)
    return Image.merge("RGB", (picture, picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT), picture)).convert(mode)


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    """A picture that says how its camera was held."""
    notes = Image.Exif()
    notes[0x0112] = orientation
    return saved(plain(), kind, exif=notes)


def moving(kind: str) -> bytes:
    """An animation of two pictures."""
    return saved(plain(), kind, save_all=True, append_images=[plain(colour="red")])


def png_chunk(name: bytes, body: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_claiming(width: int, height: int) -> bytes:
    """A PNG file of some bytes whose header promises a picture of any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(64))
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(name, body) for name, body in chunks)


STILL: Final[Mapping[str, Callable[[], bytes]]] = {
    "jpeg": lambda: saved(plain(), "JPEG"),
    "jpeg progressive": lambda: saved(plain(), "JPEG", progressive=True),
    "jpeg grey": lambda: saved(plain("L"), "JPEG"),
    "jpeg cmyk": lambda: saved(plain("CMYK"), "JPEG"),
    "jpeg with notes": lambda: turned(1),
    "jpeg with a comment": lambda: saved(plain(), "JPEG", comment=b"x" * 40_000),
    "jpeg of several pictures": lambda: saved(plain(), "MPO", save_all=True, append_images=[plain(colour="red")]),
    "png": lambda: saved(plain(), "PNG"),
    "png transparent": lambda: saved(plain("RGBA"), "PNG"),
    "png palette": lambda: saved(plain("P"), "PNG"),
    "png palette transparent": lambda: saved(plain("P"), "PNG", transparency=0),
    "png palette see-through": lambda: saved(plain("P"), "PNG", transparency=bytes(range(256))),
    "png grey": lambda: saved(plain("L"), "PNG"),
    "png grey transparent": lambda: saved(plain("LA"), "PNG"),
    "png one colour transparent": lambda: saved(plain(), "PNG", transparency=(0, 0, 0)),
    "png black and white": lambda: saved(plain("1"), "PNG"),
    "png of 16 bits": lambda: saved(plain("I;16", 0x8000), "PNG"),
    "webp": lambda: saved(plain(), "WEBP"),
    "webp lossless": lambda: saved(plain(), "WEBP", lossless=True),
    "webp transparent": lambda: saved(plain("RGBA"), "WEBP", lossless=True),
    "webp with notes": lambda: turned(1, "WEBP"),
}
"""Pictures of WIDTH x HEIGHT that are taken."""


def data_url(data: bytes, kind: str = "png") -> str:
    """A file as a client sends it."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def segment_of(data: bytes) -> ImageSegment:
    """A file as the main process hands it to the worker."""
    return ImageSegment(image=base64.b64encode(data).decode(), sha256=hashlib.sha256(data).hexdigest())


class Mutator:
    """Makes bytes that are no picture, or hardly: from a seed, the same ones again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._files = [make() for make in STILL.values()] + [moving("PNG"), moving("WEBP")]

    def next(self) -> bytes:
        """Another one: a file with some bytes changed, cut out or put in, or nothing but chance."""
        chance = self._random
        if not chance.randrange(10):
            head = chance.choice([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\x40\0\0\0WEBP"])
            return head + chance.randbytes(chance.randrange(80))
        data = bytearray(chance.choice(self._files))
        for _ in range(chance.choice([1, 1, 2, 5, 40])):
            if not data:
                break
            # Mostly in the header, where the structure is.
            at = chance.randrange(min(len(data), chance.choice([32, 200, 100_000])))
            match chance.randrange(5):
                case 0:
                    data[at] ^= 1 << chance.randrange(8)
                case 1:
                    data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
                case 2:
                    del data[at : at + chance.randrange(40)]
                case 3:
                    data[at:at] = chance.randbytes(chance.randrange(8))
                case _:
                    data = data[:at] if not chance.randrange(4) else data
        return bytes(data)
