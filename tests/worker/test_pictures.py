"""Pictures in the worker: every kind becomes plain RGB in whole cells, anything else is EngineFault `bad_image`."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator

import pytest
from PIL import Image

from muse.protocol import ImageSegment
from muse.worker import pictures
from muse.worker.engines.base import EngineFault
from muse.worker.pictures import Pictures
from tests.picture_files import (
    HEIGHT,
    STILL,
    WIDTH,
    Mutator,
    moving,
    plain,
    png_claiming,
    saved,
    segment_of,
    turned,
)

ROWS, COLUMNS = 1, 1
WHITE = (255, 255, 255)


@pytest.fixture(autouse=True)
def pillow_may_warn() -> Iterator[None]:
    """Of damaged notes it does; in the worker that is a line on its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def seen(data: bytes, rows: int = 2, columns: int = 3) -> Image.Image:
    """A file as the engine gets it."""
    scaled = Pictures().scaled(segment_of(data), rows, columns)
    return Image.open(io.BytesIO(base64.b64decode(scaled)), formats=["PNG"])


def colour(data: bytes) -> tuple[int, int, int]:
    """What the engine gets where a file has one colour."""
    found = seen(data).getpixel((5, 5))
    assert isinstance(found, tuple)
    red, green, blue = found
    return red, green, blue


def refused(data: bytes) -> str:
    """The reason for which a file is not taken."""
    with pytest.raises(EngineFault) as caught:
        Pictures().scaled(segment_of(data), 1, 1)
    assert caught.value.code == "bad_image"
    return caught.value.message


@pytest.mark.parametrize("kind", STILL)
def test_every_kind_becomes_plain_rgb_in_whole_cells(kind: str) -> None:
    """Its size is that of the file, whatever it becomes."""
    data = STILL[kind]()
    sized = Pictures().size(segment_of(data))
    assert (sized.width, sized.height) == (WIDTH, HEIGHT)
    image = seen(data)
    assert (image.mode, image.size, image.info) == ("RGB", (84, 56), {})


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_turned_as_its_camera_was_held(kind: str, orientation: int) -> None:
    """All eight ways; size and cells are those of the upright picture."""
    data = turned(orientation, kind)
    sized = Pictures().size(segment_of(data))
    upright = orientation < 5
    assert (sized.width, sized.height) == ((WIDTH, HEIGHT) if upright else (HEIGHT, WIDTH))
    rows, columns = 5, 4
    # What Pillow itself makes of it, scaled alike.
    from PIL import ImageOps

    wanted = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    wanted = wanted.convert("RGB").resize((columns * 28, rows * 28), Image.Resampling.LANCZOS)
    assert seen(data, rows, columns).tobytes() == wanted.tobytes()


def test_notes_that_cannot_be_read_turn_nothing() -> None:
    """A picture does not depend on what its file says beside it."""
    data = saved(plain(), "JPEG", exif=b"Exif\0\0" + b"\xff" * 20)
    assert Pictures().size(segment_of(data)).width == WIDTH
    assert seen(data).size == (84, 56)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode: str) -> None:
    """Not the colour that happens to be stored below."""
    hidden = (0,) * (len(mode))
    assert colour(saved(plain(mode, hidden), "PNG")) == WHITE
    half = (*(0,) * (len(mode) - 1), 128)
    assert colour(saved(plain(mode, half), "PNG")) == (127, 127, 127)


def test_a_transparent_colour_of_a_palette_is_white() -> None:
    """Said for one colour of the palette, or for each."""
    image = Image.new("P", (28, 28), 3)
    image.putpalette([0, 0, 0, 9, 9, 9, 8, 8, 8, 200, 0, 0])
    for transparency in (3, bytes([255, 9, 255, 0])):
        assert colour(saved(image, "PNG", transparency=transparency)) == WHITE


def test_sixteen_bits_become_eight() -> None:
    """Grey in the middle stays there."""
    for value, wanted in ((0, 0), (0x8000, 127), (0xFFFF, 255)):
        red, _, _ = colour(saved(plain("I;16", value), "PNG"))
        assert abs(red - wanted) <= 1


def test_cmyk_keeps_its_colours() -> None:
    """Ink is not light."""
    red, green, blue = colour(saved(plain("CMYK", (0, 255, 255, 0)), "JPEG"))
    assert red > 240
    assert max(green, blue) < 15


