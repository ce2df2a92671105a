"""What the llama.cpp engine passes with muse-nano, the native engine passes over the double, at every level.

The tests are those of tests/api, with the servers of conftest.py. Left out is what needs a grammar, or more than one
picture in a prompt: test_server.py shows how that is refused.
"""

from __future__ import annotations

import pytest

from tests.api.test_muse_nano import (
    test_a_client_may_set_the_reasoning_strength,
    test_a_further_turn_is_an_exact_prefix,
    test_a_message_of_one_long_run_is_too_long,
    test_it_says_what_it_knows,
    test_the_receipts_say_what_was_drafted,
)
from tests.api.test_pictures import (
    test_clients_at_the_same_time_see_their_own,
    test_it_says_what_it_sees,
    test_the_official_client_shows_a_picture,
)
from tests.api.test_prompts import (
    test_results_of_tools_are_told_from_what_users_say,
    test_thoughts_of_an_earlier_answer_are_shown,
)
from tests.api.test_tools import (
    test_a_stream_has_each_call_whole_and_in_order,
    test_the_model_calls_and_reads_the_result,
)

pytestmark = pytest.mark.thorough

__all__ = [
    "test_a_client_may_set_the_reasoning_strength",
    "test_a_further_turn_is_an_exact_prefix",
    "test_a_message_of_one_long_run_is_too_long",
    "test_a_stream_has_each_call_whole_and_in_order",
    "test_clients_at_the_same_time_see_their_own",
    "test_it_says_what_it_knows",
    "test_it_says_what_it_sees",
    "test_results_of_tools_are_told_from_what_users_say",
    "test_the_model_calls_and_reads_the_result",
    "test_the_official_client_shows_a_picture",
    "test_the_receipts_say_what_was_drafted",
    "test_thoughts_of_an_earlier_answer_are_shown",
]
