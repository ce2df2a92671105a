"""The whole stack over this engine: the API tests of the other engine that need muse-nano, and what is only here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from muse.worker.hardware import processor_name
from tests.api.test_muse_nano import (
    test_a_client_may_set_the_reasoning_strength,
    test_a_further_turn_is_an_exact_prefix,
    test_a_message_of_one_long_run_is_too_long,
    test_it_says_what_it_knows,
    test_it_says_what_was_loaded,
    test_the_receipts_say_what_was_drafted,
)
from tests.api.test_tools import (
    test_a_stream_has_each_call_whole_and_in_order,
    test_the_model_calls_and_reads_the_result,
)
from tests.engines.executorch.conftest import Artifact
from tests.faults.server import read_stream
from tests.server_process import PROJECT, ServerProcess, worker_group_of
from tests.worker.nano import DATE, turns

__all__ = [
    "test_a_client_may_set_the_reasoning_strength",
    "test_a_further_turn_is_an_exact_prefix",
    "test_a_message_of_one_long_run_is_too_long",
    "test_a_stream_has_each_call_whole_and_in_order",
    "test_it_says_what_it_knows",
    "test_it_says_what_was_loaded",
    "test_the_model_calls_and_reads_the_result",
    "test_the_receipts_say_what_was_drafted",
]


def test_runtime_shows_engine_and_backend(any_nano_server: ServerProcess) -> None:
    """With versions, for the page and for people."""
    model = any_nano_server.get("/api/runtime").json()["model"]
    assert model["engine"] == "executorch"
    assert model["backend"] == "XNNPACK (CPU)"
    assert model["device"] == processor_name()
    assert "torch" in model["engine_version"]
    assert model["supports"]["grammar"] is True


def test_an_answer_goes_on_after_the_worker_was_killed(any_nano_server: ServerProcess) -> None:
    """The stream ends with the memorised text, every letter of it, and says that it was resumed."""
    turn = turns("story")[0]
    body = {
        "chat_template_kwargs": {"current_date": DATE, "return_reasoning": True},
        "temperature": 0,
        "messages": turn["messages"],
        "stream": True,
    }
    seen: list[str] = []
    with any_nano_server.stream_chat(**body) as response:
        lines = response.iter_lines()
        for line in lines:
            seen.append(line)
            if '"content":"' in line.replace(" ", "") and '"content":""' not in line.replace(" ", ""):
                break
        _guard, worker = worker_group_of(any_nano_server.pid)
        os.kill(worker, signal.SIGKILL)
        whole = read_stream(lines, seen)
    assert whole.text == turn["answer"]["message"]["content"]
    assert whole.metrics is not None
    assert whole.metrics["resumed"]


def test_the_overhead_of_a_cycle_is_printed(artifact: Artifact) -> None:
    """`muse bench engine` measures every setting; the budget itself is for idle machines and the real vocabulary."""
    command = [sys.executable, "-m", "muse", "bench", "--model", str(artifact("dflash")), "engine", "--cycles", "20"]
    outcome = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert "dflash program, vocabulary 512" in outcome.stdout, outcome.stderr
    assert len([line for line in outcome.stdout.splitlines() if "greedy" in line or "temperature" in line]) == 8
