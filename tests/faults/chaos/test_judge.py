"""The chaos run's own judgement: each kind of broken answer is noticed, and each error needs its reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, cast

import attrs
import pytest

from tests.faults.chaos.known import SCHEMAS, TIMER, ByHeart, ForcedCall, Form
from tests.faults.chaos.processes import tree_of
from tests.faults.chaos.reading import Said, StreamReader, Wrong, said_of_body
from tests.faults.chaos.rules import RULES, Ending, objection
from tests.faults.chaos.watcher import Watcher, WorkerState
from tests.server_process import PROJECT, ServerProcess, processes_with
from tests.worker.nano import turns

END = ["data: [DONE]"]
STORY = ByHeart.of(turns("story")[0])
CALLS = ByHeart.of(turns("two-calls")[0])


def chunk(delta: dict[str, Any], *, number: int | None = None, **more: Any) -> list[str]:
    """The lines of an event."""
    choice = {"index": 0, "delta": delta, "finish_reason": more.pop("finish", None)}
    data = "data: " + json.dumps({"id": "reply-1", "choices": [choice], **more})
    return [data] if number is None else [f"id: {number}", data]


def ending_chunks(number: int | None = None, finish: str = "stop") -> list[str]:
    """Finish and metrics."""
    metrics = {"completion_tokens": 3, "earlier_tokens": 0, "cancelled": False, "resumed": 0}
    return [*chunk({}, number=number, finish=finish), *chunk({}, number=number, muse_metrics=metrics)]


def read(lines: list[str], *, numbered: bool = False) -> Said:
    """All of a stream."""
    reader = StreamReader(numbered=numbered)
    for line in lines:
        reader.feed(line)
    reader.check_ended()
    return reader.said


ROLE = chunk({"role": "assistant", "content": ""})
HELLO = [*ROLE, *chunk({"reasoning_content": "Hm."}), *chunk({"content": "Hello"})]


def test_a_good_stream_is_read() -> None:
    """Channels, finish reason, metrics, comments between."""
    said = read([*HELLO[:1], ': muse {"phase": "decode"}', *HELLO[1:], *ending_chunks(), *END])
    assert (said.reasoning, said.answer, said.finish, said.ended) == ("Hm.", "Hello", "stop", True)


@pytest.mark.parametrize(
    "lines",
    [
        HELLO,
        [*HELLO, *ending_chunks()],
        [*HELLO, *END],
        [*HELLO, *ending_chunks(), *END, *chunk({"content": "!"})],
        [*HELLO, *ending_chunks(), *chunk({"content": "!"}), *END],
        [*HELLO[1:], *ending_chunks(), *END],
        [*ROLE, *HELLO, *ending_chunks(), *END],
        [*HELLO, "data: {}x", *END],
        [*HELLO, *[line.replace("reply-1", "reply-2") for line in ending_chunks()], *END],
    ],
    ids=["no end", "no DONE", "no finish", "text behind DONE", "text behind finish", "no role", "two roles", "no JSON",
         "two ids"],
)  # fmt: skip
def test_a_broken_stream_is_wrong(lines: list[str]) -> None:
    """Whatever is missing, twice, or in the wrong order."""
    with pytest.raises((Wrong, ValueError)):
        read(lines)


def test_an_error_ends_a_stream() -> None:
    """It takes the place of finish reason and metrics."""
    said = read([*HELLO, 'data: {"error": {"code": "worker_lost", "message": "x"}}', *END])
    assert said.error == {"code": "worker_lost", "message": "x"}


@pytest.mark.parametrize(("second", "is_right"), [(8, True), (7, False), (9, False), (5, False)])
def test_gaps_and_repetitions_show_in_the_positions(second: int, is_right: bool) -> None:
    """Each event's number is the one before and its characters."""
    lines = [*chunk({"role": "assistant", "content": ""}, number=0), *chunk({"content": "Hello"}, number=5)]
    lines += [*chunk({"content": "you"}, number=second), *ending_chunks(8), *END]
    if is_right:
        assert read(lines, numbered=True).position == 8
    else:
        with pytest.raises(Wrong):
            read(lines, numbered=True)


