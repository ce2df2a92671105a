"""Pictures of a request: from the `image_url` part of a message to a checked value.

A picture comes as a data URL only; nothing is ever fetched. It is known by the sha256 of its bytes. Clients send the
whole conversation with every turn, so a picture that is still in use here is recognised by its text and is the same
object again, without being decoded or read a second time.

tests/unit/test_api_images.py proves: any text gives a Picture or a ClientFault `invalid_image`.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Iterable
from typing import Final
from weakref import WeakValueDictionary

import attrs

from muse.api.fields import Offenders, member, read_object, read_text
from muse.api.image_header import HeaderFault, ImageHeader, ImageKind, read_image_header
from muse.errors import ClientFault
from muse.sizes import IMAGES_BYTES, MIB

MAX_IMAGE_BYTES: Final = 20 * MIB
"""Of one picture's file. The upstream server's limit (contracts/vision.md section 1)."""
MAX_REQUEST_BYTES: Final = IMAGES_BYTES
"""Of all pictures of a request; one that is there twice counts twice."""
MAX_IMAGES: Final = 256
"""In a request. Of the longest context that we serve each would have 512 tokens."""
MAX_SIDE: Final = 32_768
MAX_PIXELS: Final = 64 * MIB
"""Both as upstream's worker: contracts/vision.md section 1."""

_KINDS: Final[dict[str, ImageKind]] = {
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",  # no registered name, but what clients make of a file's ending
    "image/png": "png",
    "image/webp": "webp",
}
# Decoding keeps the interpreter: in pieces, so that the other threads get their turn. 1 MiB takes 3 ms.
_PIECE_CHARS: Final = MIB
_SHOWN_CHARS: Final = 40


@attrs.frozen(kw_only=True)
class Picture:
    """A picture whose header was checked. base64: the file's bytes, canonical. sha256: hex, of these bytes, its
    identity. width, height: pixels as stored."""

    base64: str = attrs.field(eq=False, repr=False)
    sha256: str
    kind: ImageKind = attrs.field(eq=False)
    width: int = attrs.field(eq=False)
    height: int = attrs.field(eq=False)

    @property
    def data_url(self) -> str:
        """As a client may send it."""
        return f"data:image/{self.kind};base64,{self.base64}"


@attrs.frozen(kw_only=True)
class PlacedImage:
    """A picture of a message, before the character `offset` of its text."""

    offset: int
    picture: Picture


def bytes_in_memory(pictures: Iterable[frozenset[Picture]]) -> int:
    """What these sets of pictures cost together; one that is in several is one object and counts once."""
    return sum(len(picture.base64) for picture in frozenset[Picture]().union(*pictures))


# By the digest of the base64 text. Weak: it forgets what no request and no session holds any more.
_known: Final[WeakValueDictionary[bytes, Picture]] = WeakValueDictionary()


class PictureReader:
    """Reads the pictures of one request, and sees that they are not too many."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0

    def read_part(self, value: object, path: str, offenders: Offenders) -> Picture:
        """Read the value of an `image_url` part's `image_url` member.

        Raises ClientFault: `invalid_image` for a picture that is not taken, with the reason. Fields that are not
        taken go to `offenders`.
        """
        fields = read_object(value, path)
        for key, extra in fields.items():
            if key == "detail":
                if extra not in (None, "auto"):
                    offenders.add_unsupported(
                        member(path, key), "must be auto or left out: a picture is seen as large as the model can"
                    )
            elif key != "url":
                offenders.add_unknown(member(path, key))
        url_path = member(path, "url")
        self._count += 1
        if self._count > MAX_IMAGES:
            raise invalid_image(url_path, f"is one picture too many: a request may have {MAX_IMAGES}")
        kind, text = _split_url(read_text(fields.get("url"), url_path), url_path)
        self._bytes += _size(text)
        if self._bytes > MAX_REQUEST_BYTES:
            raise invalid_image(
                url_path, f"goes beyond the {MAX_REQUEST_BYTES // MIB} MiB that all pictures of a request may have"
            )
        picture = _read(text, url_path)
        if picture.kind != kind:
            raise invalid_image(url_path, f"is declared as {kind.upper()}, but its bytes are {picture.kind.upper()}")
        return picture


def invalid_image(path: str, reason: str) -> ClientFault:
    """A picture that cannot be taken. reason: the rest of the sentence."""
    return ClientFault("invalid_image", f"'{path}' {reason}.", param=path)


def _split_url(url: str, path: str) -> tuple[ImageKind, str]:
    head, comma, text = url.partition(",")
    scheme = head.partition(":")[0].lower()
    if scheme in ("http", "https", "file", "ftp", "blob"):
        raise invalid_image(
            path, f"is a {scheme} address, and this server fetches nothing: send the picture itself as a data URL"
        )
    media, _, coding = head[len("data:") :].lower().partition(";")
    if scheme != "data" or not comma or coding != "base64":
        raise invalid_image(path, "must be a data URL such as data:image/png;base64,...")
    if media not in _KINDS:
        raise invalid_image(
            path, f"is declared as {media[:_SHOWN_CHARS]!r}; pictures are taken as image/jpeg, image/png and image/webp"
        )
    return _KINDS[media], text


def _size(text: str) -> int:
    """Bytes that canonical base64 of this length stands for."""
    return len(text) // 4 * 3 - text[-2:].count("=")


def _read(text: str, path: str) -> Picture:
    if _size(text) > MAX_IMAGE_BYTES:
        raise invalid_image(path, f"has more than {MAX_IMAGE_BYTES // MIB} MiB")
    if not text.isascii():
        raise invalid_image(path, "is not base64: it has other characters than the alphabet's")
    digest = hashlib.sha256(text.encode("ascii")).digest()
    known = _known.get(digest)
    if known is not None:
        return known
    data = _decode(text, path)
    if not data:
        raise invalid_image(path, "is empty")
    try:
        header = read_image_header(data)
    except HeaderFault as fault:
        raise invalid_image(path, str(fault)) from fault
    _check_size(header, path)
    picture = Picture(
        base64=text,
        sha256=hashlib.sha256(data).hexdigest(),
        kind=header.kind,
        width=header.width,
        height=header.height,
    )
    _known[digest] = picture
    return picture


def _decode(text: str, path: str) -> bytes:
    """Strict base64 (RFC 4648 section 4): the standard alphabet, padded at its end only, unused bits zero."""
    if "=" in text[:-2]:
        raise invalid_image(path, "is not base64: it goes on behind its padding")
    try:
        data = b"".join(
            binascii.a2b_base64(text[start : start + _PIECE_CHARS], strict_mode=True)
            for start in range(0, len(text), _PIECE_CHARS)
        )
        last = binascii.a2b_base64(text[-4:], strict_mode=True)
    except binascii.Error as fault:
        raise invalid_image(path, f"is not base64: {str(fault)[:1].lower()}{str(fault)[1:]}") from fault
    if binascii.b2a_base64(last, newline=False).decode("ascii") != text[-4:]:
        raise invalid_image(path, "is not base64: bits behind its end are set")
    return data


def _check_size(header: ImageHeader, path: str) -> None:
    for side in (header.width, header.height):
        if not 1 <= side <= MAX_SIDE:
            raise invalid_image(
                path, f"is {header.width} x {header.height} pixels; each side must have 1 to {MAX_SIDE}"
            )
    if header.width * header.height > MAX_PIXELS:
        raise invalid_image(
            path, f"is {header.width} x {header.height} pixels; all together must be at most {MAX_PIXELS:,}"
        )
