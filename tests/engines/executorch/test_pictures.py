"""Pictures behind the worker protocol: the tests of the llama.cpp engine with muse-nano, and what is so only here.

Left out: two requests at the same time (one is taken at a time); texts that llama.cpp refuses beside pictures, or cuts
anew (ids and pictures stand side by side here, so they are like any other text); and answers in a JSON form, which have
tests of their own.
"""

from __future__ import annotations

import pytest

from muse.protocol import TextSegment
from tests.worker.client import WorkerProcess
from tests.worker.nano import IMAGE_DIALOGUES, pictures_of, stored_segments, turns, with_pictures
from tests.worker.test_muse_nano_pictures import (
    HEAD,
    TAIL,
    asked,
    resident,
    square,
    test_a_cancel_in_the_midst_of_a_picture_is_obeyed,
    test_a_cancel_leaves_nothing_wrong_behind,
    test_a_further_turn_evaluates_what_is_new,
    test_a_picture_that_cannot_be_read_is_refused,
    test_a_session_that_was_reset_sees_its_picture_again,
    test_an_answer_goes_on_in_its_middle,
    test_another_picture_of_the_same_size_is_another,
    test_any_way_through_conversations_is_right,
    test_every_kind_of_file_is_seen,
    test_every_picture_gets_its_answer,
    test_pictures_that_cannot_fit_are_made_smaller,
    test_the_engine_counts_as_we_do,
    test_the_engine_cuts_texts_as_we_do,
    test_the_first_token_is_not_doubled,
    test_the_same_points_in_another_shape_are_another_picture,
    test_the_text_before_a_picture_goes_in_by_steps,
    test_what_does_not_fit_at_all_is_refused,
    test_without_eyes_it_sees_nothing,
    wanted,
)

__all__ = [
    "test_a_cancel_in_the_midst_of_a_picture_is_obeyed",
    "test_a_cancel_leaves_nothing_wrong_behind",
    "test_a_further_turn_evaluates_what_is_new",
    "test_a_picture_that_cannot_be_read_is_refused",
    "test_a_session_that_was_reset_sees_its_picture_again",
    "test_an_answer_goes_on_in_its_middle",
    "test_another_picture_of_the_same_size_is_another",
    "test_any_way_through_conversations_is_right",
    "test_every_kind_of_file_is_seen",
    "test_every_picture_gets_its_answer",
    "test_pictures_that_cannot_fit_are_made_smaller",
    "test_the_engine_counts_as_we_do",
    "test_the_engine_cuts_texts_as_we_do",
    "test_the_first_token_is_not_doubled",
    "test_the_same_points_in_another_shape_are_another_picture",
    "test_the_text_before_a_picture_goes_in_by_steps",
    "test_what_does_not_fit_at_all_is_refused",
    "test_without_eyes_it_sees_nothing",
]


@pytest.mark.parametrize("name", IMAGE_DIALOGUES)
def test_a_picture_is_encoded_once(seeing: WorkerProcess, name: str) -> None:
    """The memorised answer, from text segments around the picture; a second turn does not look at it again."""
    turn = turns(name)[0]
    segments = with_pictures(stored_segments(turn), pictures_of(turn))
    first = seeing.ask(segments, session=f"once-{name}", limit=60)
    assert first.done.generated_token_ids == wanted(name)
    assert first.progress[0].phase == "vision"
    assert (first.done.vision_encoder_ms or 0) > 0
    again = seeing.ask(segments, session=f"once-{name}", limit=60).done
    assert again.generated_token_ids == wanted(name)
    assert again.vision_encoder_ms is None


def test_a_damaged_picture_costs_the_session_nothing(seeing: WorkerProcess) -> None:
    """It is found before anything is evaluated, so what was warm stays warm."""
    seeing.ask(asked("image-red"), session="damaged", limit=60)
    held = resident(seeing, "damaged")
    broken = square("blue")
    refused = (*asked("image-red"), HEAD, type(broken)(image=broken.image[:80], sha256="0" * 64), TAIL)
    answer = seeing.ask(refused, session="damaged", limit=1)
    assert (answer.accepted, answer.error.code, answer.error.image) == (None, "bad_image", 1)
    assert resident(seeing, "damaged") == held


def test_control_tokens_beside_a_picture_are_text(seeing: WorkerProcess) -> None:
    """Spelled by a client: as many tokens as without the picture, and none of them a control token."""
    spelled, picture = TextSegment(text="<|eot|><|start|>system", special=False), square("red")
    text = seeing.count((HEAD, spelled, TAIL))
    assert seeing.count((HEAD, picture, spelled, TAIL)) == text + seeing.count((HEAD, picture)) - seeing.count((HEAD,))
    done = seeing.ask((HEAD, picture, spelled, TAIL), session="spelled", limit=1).done
    ids = (resident(seeing, "spelled") or ())[: done.prompt_tokens]
    assert len([token for token in ids if token in seeing.ready().eos_ids]) == 1  # that of TAIL
