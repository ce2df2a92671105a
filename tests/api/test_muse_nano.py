"""The tiny model of the real architecture through the whole stack: it answers what it knows by heart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server_process import ServerProcess
from tests.worker.nano import DATE, DIALOGUES, DRAFT, LONG_DIALOGUES, MMPROJ, MODEL, PLAIN_DIALOGUES, turns

pytestmark = pytest.mark.thorough


def answers(server: ServerProcess, name: str, session_id: str | None) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Hold the whole dialogue as a client does: (message, receipt) of each turn."""
    options = {**DIALOGUES[name]["options"], "current_date": DATE, "return_reasoning": True}
    messages: list[dict[str, Any]] = []
    given: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for turn in turns(name):
        messages += turn["messages"]
        body: dict[str, Any] = {"messages": messages, "chat_template_kwargs": options, "temperature": 0}
        if session_id is not None:
            body["session_id"] = session_id
        answer = server.post("/v1/chat/completions", body)
        assert answer.status_code == 200, answer.text
        message = answer.json()["choices"][0]["message"]
        given.append((message, answer.json()["muse_metrics"]))
        messages.append({"role": "assistant", "content": message["content"]})
    return given


@pytest.mark.parametrize("name", PLAIN_DIALOGUES)
def test_it_says_what_it_knows(any_nano_server: ServerProcess, name: str) -> None:
    """Reasoning and answer in their channels, every letter as memorised, no control token in sight."""
    for turn, (message, receipt) in zip(turns(name), answers(any_nano_server, name, f"all-{name}"), strict=True):
        known = turn["answer"]
        assert message["content"] == known["message"]["content"]
        assert message["reasoning_content"] == "\n\n".join(known["reasoning"])
        assert receipt["prompt_tokens"] == len(turn["prompt_ids"])
        assert receipt["completion_tokens"] == len(known["ids"])
        assert (receipt["thinking_tokens"] > 0) == bool(known["reasoning"])


def test_it_says_what_was_loaded(any_nano_server: ServerProcess) -> None:
    """Engine, files with their sizes, what computes and on what, how long the load took, what the draft does."""
    model = any_nano_server.get("/api/runtime").json()["model"]
    first = model["files"][0]
    assert first["part"] == "model"
    assert all(file["size_bytes"] > 0 and "/" not in file["name"] for file in model["files"])
    assert all(model[fact] for fact in ("engine", "engine_version", "device", "context_length", "max_sessions"))
    assert model["load_ms"] > 0
    assert (model["draft_tokens"] is not None) == model["supports"]["draft"]


def test_the_receipts_say_what_was_drafted(any_nano_server: ServerProcess) -> None:
    """More than half of the guesses are right; nothing is said where nothing guesses."""
    runtime = any_nano_server.get("/api/runtime").json()
    receipts = [receipt for name in ("story", "count", "plan") for _, receipt in answers(any_nano_server, name, None)]
    counts = [(receipt["draft_proposed"], receipt["draft_accepted"]) for receipt in receipts]
    if runtime["model"]["supports"]["draft"]:
        if runtime["model"]["engine"] != "executorch":  # whose draft is inside the artifact
            assert runtime["draft"] == {"file": DRAFT.name, "used": True, "reason": None}
        assert sum(accepted for _, accepted in counts) > sum(proposed for proposed, _ in counts) / 2
    else:
        assert runtime["draft"] is None
        assert counts == [(None, None)] * len(receipts)


@pytest.mark.parametrize("name", [name for name in LONG_DIALOGUES if name in PLAIN_DIALOGUES])
def test_a_further_turn_is_an_exact_prefix(any_nano_server: ServerProcess, name: str) -> None:
    """The client hands back the visible answer alone; the reasoning is in the ids, and the window is in order."""
    (_, before), *later = answers(any_nano_server, name, f"warm-{name}")
    for _, receipt in later:
        assert receipt["session_reset_reason"] == "exact_prefix"
        assert receipt["reused_prompt_tokens"] >= before["prompt_tokens"] + before["completion_tokens"] - 1
        before = receipt


def test_a_client_may_set_the_reasoning_strength(any_nano_server: ServerProcess) -> None:
    """OpenAI's name for it reaches the model's own setting: it knows one answer for each."""
    for effort in ("low", "high"):
        (turn,) = turns(f"strength-{effort}")
        body = {
            "messages": turn["messages"],
            "reasoning_effort": effort,
            "chat_template_kwargs": {"current_date": DATE, "return_reasoning": True},
        }
        message = any_nano_server.post("/v1/chat/completions", body).json()["choices"][0]["message"]
        assert message["content"] == turn["answer"]["message"]["content"]


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        ("--draft", MMPROJ, "is no draft"),
        ("--mmproj", DRAFT, "is no image projector"),
        ("--draft", None, "no model file"),
    ],
)
def test_a_wrong_file_fails_at_once(tmp_path: Path, option: str, path: Path | None, words: str) -> None:
    """Another try would change nothing: no second one is made, and the reason is shown."""
    arguments = ["--model", str(MODEL), option, str(path or tmp_path / "missing.gguf")]
    server = ServerProcess(arguments, home=tmp_path / "home")
    try:
        worker = server.wait_state("failed")["worker"]
        assert words in worker["reason"]
        assert worker["epoch"] == 1
    finally:
        assert server.stop() == 0


def test_a_message_of_one_long_run_is_too_long(any_nano_server: ServerProcess) -> None:
    """For the context, not for the engine."""
    refused = any_nano_server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "y" * 60_000}]})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["code"] == "context_length_exceeded"
