"""Conversations through the whole stack: the official client, sessions, and answers that are cut, closed and gone on.

Partly the tests of the llama.cpp engine. There a request without a session leaves a named one warm; here it takes the
one cache, so these tests are of their own.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.test_openai_client import (
    client,
    test_a_prompt_that_does_not_fit_is_a_400_with_counts,
    test_a_stream_equals_the_whole_answer,
    test_a_whole_answer_with_usage_and_metrics,
    test_closing_the_stream_frees_the_engine,
    test_errors_arrive_as_the_clients_own_classes,
    test_models_lists_the_loaded_model,
    test_stop_strings_end_the_answer,
    test_the_same_seed_gives_the_same_answer,
    test_without_include_usage_no_chunk_has_usage,
)
from tests.api.test_prompts import (
    document,
    of_kind,
    test_an_edited_answer_is_a_clients_text,
    test_control_tokens_in_a_users_text_are_that_text,
    test_results_of_tools_are_told_from_what_users_say,
    test_thoughts_of_an_earlier_answer_are_shown,
)
from tests.api.test_replies import events, text_of
from tests.server_process import HANG_GUARD_S, ServerProcess, read_until
from tests.worker.nano import DATE, turns

__all__ = [
    "client",
    "test_a_prompt_that_does_not_fit_is_a_400_with_counts",
    "test_a_stream_equals_the_whole_answer",
    "test_a_whole_answer_with_usage_and_metrics",
    "test_an_edited_answer_is_a_clients_text",
    "test_closing_the_stream_frees_the_engine",
    "test_control_tokens_in_a_users_text_are_that_text",
    "test_errors_arrive_as_the_clients_own_classes",
    "test_models_lists_the_loaded_model",
    "test_results_of_tools_are_told_from_what_users_say",
    "test_stop_strings_end_the_answer",
    "test_the_same_seed_gives_the_same_answer",
    "test_thoughts_of_an_earlier_answer_are_shown",
    "test_without_include_usage_no_chunk_has_usage",
]

Messages = list[dict[str, Any]]
OPTIONS = {"current_date": DATE, "return_reasoning": True}


@pytest.fixture(scope="module")
def server(muse_server: ServerProcess) -> ServerProcess:
    """One for all of them."""
    return muse_server


@pytest.fixture(scope="module")
def nano_server(muse_server: ServerProcess) -> ServerProcess:
    """It answers texts like any other."""
    return muse_server


def asked(name: str) -> dict[str, Any]:
    """The question of a dialogue."""
    return turns(name)[0]["messages"][0]


def known(name: str) -> str:
    """The answer to it."""
    return turns(name)[0]["answer"]["message"]["content"]


def said(name: str) -> dict[str, Any]:
    return {"role": "assistant", "content": known(name)}


def ask(server: ServerProcess, messages: Messages, **fields: Any) -> dict[str, Any]:
    """One whole answer."""
    body = {"messages": messages, "temperature": 0, "chat_template_kwargs": OPTIONS, **fields}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def answer_to(server: ServerProcess, messages: Messages, name: str, **fields: Any) -> dict[str, Any]:
    """The receipt of an answer, which has to be that of a dialogue."""
    answer = ask(server, messages, **fields)
    assert answer["choices"][0]["message"]["content"] == known(name)
    return answer["muse_metrics"]


# ------------------------------------------------------------ sessions


def test_a_further_turn_costs_only_its_own_tokens(server: ServerProcess) -> None:
    """The exact ids stand for the answer, thoughts included, so the whole first turn is a prefix."""
    first = answer_to(server, [asked("hello")], "hello", session_id="warm")
    second = answer_to(server, [asked("hello"), said("hello"), asked("joke")], "joke", session_id="warm")
    before = first["prompt_tokens"] + first["completion_tokens"]
    assert second["session_reset_reason"] == "exact_prefix"
    assert second["reused_prompt_tokens"] in (before, before - 1)  # the last one may not be evaluated yet
    assert second["prefilled_prompt_tokens"] == second["prompt_tokens"] - second["reused_prompt_tokens"]
    assert "read only what is new" in second["session_reset_explanation"]
    shown = server.get("/v1/sessions/warm").json()
    assert (shown["turns"], shown["exact_turns"]) == (2, 2)
    assert shown["resident_tokens"] - second["prompt_tokens"] - second["completion_tokens"] in (0, -1)


def test_an_edited_answer_keeps_what_is_before_it(server: ServerProcess) -> None:
    """The first turn stays; the changed answer is read as the client wrote it, and later turns are exact again."""
    first = answer_to(server, [asked("fruit")], "fruit", session_id="edit")
    edited = [asked("fruit"), {"role": "assistant", "content": "Pear, of course."}, asked("thanks")]
    second = ask(server, edited, session_id="edit")
    assert second["muse_metrics"]["session_reset_reason"] == "rewound"
    assert second["muse_metrics"]["reused_prompt_tokens"] >= first["prompt_tokens"] - 4
    content = second["choices"][0]["message"]["content"]
    assert content
    third = ask(server, [*edited, {"role": "assistant", "content": content}, asked("sum")], session_id="edit")
    assert third["muse_metrics"]["session_reset_reason"] == "exact_prefix"
    assert server.get("/v1/sessions/edit").json()["exact_turns"] == 2


def test_regenerating_and_going_back_read_nothing_but_the_end(server: ServerProcess) -> None:
    """The same history once more costs its last token; an older question costs itself."""
    answer_to(server, [asked("sum")], "sum", session_id="again")
    again = answer_to(server, [asked("sum")], "sum", session_id="again")
    assert (again["session_reset_reason"], again["prefilled_prompt_tokens"]) == ("rewound", 1)
    answer_to(server, [asked("sum"), said("sum"), asked("story")], "story", session_id="again")
    other = answer_to(server, [asked("sum"), said("sum"), asked("joke")], "joke", session_id="again")
    assert other["session_reset_reason"] == "rewound"
    assert other["prefilled_prompt_tokens"] < len(turns("joke")[0]["prompt_ids"])


def test_sessions_that_take_turns_are_right_and_cold(server: ServerProcess) -> None:
    """There is one cache: whoever comes back reads all again but what both begin with, and is warm after that."""
    answer_to(server, [asked("fruit")], "fruit", session_id="one")
    answer_to(server, [asked("name")], "name", session_id="two")
    assert server.get("/v1/sessions/one").json()["resident_tokens"] == 0
    history = [asked("fruit"), said("fruit"), asked("joke")]
    back = answer_to(server, history, "joke", session_id="one")
    assert back["session_reset_reason"] == "new"
    assert server.get("/v1/sessions/one").json()["exact_turns"] == 2
    last = answer_to(server, [*history, said("joke"), asked("thanks")], "thanks", session_id="one")
    assert last["session_reset_reason"] == "exact_prefix"
    answer_to(server, [asked("list")], "list")
    cold = answer_to(
        server, [*history, said("joke"), asked("thanks"), said("thanks"), asked("sum")], "sum", session_id="one"
    )
    assert cold["session_reset_reason"] == "new"


@pytest.mark.parametrize(("method", "path"), [("POST", "/reset"), ("DELETE", "")])
def test_what_is_forgotten_is_read_again(server: ServerProcess, method: str, path: str) -> None:
    """By a reset and by a close, in the worker and in the history."""
    answer_to(server, [asked("code")], "code", session_id="gone")
    done = httpx.request(method, f"{server.url}/v1/sessions/gone{path}", json={}, timeout=HANG_GUARD_S)
    assert done.status_code == 200
    assert server.get("/v1/sessions/gone").status_code == 404
    receipt = answer_to(server, [asked("code")], "code", session_id="gone")
    assert receipt["session_reset_reason"] == "new"
    if path:
        assert receipt["reused_prompt_tokens"] == 0


def test_a_history_that_was_changed_is_what_the_model_reads(server: ServerProcess) -> None:
    """Between two requests, by the session's own address."""
    answer_to(server, [asked("fruit")], "fruit", session_id="put")
    edited = [asked("fruit"), {"role": "assistant", "content": "Plum."}]
    put = httpx.put(f"{server.url}/v1/sessions/put", json={"messages": edited}, timeout=HANG_GUARD_S)
    assert put.json() == {"session_id": "put", "messages": 2}
    receipt = answer_to(server, [*edited, asked("joke")], "joke", session_id="put")
    assert receipt["session_reset_reason"] == "rewound"
    assert server.get("/v1/sessions/put").json()["exact_turns"] == 1


