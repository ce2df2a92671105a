"""Pictures through the whole stack: the tests of the llama.cpp engine.

Left out: texts that are refused beside pictures (here they stay what they are).
"""

from __future__ import annotations

from tests.api.test_picture_tokens import test_the_limits_of_pictures_are_told
from tests.api.test_pictures import (
    ask,
    asking,
    coloured,
    test_a_cancel_while_it_looks,
    test_a_cut_answer_goes_on,
    test_a_further_turn_is_an_exact_prefix,
    test_a_model_that_is_blind_refuses_pictures,
    test_a_replaced_picture_is_seen,
    test_a_session_shows_its_pictures,
    test_a_wrong_file_is_refused_with_its_place,
    test_clients_at_the_same_time_see_their_own,
    test_it_says_what_it_sees,
    test_the_answer_goes_on_when_its_worker_dies,
    test_the_official_client_shows_a_picture,
    test_what_cannot_fit_at_all_is_refused,
)
from tests.api.test_prompts import test_a_picture_has_its_size_and_its_tokens
from tests.server_process import ServerProcess

__all__ = [
    "test_a_cancel_while_it_looks",
    "test_a_cut_answer_goes_on",
    "test_a_further_turn_is_an_exact_prefix",
    "test_a_model_that_is_blind_refuses_pictures",
    "test_a_picture_has_its_size_and_its_tokens",
    "test_a_replaced_picture_is_seen",
    "test_a_session_shows_its_pictures",
    "test_a_wrong_file_is_refused_with_its_place",
    "test_clients_at_the_same_time_see_their_own",
    "test_it_says_what_it_sees",
    "test_the_answer_goes_on_when_its_worker_dies",
    "test_the_limits_of_pictures_are_told",
    "test_the_official_client_shows_a_picture",
    "test_what_cannot_fit_at_all_is_refused",
]

MOST_CELLS = 256
"""Of one picture, in a stand-in."""


def test_many_pictures_are_made_smaller_and_it_is_said(seeing_server: ServerProcess) -> None:
    """Twenty of the largest would take 5,120 tokens, and 4,096 is all that the context holds."""
    large = coloured("green", 700, 700)
    _, receipt = ask(seeing_server, [asking(large)], max_tokens=1)
    assert MOST_CELLS < receipt["prompt_tokens"] < 2 * MOST_CELLS
    assert (receipt["images_scaled"], receipt["vision_encoder_ms"] > 0) == (0, True)
    price = seeing_server.get("/api/picture-tokens?width=700&height=700").json()
    assert price["rows"] * price["columns"] <= MOST_CELLS < price["tokens"] + 3
    assert receipt["context"]["images"] == price["tokens"]
    assert seeing_server.get("/api/runtime").json()["model"]["max_image_cells"] == MOST_CELLS
    _, receipt = ask(seeing_server, [asking(large)] * 20, max_tokens=1)
    assert receipt["images_scaled"] == 20
    assert 10 * MOST_CELLS < receipt["prompt_tokens"] < 15 * MOST_CELLS
