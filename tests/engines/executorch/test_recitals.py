"""What the model knows by heart, told by both kinds of artifact: the tests of the llama.cpp engine with muse-nano.

Left out: what is not so here. Going far back finds no checkpoint (test_worker.py shows what is evaluated again), and
the step of a prompt is the program's own, or less (`in_steps` in test_pictures.py).
"""

from __future__ import annotations

from tests.worker.test_draft import (
    test_a_cancelled_answer_says_what_was_drafted,
    test_a_sampled_answer_is_drafted_too,
    test_it_is_said_whether_there_is_a_draft,
    test_what_is_known_by_heart_is_guessed,
)
from tests.worker.test_muse_nano import (
    template,
    test_a_cancelled_prompt_leaves_nothing_wrong_behind,
    test_a_later_prompt_holds_the_exact_ids,
    test_a_long_conversation_stays_warm,
    test_a_second_turn_is_warm_and_the_same,
    test_an_answer_goes_on_in_its_middle,
    test_every_answer_is_the_known_one,
    test_our_template_engine_renders_the_known_prompt,
    test_text_becomes_the_ids_that_were_trained,
    test_text_of_a_client_is_not_the_token_it_spells,
    test_the_same_question_again_costs_one_token,
    test_the_template_is_in_both_forms_of_the_model,
)

__all__ = [
    "template",
    "test_a_cancelled_answer_says_what_was_drafted",
    "test_a_cancelled_prompt_leaves_nothing_wrong_behind",
    "test_a_later_prompt_holds_the_exact_ids",
    "test_a_long_conversation_stays_warm",
    "test_a_sampled_answer_is_drafted_too",
    "test_a_second_turn_is_warm_and_the_same",
    "test_an_answer_goes_on_in_its_middle",
    "test_every_answer_is_the_known_one",
    "test_it_is_said_whether_there_is_a_draft",
    "test_our_template_engine_renders_the_known_prompt",
    "test_text_becomes_the_ids_that_were_trained",
    "test_text_of_a_client_is_not_the_token_it_spells",
    "test_the_same_question_again_costs_one_token",
    "test_the_template_is_in_both_forms_of_the_model",
    "test_what_is_known_by_heart_is_guessed",
]
