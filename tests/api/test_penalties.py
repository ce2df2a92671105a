"""Penalties over HTTP: what they do to an answer, that it goes on alike, and who refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server_process import ServerProcess
from tests.worker.nano import DATE, turns

pytestmark = pytest.mark.thorough

COUNT: dict[str, Any] = {
    "messages": turns("count")[0]["messages"],
    "chat_template_kwargs": {"current_date": DATE},
    "temperature": 0,
    "frequency_penalty": 2.0,
}
"""With these muse-nano says something else than it knows by heart; see tests/worker/test_penalties.py."""


def chat(server: ServerProcess, **body: Any) -> dict[str, Any]:
    """A whole answer."""
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def repeated(text: str) -> float:
    """The share of the text's runs of four words that were there before."""
    words = text.split()
    runs = [tuple(words[start : start + 4]) for start in range(len(words) - 3)]
    return 1 - len(set(runs)) / len(runs)


def test_an_answer_that_repeats_itself_does_so_less(muse_server: ServerProcess) -> None:
    """The built-in model, greedy, comes to write one line over and over; each penalty alone is of use."""
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Write a poem about rain."}], "max_tokens": 120}
    plain = repeated(text_of(chat(muse_server, **asked)))
    assert plain > 0.4
    for penalty in ({"repeat_penalty": 1.3}, {"presence_penalty": 1.5}, {"frequency_penalty": 0.8}):
        assert repeated(text_of(chat(muse_server, **asked, **penalty))) < plain * 0.75


def test_what_is_off_changes_nothing(muse_server: ServerProcess) -> None:
    """As numbers, and as null."""
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Write a poem about rain."}], "max_tokens": 30}
    plain = text_of(chat(muse_server, **asked))
    assert text_of(chat(muse_server, **asked, repeat_penalty=1, presence_penalty=0, frequency_penalty=0.0)) == plain
    assert text_of(chat(muse_server, **asked, repeat_penalty=None, presence_penalty=None)) == plain


def test_a_continued_answer_is_penalised_for_its_beginning(any_nano_server: ServerProcess) -> None:
    """Cut and continued it is the uncut answer, which is not the one without penalties."""
    whole = text_of(chat(any_nano_server, **COUNT))
    assert whole != text_of(chat(any_nano_server, **{**COUNT, "frequency_penalty": 0}))
    cut = chat(any_nano_server, **COUNT, max_tokens=20)
    rest = chat(any_nano_server, muse={"continue": cut["id"]}, temperature=0, frequency_penalty=2.0)
    assert text_of(cut) + text_of(rest) == whole


def test_penalties_are_said_to_be_there(muse_server: ServerProcess) -> None:
    """What the engine can, and what holds where a request is silent."""
    runtime = muse_server.get("/api/runtime").json()
    assert runtime["model"]["supports"]["penalties"] is True
    off = {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert {name: runtime["defaults"][name] for name in off} == off


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_without_penalties_refuses_them_by_name(
    scripted_server: Callable[..., ServerProcess], stream: bool
) -> None:
    """Each that is on; those that are off pass."""
    server = scripted_server({"penalties": False, "answers": [{"tokens": ["fine"]}]})
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "stream": stream}
    for name, value, off in (("repeat_penalty", 1.1, 1), ("presence_penalty", -0.5, 0), ("frequency_penalty", 2, 0)):
        refused = server.post("/v1/chat/completions", {**asked, name: value})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", name)
        assert "scripted" in error["message"]
        assert server.post("/v1/chat/completions", {**asked, name: off}).status_code == 200
