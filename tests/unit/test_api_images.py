"""Pictures in a request: what is taken, what each refusal says, and that nothing else can come of any text."""

from __future__ import annotations

import base64
import gc
import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from muse.api import images
from muse.api.fields import Offenders
from muse.api.image_header import HeaderFault, read_image_header
from muse.api.images import Picture, PictureReader
from muse.errors import ClientFault
from tests.picture_files import HEIGHT, STILL, WIDTH, Mutator, data_url, moving, png_chunk, png_claiming

PATH = "messages[0].content[1].image_url"


def read(url: object, reader: PictureReader | None = None, **fields: object) -> Picture:
    offenders = Offenders()
    picture = (reader or PictureReader()).read_part({"url": url, **fields}, PATH, offenders)
    offenders.raise_if_any()
    return picture


def refusal(url: object, **fields: object) -> str:
    """Why a picture is not taken."""
    with pytest.raises(ClientFault) as caught:
        read(url, **fields)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_image", f"{PATH}.url")
    return caught.value.detail


@pytest.mark.parametrize("kind", STILL)
def test_every_kind_is_taken_with_the_size_in_its_header(kind: str) -> None:
    """As Pillow reads it."""
    data, family = STILL[kind](), kind.split(maxsplit=1)[0]
    picture = read(data_url(data, family))
    assert (picture.kind, picture.width, picture.height) == (family, WIDTH, HEIGHT)
    assert base64.b64decode(picture.base64) == data
    assert read(picture.data_url) == picture


def test_the_declared_type_must_be_that_of_the_bytes() -> None:
    """`image/jpg` is what some clients call it."""
    jpeg = STILL["jpeg"]()
    assert read(data_url(jpeg, "jpg")).kind == "jpeg"
    assert read(data_url(jpeg, "JPEG")).kind == "jpeg"
    assert "declared as PNG, but its bytes are JPEG" in refusal(data_url(jpeg, "png"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://localhost/a.png", "fetches nothing"),
        ("https://example.com/a.png", "fetches nothing"),
        ("HTTPS://example.com/a.png", "fetches nothing"),
        ("file:///etc/passwd", "fetches nothing"),
        ("/etc/passwd", "must be a data URL"),
        ("", "must be a data URL"),
        ("data:", "must be a data URL"),
        ("data:image/png,AAAA", "must be a data URL"),
        ("data:image/png;charset=utf-8;base64,AAAA", "must be a data URL"),
        ("data:image/gif;base64,R0lGODlhAQABAAAAACw=", "'image/gif'"),
        ("data:image/svg+xml;base64,AAAA", "'image/svg+xml'"),
        ("data:image/png;base64,", "is empty"),
        ("data:image/png;base64,***", "not base64"),
        ("data:image/png;base64,AA", "not base64"),
        ("data:image/png;base64,AAAAA", "not base64"),
        ("data:image/png;base64,AA==AAAA", "behind its padding"),
        ("data:image/png;base64,AA==\n", "not base64"),
        ("data:image/png;base64,A A=", "not base64"),
        ("data:image/png;base64,AB==", "bits behind its end"),
        ("data:image/png;base64,A-_=", "not base64"),
        ("data:image/png;base64,ÄÄÄÄ", "other characters"),
        ("data:image/png;base64,AA==", "no JPEG, PNG or WebP"),
        (data_url(b"\x89PNG\r\n\x1a\n"), "cut off"),
        (data_url(b"\xff\xd8\xff", "jpeg"), "cut off"),
        (data_url(b"\xff\xd8\xff\xd9\xff", "jpeg"), "no frame"),
        (data_url(b"RIFF\xff\0\0\0WEBPVP8 ", "webp"), "cut off"),
        (data_url(png_claiming(0, 5)), "each side must have"),
        (data_url(png_claiming(5, 0)), "each side must have"),
        (data_url(png_claiming(32_769, 1)), "each side must have"),
        (data_url(png_claiming(8_192, 8_193)), "all together"),
        (data_url(moving("PNG")), "animated"),
        (data_url(moving("WEBP"), "webp"), "animated"),
    ],
)
def test_what_is_refused_and_why(url: str, reason: str) -> None:
    """Always as `invalid_image`, with the place in the request."""
    assert reason in refusal(url)


def test_the_largest_pictures_are_taken() -> None:
    """64 Mi pixels, and 32,768 on a side."""
    for size in ((8_192, 8_192), (32_768, 2_048), (1, 32_768)):
        picture = read(data_url(png_claiming(*size)))
        assert (picture.width, picture.height) == size


def test_detail_is_auto_or_nothing() -> None:
    """There is one size in which a picture is seen; other wishes and unknown fields are refused by name."""
    url = data_url(STILL["png"]())
    assert read(url, detail="auto") == read(url, detail=None)
    for detail in ("high", "low", 1):
        with pytest.raises(ClientFault) as caught:
            read(url, detail=detail)
        assert (caught.value.code, caught.value.param) == ("unsupported_parameter", f"{PATH}.detail")
    with pytest.raises(ClientFault) as caught:
        read(url, format="png")
    assert (caught.value.code, caught.value.param) == ("unknown_parameter", f"{PATH}.format")


