"""muse-nano with a spoiled draft, through a real server: it finds the loss by itself and goes on without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from muse.worker.engines.llamacpp.gguf import read_model_file
from tests.server_process import ServerProcess
from tests.worker.nano import DATE, DIALOGUES, DRAFT, MODEL, turns

pytestmark = pytest.mark.thorough

NAMES = ("story", "count", "plan", "german")
MOST_ANSWERS = 200


def spoiled(folder: Path) -> Path:
    """The draft with nothing but zeros in the second half of the file, which is all tensors: it guesses nonsense."""
    path = folder / "spoiled.gguf"
    content = DRAFT.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(len(content) - half))
    assert read_model_file(path).metadata == read_model_file(DRAFT).metadata
    return path


def ask(server: ServerProcess, name: str) -> dict[str, Any]:
    """One answer, which has to be the known one; its receipt."""
    (turn, *_) = turns(name)
    options = {**DIALOGUES[name]["options"], "current_date": DATE}
    body = {"messages": turn["messages"], "chat_template_kwargs": options, "temperature": 0}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == turn["answer"]["message"]["content"]
    return answer.json()["muse_metrics"]


def test_a_draft_that_costs_more_than_it_gives_is_left_out(tmp_path: Path) -> None:
    """Answers stay right before, during and after; none is resumed; a restart by hand tries the draft again."""
    server = ServerProcess(["--model", str(MODEL), "--draft", str(spoiled(tmp_path))], home=tmp_path / "home")
    try:
        server.wait_ready()
        receipts: list[dict[str, Any]] = []
        while not receipts or receipts[-1]["draft_proposed"] is not None:
            receipts.append(ask(server, NAMES[len(receipts) % len(NAMES)]))
            assert len(receipts) < MOST_ANSWERS
        assert all(receipt["resumed"] == 0 for receipt in receipts)
        proposed, accepted = (
            sum(receipt[f"draft_{what}"] or 0 for receipt in receipts) for what in ("proposed", "accepted")
        )
        assert accepted < proposed / 10
        runtime = server.get("/api/runtime").json()
        assert runtime["worker"]["epoch"] == 2
        assert (runtime["draft"]["file"], runtime["draft"]["used"]) == ("spoiled.gguf", False)
        reason = runtime["draft"]["reason"]
        found = re.search(r"costs more than it gives: ([\d.]+) tokens/s with it, at least ([\d.]+) without", reason)
        assert found, reason
        assert float(found[1]) < float(found[2])
        assert f"worker-replaced reason='{reason}'" in server.stderr()
        assert server.post("/api/worker/restart", {}).json() == {"restarting": True}
        server.wait_until(lambda state: state["worker"]["epoch"] == 3 and state["worker"]["state"] == "ready")
        assert ask(server, "story")["draft_proposed"]
    finally:
        assert server.stop() == 0
