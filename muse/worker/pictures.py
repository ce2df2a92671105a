"""Pictures as the model sees them: decoded, upright, in plain RGB, scaled to whole cells, kept for the next turn.

Pillow does the work, here and not in the main process: decoders are native code that works on files of strangers.
What a file may hold and what becomes of it: the orientation that a camera notes is applied; what is transparent
shows white; grey, palette, CMYK and 16-bit pictures become RGB with 8 bits; colour profiles are ignored (as the model's
reference does); animations and files that end too early are refused. Of a JPEG with several pictures the first counts.

Knows nothing of engines. tests/worker/test_pictures.py proves: any bytes give a picture or EngineFault `bad_image`.
"""

from __future__ import annotations

import base64
import binascii
import io
import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import attrs
from PIL import Image, UnidentifiedImageError
from PIL.Image import Transpose
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from muse.protocol import ImageSegment
from muse.worker.engines.base import EngineFault
from muse.worker.picture_size import CELL, cells_of

MAX_PIXELS: Final = 64 * 1024 * 1024
MAX_SIDE: Final = 32_768
"""Both as the main process checks them before (contracts/vision.md section 1); here is what really bounds memory."""
_KEPT_BYTES: Final = 128 * 1024 * 1024
"""Of scaled pictures. The largest takes about 8 MB, mostly less than 1."""
_KEPT_SIZES: Final = 4096
# Named by their classes, because Pillow, given a list, only knows of what is imported already.
_FORMATS: Final = tuple(str(kind.format) for kind in (JpegImageFile, PngImageFile, WebPImageFile))
_CAN_MOVE: Final = ("PNG", "WEBP")
_ORIENTATION: Final = 0x0112
# EXIF 2.32 section 4.6.4 (A): what has to be done to make the picture upright.
_UPRIGHT: Final = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_TURNED: Final = (5, 6, 7, 8)
_TRANSPARENT: Final = ("RGBA", "LA", "PA", "La", "RGBa")
# Measured with noise of 1.8 million points: 0.3 s at level 1, 0.55 s at the default, and nothing as a BMP. But the
# engine gets it with every turn, and takes longer for the larger BMP (0.45 s a turn against 0.4).
_COMPRESSION: Final = 1
_WHAT_TO_DO: Final = "its file is damaged, so save it anew as PNG or JPEG, or leave it out"


@attrs.frozen(kw_only=True)
class Sized:
    """A picture to be read. width, height: of the upright picture, in pixels."""

    segment: ImageSegment
    width: int
    height: int

    def cells(self, most: int) -> tuple[int, int]:
        """(rows, columns) that it has with at most so many cells."""
        return cells_of(self.width, self.height, most)


class Pictures:
    """Pictures by their sha256. Thread-safe; one is decoded at a time, for a large one takes a gigabyte meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._scaled: OrderedDict[tuple[str, int, int], str] = OrderedDict()
        self._kept_bytes = 0

    def size(self, segment: ImageSegment) -> Sized:
        """Look at the header of a picture. Raises EngineFault `bad_image`."""
        with self._lock:
            known = self._sizes.get(segment.sha256)
            if known is None:
                with _opened(segment) as image:
                    width, height = image.size
                    known = (height, width) if _orientation(image) in _TURNED else (width, height)
                self._sizes[segment.sha256] = known
            self._sizes.move_to_end(segment.sha256)
            if len(self._sizes) > _KEPT_SIZES:
                self._sizes.popitem(last=False)
        return Sized(segment=segment, width=known[0], height=known[1])

    def scaled(self, segment: ImageSegment, rows: int, columns: int) -> str:
        """Base64 of a PNG file with the picture, scaled to so many cells. Raises EngineFault `bad_image`."""
        key = (segment.sha256, rows, columns)
        with self._lock:
            kept = self._scaled.get(key)
            if kept is None:
                kept = self._scaled[key] = _as_file(scaled_image(segment, rows, columns))
                self._kept_bytes += len(kept)
            self._scaled.move_to_end(key)
            while self._kept_bytes > _KEPT_BYTES and len(self._scaled) > 1:
                self._kept_bytes -= len(self._scaled.popitem(last=False)[1])
        return kept


def scaled_image(segment: ImageSegment, rows: int, columns: int) -> Image.Image:
    """A picture in RGB, upright, scaled to so many cells. Raises EngineFault `bad_image`."""
    size = (columns * CELL, rows * CELL)
    with _opened(segment) as image:
        orientation = _orientation(image)
        plain = _to_rgb(image)
        if orientation in _UPRIGHT:
            plain = plain.transpose(_UPRIGHT[orientation])
        if plain.size != size:
            plain = plain.resize(size, Image.Resampling.LANCZOS)  # pyright: ignore[reportUnknownMemberType] - numpy's
        return plain


def _as_file(image: Image.Image) -> str:
    written = io.BytesIO()
    image.save(written, "PNG", compress_level=_COMPRESSION)
    return base64.b64encode(written.getvalue()).decode("ascii")


@contextmanager
def _opened(segment: ImageSegment) -> Generator[Image.Image]:
    """The picture, its pixels not yet read. What goes wrong with it inside the block is EngineFault `bad_image`."""
    try:
        data = base64.b64decode(segment.image, validate=True)
    except (binascii.Error, ValueError) as fault:
        raise EngineFault("bad_image", "a picture is not base64") from fault
    # The size is checked below, as an error; Pillow's own check would mostly be a line on the log.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            _check(image)
            yield image
    except EngineFault:
        raise
    except MemoryError as fault:
        raise EngineFault("bad_image", "a picture is too large for this machine's memory") from fault
    except Exception as fault:  # any: on damaged files Pillow raises whatever its parsers came upon
        # Only of OSError the words are for people, but where no format is known they name an object of Python's.
        is_told = isinstance(fault, OSError) and not isinstance(fault, UnidentifiedImageError)
        reason = f" ({_plain(str(fault))})" if is_told else ""
        raise EngineFault("bad_image", f"a picture cannot be read{reason}: {_WHAT_TO_DO}") from fault


def _check(image: Image.Image) -> None:
    width, height = image.size
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise EngineFault("bad_image", f"a picture of {width} x {height} pixels is too large")
    if image.format in _CAN_MOVE and getattr(image, "n_frames", 1) > 1:
        raise EngineFault("bad_image", "a picture is animated, and only still ones are taken")


def _orientation(image: Image.Image) -> int:
    """How the camera was held, if the file says so before its pixels; notes that cannot be read say nothing."""
    try:
        value: object = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # any, as above: a picture does not depend on its notes
        return 1
    return value if isinstance(value, int) else 1


def _to_rgb(image: Image.Image) -> Image.Image:
    image.load()
    if image.mode.startswith("I"):
        # 16 bits of grey: converting would cut off what is above 255.
        wide = image.convert("I")
        narrow = wide.point(lambda value: value * (1 / 257))  # pyright: ignore[reportUnknownMemberType] - numpy's
        return narrow.convert("L").convert("RGB")
    if image.mode in _TRANSPARENT or "transparency" in image.info:
        layer = image.convert("RGBA")
        plain = Image.new("RGB", layer.size, "white")
        plain.paste(layer, mask=layer.getchannel("A"))
        return plain
    return image.convert("RGB")


def _plain(reason: str) -> str:
    return "".join(char if " " <= char <= "~" else " " for char in reason)[:90].strip(" .")
