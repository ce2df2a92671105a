"""What a picture will cost, told beforehand, and what a client may know of the limits of pictures."""

from __future__ import annotations

import pytest

from muse.api.images import MAX_IMAGE_BYTES, MAX_IMAGES, MAX_PIXELS, MAX_REQUEST_BYTES, MAX_SIDE
from muse.worker.picture_size import FRAME
from tests.server_process import ServerProcess


@pytest.mark.parametrize(
    ("width", "height", "cells"), [(1, 1, 1), (225, 225, 64), (512, 512, 361), (1000, 2500, 3240), (6000, 6000, 4096)]
)
def test_the_price_is_that_of_the_prompt(nano_server: ServerProcess, width: int, height: int, cells: int) -> None:
    """A token each cell (contracts/vision.md section 2), and two around the picture."""
    answer = nano_server.get(f"/api/picture-tokens?width={width}&height={height}").json()
    assert answer["tokens"] == cells + FRAME
    assert answer["rows"] * answer["columns"] == cells


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("", "width"),
        ("width=0&height=1", "width"),
        ("width=1", "height"),
        ("width=1&height=-1", "height"),
        ("width=1&height=1.5", "height"),
        ("width=%D9%A1&height=1", "width"),
        (f"width={MAX_SIDE + 1}&height=1", "width"),
        (f"width={MAX_SIDE}&height={MAX_SIDE}", "height"),
    ],
)
def test_a_size_that_no_picture_has_is_refused(nano_server: ServerProcess, query: str, param: str) -> None:
    """By the name of the side, in the usual form."""
    answer = nano_server.get(f"/api/picture-tokens?{query}")
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == ("invalid_value", param)


def test_the_limits_of_pictures_are_told(nano_server: ServerProcess) -> None:
    """So that a page can refuse at once what a request would be refused for."""
    assert nano_server.get("/api/runtime").json()["limits"]["pictures"] == {
        "max_bytes": MAX_IMAGE_BYTES,
        "max_total_bytes": MAX_REQUEST_BYTES,
        "max_count": MAX_IMAGES,
        "max_side": MAX_SIDE,
        "max_pixels": MAX_PIXELS,
    }