def test_a_dead_worker_costs_warmth_but_no_history(server: ServerProcess) -> None:
    """After a restart the ids are sent again, and the turn after that is warm again."""
    history = [asked("city"), {"role": "assistant", "content": known("city")}, turns("city")[1]["messages"][0]]
    answer_to(server, history[:1], "city", session_id="restart")
    epoch = server.wait_ready()["worker"]["epoch"]
    assert server.post("/api/worker/restart", {}).status_code == 200
    server.wait_until(lambda state: state["worker"]["epoch"] > epoch and state["worker"]["state"] == "ready")
    cold = ask(server, history, session_id="restart")
    assert cold["muse_metrics"]["session_reset_reason"] == "new"
    assert cold["choices"][0]["message"]["content"] == turns("city")[1]["answer"]["message"]["content"]
    assert cold["usage"]["prompt_tokens"] == len(turns("city")[1]["prompt_ids"])
    history += [cold["choices"][0]["message"], turns("city")[2]["messages"][0]]
    warm = ask(server, history, session_id="restart")["muse_metrics"]
    assert warm["session_reset_reason"] == "exact_prefix"


def test_clients_at_the_same_time_get_their_own(server: ServerProcess) -> None:
    """One runs, the others wait: of one session, of others, of none."""
    names = ("fruit", "sum", "joke", "hello", "name", "list")
    sessions = ("same", "same", "other", None, "same", None)
    with ThreadPoolExecutor(len(names)) as pool:
        receipts = list(
            pool.map(
                lambda pair: answer_to(
                    server, [asked(pair[0])], pair[0], **({"session_id": pair[1]} if pair[1] else {})
                ),
                zip(names, sessions, strict=True),
            )
        )
    assert max(receipt["queue_ms"] for receipt in receipts) > 0