def known_said(want: ByHeart, **changes: Any) -> Said:
    """The answer, or one that differs from it."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(want.calls)
    ]
    metrics = {"completion_tokens": want.tokens, "earlier_tokens": 0, "cancelled": False, "resumed": 0}
    said = Said(
        reasoning=want.reasoning,
        answer=want.answer,
        calls=calls,
        finish="tool_calls" if calls else "stop",
        metrics=metrics,
        ended=True,
    )
    return attrs.evolve(said, **changes)


@pytest.mark.parametrize("want", [STORY, CALLS], ids=["text", "calls"])
def test_every_byte_and_count_matters(want: ByHeart) -> None:
    """The answer passes; what is missing, twice or changed does not."""
    want.check(known_said(want))
    metrics = {"completion_tokens": want.tokens + 1, "earlier_tokens": 0}
    broken = [
        {"reasoning": want.reasoning[:-1]},
        {"answer": want.answer + "."},
        {"finish": "length"},
        {"metrics": metrics},
        {"calls": known_said(CALLS).calls[:1]},
    ]
    for changes in broken:
        with pytest.raises(Wrong):
            want.check(known_said(want, **changes))


def test_the_start_of_an_answer_is_a_start() -> None:
    """A cut answer has no other text, and no answer before all of its reasoning."""
    STORY.check_start(Said(reasoning=STORY.reasoning[:9]))
    STORY.check_start(Said(reasoning=STORY.reasoning, answer=STORY.answer[:9]))
    CALLS.check_start(known_said(CALLS, calls=known_said(CALLS).calls[:1], finish=None))
    for reasoning, answer in (("Take yoUr", ""), (STORY.reasoning[:-1], "Once"), (STORY.reasoning, STORY.answer[1:9])):
        with pytest.raises(Wrong):
            STORY.check_start(Said(reasoning=reasoning, answer=answer))


def test_structured_output_follows_its_schema() -> None:
    """Valid by its schema, and nothing else beside it."""
    good = '{"animal":"fox","legs":4,"wild":true}'
    form = Form(SCHEMAS[0])
    form.check(Said(answer=good, finish="stop"))
    for answer, finish in ((good[:-1], "stop"), (good.replace("4", "11"), "stop"), (good, "length"), ("", "stop")):
        with pytest.raises(Wrong):
            form.check(Said(answer=answer, finish=finish))


def test_a_forced_call_is_one_call() -> None:
    """Of the tool, with arguments by its schema, and no text."""
    arguments = '{"minutes":3,"sound":"bell","note":""}'

    def said(*given: str, **fields: Any) -> Said:
        calls = [{"id": "c", "type": "function", "function": {"name": "set_timer", "arguments": a}} for a in given]
        return Said(calls=calls, **{"finish": "tool_calls", **fields})

    ForcedCall(TIMER).check(said(arguments))
    for broken in (said(), said(arguments, arguments), said("{}"), said(arguments, answer="x")):
        with pytest.raises(Wrong):
            ForcedCall(TIMER).check(broken)


def test_a_whole_body_is_read() -> None:
    """As the same answer in a stream."""
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}], "reasoning_content": "Hm."}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    said = said_of_body({"id": "r", "choices": [choice], "muse_metrics": {"resumed": 1}})
    assert (said.text(), said.finish, said.ended) == (("Hm.", "", [{"id": "c"}]), "tool_calls", True)


CALM = Ending(code="", status=None, retry_after=None, waited_s=1.0, workers_lost=1, had_failed=False, helpers_hurt=0)


@pytest.mark.parametrize(
    ("code", "happened"),
    [
        ("poison_prompt", {"workers_lost": 2}),
        ("worker_lost", {"workers_lost": 3}),
        ("model_unavailable", {"had_failed": True}),
        ("model_loading", {"waited_s": 31.0, "status": 503, "retry_after": "5"}),
        ("template_failed", {"helpers_hurt": 2, "status": 500}),
        ("process_stalled", {"helpers_hurt": 2, "status": 503, "retry_after": "5"}),
        ("no_process", {"helpers_hurt": 3, "status": 503, "retry_after": "5"}),
    ],
)
def test_an_error_needs_its_reason(code: str, happened: dict[str, Any]) -> None:
    """Named only if what it says has happened, and with its own status."""
    ending = attrs.evolve(CALM, code=code, **happened)
    assert objection(ending) is None
    calm = {name: getattr(CALM, name) for name in happened if name not in ("status", "retry_after")}
    assert objection(attrs.evolve(ending, **calm)) is not None
    assert objection(attrs.evolve(ending, status=418)) is not None


def test_what_no_rule_names_is_a_failure() -> None:
    """Whatever has happened; and an error that asks to come again says when."""
    all_bad = attrs.evolve(CALM, workers_lost=9, had_failed=True, helpers_hurt=9, waited_s=99.0)
    for code in ("engine_error", "internal_error", "constrained_reply_lost", "stopping"):
        assert objection(attrs.evolve(all_bad, code=code)) is not None
    assert "Retry-After" in (objection(attrs.evolve(all_bad, code="model_loading", status=503)) or "")


def test_the_table_of_errors_is_the_one_in_the_docs() -> None:
    """Row by row, and nothing else."""
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text[text.index("## Chaos run") :].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{rule.code}` | {rule.status} | {rule.when} |" for rule in RULES]


def test_what_a_worker_was_during_an_answer() -> None:
    """Deaths are counted by the epochs around it, the last one included; `failed` counts when it overlaps."""
    watcher = Watcher(cast("ServerProcess", None))
    epochs = [(0.0, "ready", 1), (10.0, "restarting", 1), (11.0, "ready", 2), (20.0, "failed", 2), (30.0, "ready", 3)]
    watcher.states = [WorkerState(at=at, state=state, epoch=epoch, reason=None) for at, state, epoch in epochs]
    assert [watcher.workers_lost(*times) for times in ((1, 2), (1, 15), (12, 15), (1, 40))] == [1, 2, 1, 3]
    assert [watcher.had_failed(*times) for times in ((1, 15), (12, 22), (22, 25), (32, 40))] == [
        False,
        True,
        True,
        False,
    ]


def test_processes_are_found_by_tree_and_by_mark() -> None:
    """Children of children with their names; by their environment also where their parents are gone."""
    mark = f"CHAOS_MARK={os.getpid()}"
    inner = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print(flush=True); sys.stdin.read()"
    parent = subprocess.Popen(
        [sys.executable, "-c", inner],
        env={**os.environ, "CHAOS_MARK": str(os.getpid())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        parent.stdout.readline()
        (sleeping,) = [process.pid for process in tree_of(parent.pid)]
        assert [process.name for process in tree_of(parent.pid)] == ["sleep"]
        assert processes_with(mark.encode() + b"\0") == {parent.pid, sleeping}
        parent.kill()
        parent.wait()
        assert processes_with(mark.encode() + b"\0") == {sleeping}
        os.kill(sleeping, 9)
    finally:
        parent.stdin.close()
        parent.stdout.close()
        parent.kill()
        parent.wait()
