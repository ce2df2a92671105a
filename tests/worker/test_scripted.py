"""The protocol loop and the scripted engine: order of events, counts, sessions, cancel, resuming."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.protocol import (
    Accepted,
    Error,
    Generate,
    IdsSegment,
    Loading,
    Open,
    Ping,
    Ready,
    Reset,
    Result,
    Sampling,
    TextSegment,
    Tokens,
)
from muse.protocol_codec import encode_command
from muse.worker.engines.scripted_script import ScriptFault, read_script
from muse.worker.engines.scripted_tokens import ScriptedTokenizer
from tests.worker.client import HANG_S, PROJECT, WorkerProcess, chat

Start = Callable[..., WorkerProcess]
LONG = {"answers": [{"tokens": {"repeat": ["word "], "count": 100_000}, "token_ms": 1}]}


def test_an_answer_keeps_the_order_and_counts(scripted: Start) -> None:
    """accepted, progress, tokens, done; ids and text agree; a character's tokens come with its end."""
    worker = scripted({"answers": [{"tokens": ["It ", "rains ", {"hex": "f09f"}, {"hex": "8eb2"}, "."]}]})
    answer = worker.ask(chat("hi"))
    assert answer.text == "It rains 🎲."
    assert [len(event.ids or ()) for event in answer.tokens] == [1, 1, 2, 1]
    assert answer.done.generated_token_ids == tuple(i for event in answer.tokens for i in event.ids or ())
    assert answer.done.finish_reason == "stop"
    assert answer.accepted
    assert answer.accepted.prompt_tokens == answer.done.prompt_tokens == worker.count(chat("hi"))
    assert answer.progress[-1].processed == answer.progress[-1].total == answer.done.prompt_tokens


def test_loading_comes_before_the_only_ready(scripted: Start) -> None:
    """One ready event, after at least one sign of life."""
    worker = scripted({})
    assert isinstance(worker.events[0], Loading)
    worker.ask(chat("echo"))
    assert sum(isinstance(event, Ready) for event in worker.events) == 1


def test_ping_is_answered_while_loading_and_nothing_else(scripted: Start) -> None:
    """Before ready a request is refused, not lost."""
    worker = scripted({"load_ms": 300_000}, ready=False)
    worker.wait(Loading)
    worker.send(Ping(request_id="p"))
    worker.wait(Result, "p")
    early = worker.start(chat("too early"))
    assert worker.finish(early).error.code == "bad_request"


def test_ping_is_answered_while_a_request_runs(scripted: Start) -> None:
    """The protocol loop never waits for the engine."""
    worker = scripted(LONG)
    running = worker.start(chat("go"))
    worker.wait(Tokens, running)
    worker.send(Ping(request_id="p"))
    worker.wait(Result, "p")


def test_cancel_ends_a_request_and_only_that(scripted: Start) -> None:
    """The other one goes on, and the place is free for the next."""
    worker = scripted(LONG)
    first, second = worker.start(chat("a")), worker.start(chat("b"))
    worker.wait(Tokens, first)
    worker.cancel(first)
    worker.cancel("unknown")
    ended = worker.finish(first).done
    assert ended.finish_reason == "cancelled"
    assert 0 < ended.completion_tokens < 100_000
    third = worker.start(chat("c"))
    worker.wait(Accepted, third)
    worker.wait(Tokens, second)


def test_cancel_in_prefill_sends_no_token(scripted: Start) -> None:
    """A prompt takes its time; a cancel ends it at the next batch."""
    worker = scripted({"prefill_us_per_token": 1000, "answers": [{"tokens": ["never"]}]})
    running = worker.start(chat("x" * 5000))
    worker.wait(Accepted, running)
    worker.cancel(running)
    answer = worker.finish(running)
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.completion_tokens == 0
    assert answer.done.prefilled_prompt_tokens < 5000


def test_more_than_the_slots_is_refused(scripted: Start) -> None:
    """The main process never sends more; if it does, it hears so at once."""
    worker = scripted(LONG)
    for _ in range(2):
        worker.wait(Accepted, worker.start(chat("go")))
    assert worker.ask(chat("third")).error.code == "capacity_exhausted"


def test_a_request_id_under_way_is_refused(scripted: Start) -> None:
    """Two requests of one name could not be told apart."""
    worker = scripted(LONG)
    running = worker.start(chat("go"))
    worker.wait(Tokens, running)
    worker.send(
        Generate(
            request_id=running, session_id=None, prompt_segments=chat("again"), max_new_tokens=1, sampling=Sampling()
        )
    )
    assert worker.wait(Error, running).code == "bad_request"