# ------------------------------------------------------------ answers that are cut, closed, gone on


def test_a_cut_answer_is_continued(server: ServerProcess) -> None:
    """By its ids, twice, to its end; the prompt shows what it goes on from, and the session has the whole."""
    cut = ask(server, [asked("count")], session_id="cut", max_tokens=50)
    assert cut["choices"][0]["finish_reason"] == "length"
    body = {"muse": {"continue": cut["id"]}, "temperature": 0}
    more = server.post("/v1/chat/completions", {**body, "max_tokens": 50}).json()
    seen = document(server, more["id"], more["muse_metrics"])
    (begun,) = of_kind(seen, "begun")
    assert begun["tokens"] == 50 == more["muse_metrics"]["context"]["begun"]
    assert begun["text"].endswith(cut["choices"][0]["message"]["content"])
    end = server.post("/v1/chat/completions", {"muse": {"continue": more["id"]}, "temperature": 0}).json()
    texts = [answer["choices"][0]["message"]["content"] for answer in (cut, more, end)]
    assert "".join(texts) == known("count")
    assert sum(answer["usage"]["completion_tokens"] for answer in (cut, more, end)) == len(
        turns("count")[0]["answer"]["ids"]
    )
    assert more["muse_metrics"]["reused_prompt_tokens"] >= cut["usage"]["total_tokens"] - 1
    assert server.get("/v1/sessions/cut").json()["messages"][-1]["content"] == known("count")


@pytest.mark.parametrize("tokens", [34, 35, 36])
def test_an_answer_cut_inside_a_character_goes_on_whole(server: ServerProcess, tokens: int) -> None:
    """Of three tokens each; the beginning of one is generated again."""
    cut = ask(server, [asked("japanese")], max_tokens=tokens)
    rest = server.post("/v1/chat/completions", {"muse": {"continue": cut["id"]}, "temperature": 0}).json()
    texts = [answer["choices"][0]["message"]["content"] for answer in (cut, rest)]
    assert all(texts)
    assert "".join(texts) == known("japanese")


def test_a_detached_answer_is_read_on_where_the_connection_was_lost(server: ServerProcess) -> None:
    """Nothing twice, nothing lost."""
    fields = {"temperature": 0, "chat_template_kwargs": OPTIONS, "muse": {"detached": True}}
    with server.stream_chat(messages=[asked("story")], **fields) as stream:
        reply_id = stream.headers["muse-reply-id"]
        seen = events(iter(read_until(stream.iter_lines(), '"content":"O')))
    last = max(number for number, _ in seen if number is not None)
    rest = events(iter(server.get(f"/api/replies/{reply_id}?after={last}").text.splitlines()))
    assert text_of(seen) + text_of(rest) == known("story")
    server.wait_idle()


def test_thinking_that_uses_the_whole_budget_says_so(server: ServerProcess) -> None:
    """Cut, with no answer text, and the receipt shows where the tokens went."""
    answer = ask(server, [asked("story")], max_tokens=12)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == ""
    assert answer["usage"]["completion_tokens"] == 12
    assert 0 < answer["muse_metrics"]["thinking_tokens"] <= 12


def test_a_budget_beyond_the_room_is_cut_and_one_beyond_the_context_refused(server: ServerProcess) -> None:
    """The receipt says what became of it."""
    receipt = answer_to(server, [asked("fruit")], "fruit", max_tokens=4096)
    assert receipt["max_tokens_cut_to"] == 4096 - receipt["prompt_tokens"]
    refused = server.post("/v1/chat/completions", {"messages": [asked("fruit")], "max_tokens": 2**40})
    assert refused.status_code == 400
    assert refused.json()["error"]["context_length"] == 4096


def test_a_client_that_does_not_read_holds_nobody_up(server: ServerProcess) -> None:
    """Its answer is made, the next client gets its own, and all of it is there when it is read."""
    fields = {"temperature": 0, "chat_template_kwargs": OPTIONS}
    others: list[dict[str, Any]] = []
    with server.stream_chat(messages=[asked("count")], **fields) as stream:
        other = threading.Thread(target=lambda: others.append(answer_to(server, [asked("joke")], "joke")))
        other.start()
        other.join(HANG_GUARD_S)
        assert len(others) == 1
        assert text_of(events(stream.iter_lines())) == known("count")