@pytest.mark.parametrize("value", [None, "data:image/png;base64,AA==", [], 5, {"url": None}, {"url": 5}, {}])
def test_a_part_of_another_shape_is_a_wrong_type(value: object) -> None:
    """The address stands in an object, as a string."""
    with pytest.raises(ClientFault) as caught:
        PictureReader().read_part(value, PATH, Offenders())
    assert caught.value.code == "invalid_type"


def test_a_picture_may_have_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 MiB, here a little less; counted before anything is decoded."""
    data = STILL["png"]()
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", len(data))
    assert read(data_url(data)).width == WIDTH
    for more in (1, 2, 3):
        assert "more than" in refusal(data_url(data + bytes(more)))


def test_pictures_of_a_request_may_have_so_many_bytes_and_be_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there twice counts twice."""
    data = STILL["png"]()
    monkeypatch.setattr(images, "MAX_REQUEST_BYTES", 2 * len(data))
    monkeypatch.setattr(images, "MAX_IMAGES", 3)
    reader = PictureReader()
    assert read(data_url(data), reader) == read(data_url(data), reader)
    with pytest.raises(ClientFault, match="all pictures of a request"):
        read(data_url(data), reader)
    monkeypatch.setattr(images, "MAX_REQUEST_BYTES", 1_000_000)
    reader = PictureReader()
    for _ in range(3):
        read(data_url(data), reader)
    with pytest.raises(ClientFault, match="one picture too many"):
        read(data_url(data), reader)


def test_a_picture_that_comes_again_is_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its header being read again, as long as anybody has it; then it is forgotten."""
    url = data_url(STILL["png"]() + b"of this test")
    first = read(url)
    with monkeypatch.context() as patched:
        patched.setattr(images, "read_image_header", None)
        assert read(url) is first
        assert read(url.replace("image/png", "IMAGE/PNG")) is first
    del first
    gc.collect()
    monkeypatch.setattr(images, "read_image_header", read_image_header)
    assert read(url).width == WIDTH


def test_pictures_are_equal_by_their_bytes() -> None:
    """Two files of the same picture are two pictures; their text is in no log."""
    one, other = (read(data_url(STILL["png"]() + end)) for end in (b"", b"more"))
    assert one != other
    assert one.base64 not in repr(one)


def test_the_text_of_a_picture_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the other threads get their turn; the pieces make the whole."""
    monkeypatch.setattr(images, "_PIECE_CHARS", 8)
    data = STILL["webp"]()
    assert base64.b64decode(read(data_url(data, "webp")).base64) == data
    assert "not base64" in refusal("data:image/png;base64,AAAAAAAAAAAA*AAA")


def test_a_header_behind_many_pieces_is_not_looked_for() -> None:
    """A file of nothing but tiny chunks costs no time."""
    start = png_claiming(1, 1)[:33]
    with pytest.raises(HeaderFault, match="too many pieces"):
        read_image_header(start + png_chunk(b"tEXt", b"") * 20_000)
    with pytest.raises(HeaderFault, match="too many pieces"):
        read_image_header(b"\xff\xd8" + b"\xff\xfe\x00\x02" * 20_000)


def outcome(url: str) -> str:
    """What comes of an address."""
    try:
        return read(url).kind
    except ClientFault as fault:
        return fault.code


@given(data=st.binary(max_size=60), kind=st.sampled_from(["png", "jpeg", "webp"]))
def test_any_bytes_are_a_picture_or_a_fault(data: bytes, kind: str) -> None:
    """With and without the beginning of a picture."""
    for head in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\x01\0\0\0WEBPVP8X"):
        assert outcome(data_url(head + data, kind)) in {kind, "invalid_image"}


@given(text=st.text(max_size=40))
def test_any_text_is_refused_as_a_picture(text: str) -> None:
    """As an address, and behind the beginning of one."""
    for url in (text, f"data:{text}", f"data:image/png;base64,{text}"):
        assert outcome(url) == "invalid_image"


def fuzz(count: int) -> tuple[int, int]:
    """Damaged files: how many have a header, and in how many Pillow, too, sees what it says."""
    mutator = Mutator(count)
    taken = agreed = 0
    for _ in range(count):
        data = mutator.next()
        try:
            header = read_image_header(data)
        except HeaderFault:
            continue
        taken += 1
        with suppress(Exception):  # any: it is not Pillow that is under test
            agreed += Image.open(io.BytesIO(data)).size == (header.width, header.height)
    return taken, agreed


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_have_a_header_or_a_fault() -> None:
    """Where there is one, Pillow mostly reads the same from it."""
    taken, agreed = fuzz(5_000)
    assert 500 < agreed <= taken < 4_800


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_damaged_files_have_a_header_or_a_fault() -> None:
    """The same for longer."""
    taken, agreed = fuzz(100_000)
    assert 10_000 < agreed <= taken < 96_000