def test_context_overflow_names_both_numbers(scripted: Start) -> None:
    """An error instead of accepted, with the counts a client needs."""
    worker = scripted({"context_length": 100})
    error = worker.ask(chat("x" * 100)).error
    assert error.code == "context_overflow"
    assert (error.prompt_tokens, error.context_length) == (worker.count(chat("x" * 100)), 100)


def test_budget_and_room_end_an_answer_with_length(scripted: Start) -> None:
    """The smaller of the budget and what is left of the context."""
    worker = scripted({"context_length": 60, "answers": [{"tokens": {"repeat": ["w "], "count": 1000}}]})
    short = worker.ask(chat("hi"), limit=5).done
    full = worker.ask(chat("hi")).done
    none = worker.ask(chat("hi"), limit=0).done
    assert [d.finish_reason for d in (short, full, none)] == ["length"] * 3
    assert [d.completion_tokens for d in (short, full, none)] == [5, 60 - full.prompt_tokens, 0]


def test_sessions_reuse_what_they_share(scripted: Start) -> None:
    """Reuse and its reason follow the ids; a scratch request neither reads nor leaves anything."""
    worker = scripted({"answers": [{"tokens": ["yes"]}]})
    first = worker.ask(chat("one"), session="s").done
    again = worker.ask(chat("one"), session="s").done
    scratch = worker.ask(chat("one")).done
    longer = worker.ask((*chat("one"), IdsSegment(ids=first.generated_token_ids or ()), *chat("two")), session="s").done
    worker.send(Reset(request_id="reset", session_id="s"))
    worker.wait(Result, "reset")
    fresh = worker.ask(chat("one"), session="s").done
    reasons = [d.session_reset_reason for d in (first, again, scratch, longer, fresh)]
    assert reasons == ["new", "rewound", "new", "exact_prefix", "new"]
    assert longer.reused_prompt_tokens == first.prompt_tokens + 1
    assert scratch.reused_prompt_tokens == fresh.reused_prompt_tokens == 0


def test_open_is_answered_and_idempotent(scripted: Start) -> None:
    """Session commands have an empty result."""
    worker = scripted({})
    for request_id in ("o1", "o2"):
        worker.send(Open(request_id=request_id, session_id="s"))
        assert worker.wait(Result, request_id) == Result(request_id=request_id)


@pytest.mark.parametrize("as_text", [False, True], ids=["ids", "text"])
def test_a_begun_answer_is_continued(scripted: Start, as_text: bool) -> None:
    """The rest comes, without a repeated or lost byte, whether the beginning is given as ids or as text."""
    worker = scripted({"answers": [{"tokens": {"repeat": ["a", "b ", "cd"], "count": 60}}]})
    whole = worker.ask(chat("go"))
    assert whole.done.generated_token_ids
    begun = worker.ask(chat("go"), limit=20)
    ids = begun.done.generated_token_ids or ()
    beginning = TextSegment(text=begun.text, special=False) if as_text else IdsSegment(ids=ids)
    rest = worker.ask((*chat("go"), beginning))
    assert begun.text + rest.text == whole.text


def test_answers_are_chosen_by_the_last_user_text(scripted: Start) -> None:
    """The first that fits; without one, the prompt is echoed."""
    worker = scripted({"answers": [{"when": "weather", "tokens": ["sun"]}]})
    assert worker.ask((*chat("the weather?"), *chat("so?"))).text == "so?"
    assert worker.ask((*chat("so?"), *chat("the weather?"))).text == "sun"


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"not json", "bad_request", None),
        (b"[]", "bad_request", None),
        (b'{"op":"generate","request_id":"g"}', "bad_request", "g"),
        (b'{"op":"fly","request_id":"f"}', "unsupported", "f"),
        (b'{"op":"count","request_id":"c","prompt_segments":[{"ids":[999999]}]}', "bad_request", "c"),
        (b'{"op":"count","request_id":"i","prompt_segments":[{"image":"","sha256":""}]}', "unsupported", "i"),
        (b"[" * 100_000, "bad_request", None),
        (b"\xff\xfe", "bad_request", None),
        (b"", "bad_request", None),
    ],
)
def test_bad_lines_are_answered(scripted: Start, line: bytes, code: str, request_id: str | None) -> None:
    """A bad command is an error event, and the worker lives on."""
    worker = scripted({})
    worker.write(line + b"\n")
    error = worker.wait(Error)
    assert (error.code, error.request_id, error.fatal) == (code, request_id, False)
    assert worker.ask(chat("still here")).text == "still here"