def test_of_several_pictures_in_a_jpeg_the_first_counts() -> None:
    """Phones write such files for still pictures."""
    two = saved(plain(colour="blue"), "MPO", save_all=True, append_images=[plain(colour="red")])
    assert colour(two)[2] > 250


def test_scaling_is_lanczos_and_whole_cells_are_left_alone() -> None:
    """As the model's reference does it (contracts/vision.md section 2)."""
    image = plain(size=(100, 60))
    data = saved(image, "PNG")
    assert seen(data, 2, 4).tobytes() == image.resize((112, 56), Image.Resampling.LANCZOS).tobytes()
    exact = plain(size=(84, 56))
    assert seen(saved(exact, "PNG"), 2, 3).tobytes() == exact.tobytes()


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_an_animation_is_refused(kind: str) -> None:
    """Whoever let it in."""
    assert "animated" in refused(moving(kind))


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "webp lossless"])
def test_a_file_that_ends_too_early_is_refused(kind: str) -> None:
    """Nowhere is what is missing made up."""
    data = STILL[kind]()
    for length in (0, 1, 11, 30, len(data) // 2, len(data) * 9 // 10):
        refused(data[:length])


@pytest.mark.parametrize("size", [(32_769, 1), (1, 32_769), (16_384, 4_097), (32_768, 32_768), (2**31 - 1, 2**31 - 1)])
def test_a_promise_of_too_many_pixels_is_refused(size: tuple[int, int]) -> None:
    """By the header, before any memory is taken for them."""
    data = png_claiming(*size)
    segment = segment_of(data)
    with pytest.raises(EngineFault) as caught:
        Pictures().size(segment)
    assert caught.value.code == "bad_image"
    refused(data)


def test_too_few_pixels_for_the_promise_are_refused() -> None:
    """A small file that would be a picture of 16 million points."""
    assert "cannot be read" in refused(png_claiming(4096, 4096))


@pytest.mark.parametrize(
    "data", [b"GIF89a" + bytes(40), STILL["png"]()[:-30], STILL["webp"]()[:60], png_claiming(9, 9)]
)
def test_a_damaged_picture_is_told_in_words(data: bytes) -> None:
    """What to do, no names of Python's, and no dots where a sentence goes on."""
    message = refused(data)
    assert message.endswith("or leave it out")
    assert "Error" not in message
    assert "object at" not in message
    assert ".." not in message


def test_what_is_no_base64_is_refused() -> None:
    """The main process has checked it; the worker does not depend on that."""
    with pytest.raises(EngineFault):
        Pictures().size(ImageSegment(image="***", sha256="x"))


def test_a_picture_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again with every turn; another size of it is made anew, and the one used longest ago is forgotten."""
    segment, other = segment_of(STILL["png"]()), segment_of(STILL["jpeg"]())
    store = Pictures()
    first = store.scaled(segment, 2, 3)
    unreadable = ImageSegment(image="***", sha256=segment.sha256)
    assert store.scaled(unreadable, 2, 3) is first
    with pytest.raises(EngineFault):
        store.scaled(unreadable, 3, 2)
    monkeypatch.setattr(pictures, "_KEPT_BYTES", 10)
    store.scaled(other, 2, 3)
    with pytest.raises(EngineFault):
        store.scaled(unreadable, 2, 3)
    assert store.scaled(segment, 2, 3) == first


def fuzz(count: int) -> int:
    """Any bytes: a picture, or EngineFault `bad_image`; gives how many were pictures."""
    mutator = Mutator(count)
    taken = longest = 0
    codes: set[str] = set()
    for _ in range(count):
        data = mutator.next()
        store, segment = Pictures(), segment_of(data)
        try:
            sized = store.size(segment)
            store.scaled(segment, *sized.cells(16))
        except EngineFault as fault:
            codes.add(fault.code)
            longest = max(longest, len(fault.message))
        else:
            taken += 1
    assert codes == {"bad_image"}
    assert longest < 200
    return taken


def test_any_bytes_are_a_picture_or_a_fault() -> None:
    """And both are met."""
    assert 500 < fuzz(5_000) < 4_500


@pytest.mark.slow
def test_many_bytes_are_a_picture_or_a_fault() -> None:
    """The same for longer."""
    assert 10_000 < fuzz(100_000) < 90_000