def test_a_command_in_small_pieces_is_one_command(scripted: Start) -> None:
    """Lines are split on the newline byte only, wherever the pipe cuts them."""
    worker = scripted({})
    for byte in '{"op":"ping","request_id":"\u2028\u0085"}\n'.encode():
        worker.write(bytes([byte]))
    worker.wait(Result, "\u2028\u0085")


def test_an_unreadable_script_is_a_fatal_error(tmp_path: Path) -> None:
    """With the place of the fault in words, and a status of its own."""
    path = tmp_path / "s.json"
    path.write_text('{"answers":[{"tokens":["a"],"colour":"red"}]}')
    with WorkerProcess("--engine", "scripted", "--script", str(path)) as worker:
        error = worker.wait(Error)
        assert error.fatal
        assert "colour" in error.message
        assert worker.wait_exit() == 3


@pytest.mark.parametrize("arguments", [(), ("--engine", "x"), ("--engine", "llamacpp"), ("--engine", "scripted")])
def test_wrong_arguments_end_with_a_usage_text(arguments: tuple[str, ...]) -> None:
    """Status 2 and a reason on stderr."""
    with WorkerProcess(*arguments) as worker:
        assert worker.wait_exit() == 2
        worker.stop()
        assert b"usage:" in worker.stderr


@pytest.mark.parametrize("phase", ["load", "idle", "prefill", "decode"])
def test_end_of_input_ends_the_worker_in_every_phase(scripted: Start, phase: str) -> None:
    """Exit status 0, promptly (the hang guard of the client is the only clock here)."""
    slow_load, slow_prefill = 300_000 * (phase == "load"), 1_000_000 * (phase == "prefill")
    worker = scripted({**LONG, "load_ms": slow_load, "prefill_us_per_token": slow_prefill}, ready=phase != "load")
    if phase in {"prefill", "decode"}:
        worker.wait(Accepted if phase == "prefill" else Tokens, worker.start(chat("go")))
    worker.end_of_input()
    assert worker.wait_exit() == 0


def test_shutdown_ends_requests_and_the_worker(scripted: Start) -> None:
    """Status 0, no answer."""
    worker = scripted(LONG)
    worker.wait(Tokens, worker.start(chat("go")))
    worker.shutdown()
    assert worker.wait_exit() == 0


def test_a_worker_nobody_reads_ends(tmp_path: Path) -> None:
    """The main process holds the other end of the output; without it there is nobody to answer."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(LONG))
    command = [sys.executable, "-m", "muse.worker", "--engine", "scripted", "--script", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT) as worker:
        assert worker.stdin
        assert worker.stdout
        while b'"ready"' not in worker.stdout.readline():
            pass
        go = Generate(
            request_id="g", session_id=None, prompt_segments=chat("go"), max_new_tokens=None, sampling=Sampling()
        )
        worker.stdin.write(encode_command(go))
        worker.stdin.flush()
        worker.stdout.close()
        assert worker.wait(HANG_S) == 0


@settings(deadline=None)
@given(st.lists(st.text(max_size=20), max_size=5), st.booleans())
def test_the_tokeniser_is_reversible(texts: list[str], special: bool) -> None:
    """Ids stand for the bytes of the text, and plain text never yields a control token."""
    tokenizer = ScriptedTokenizer(["<|end|>", "<|start|>"])
    text = "<|start|>".join(texts)
    ids = tokenizer.encode(text, special=special)
    assert tokenizer.decode(ids) == text.encode("utf-8", "replace")
    assert special or max(ids, default=0) < 256


@pytest.mark.parametrize(
    "script",
    ["[", "[]", '{"slots":"two"}', '{"answers":[{"tokens":[""]}]}', '{"faults":[{"at":"noon","do":"exit"}]}'],
)
def test_a_wrong_script_is_refused(tmp_path: Path, script: str) -> None:
    """A script with a slip must not silently do something else."""
    path = tmp_path / "s.json"
    path.write_text(script)
    with pytest.raises(ScriptFault, match=r"s\.json"):
        read_script(path)


def test_a_script_may_be_empty(tmp_path: Path) -> None:
    """Everything has a default."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps({}))
    assert read_script(path).answers == ()
