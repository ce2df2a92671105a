"""The faults the scripted engine commits on demand: each does what its name says, at its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from muse.protocol import Accepted, Done, Error, Ping, Progress, Ready, Result, Tokens
from tests.worker.client import WorkerProcess, chat, group_members, wait_for

Start = Callable[..., WorkerProcess]
WORDS = ["a ", "b ", "c ", "d "]


def answer_with(*faults: dict[str, object], **script: object) -> dict[str, object]:
    return {"answers": [{"tokens": WORDS, "faults": list(faults)}], **script}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"at": "start", "do": "exit", "status": 1}, 1),
        ({"at": "load", "do": "exit", "status": 0}, 0),
        ({"at": "load", "do": "signal", "signal": "SIGSEGV"}, -signal.SIGSEGV),
        ({"at": "ready", "do": "exit", "status": 5}, 5),
        ({"at": "idle", "ms": 10, "do": "signal", "signal": "SIGKILL"}, -signal.SIGKILL),
    ],
)
def test_death_outside_requests(scripted: Start, fault: dict[str, object], status: int) -> None:
    """The worker ends in the phase and in the way the script says."""
    worker = scripted({"faults": [fault]}, ready=False)
    assert worker.wait_exit() == status
    seen_ready = worker.next(lambda e: isinstance(e, Ready)) is not None
    assert seen_ready == (fault["at"] in {"ready", "idle"})


@pytest.mark.parametrize("token", [0, 2])
def test_death_before_a_token(scripted: Start, token: int) -> None:
    """Exactly the tokens before it were sent."""
    worker = scripted(answer_with({"at": "token", "token": token, "do": "signal", "signal": "SIGABRT"}))
    worker.start(chat("go"))
    assert worker.wait_exit() == -signal.SIGABRT
    worker.stop()
    assert "".join(e.text for e in worker.events if isinstance(e, Tokens)) == "".join(WORDS[:token])


def test_death_in_prefill(scripted: Start) -> None:
    """After the progress that reached the place, before any token."""
    worker = scripted(answer_with({"at": "prefill", "processed": 100, "do": "exit", "status": 9}))
    worker.start(chat("x" * 500))
    assert worker.wait_exit() == 9
    worker.stop()
    assert [e.processed for e in worker.events if isinstance(e, Progress)] == [64, 128]


def test_an_idle_worker_waits_for_its_counter(scripted: Start, tmp_path: Path) -> None:
    """A fault that was used up is committed as soon as its counter is gone, and not before."""
    counter = tmp_path / "count"
    counter.write_text("x")
    fault = {"at": "idle", "do": "exit", "status": 3, "counter": str(counter), "times": 1}
    worker = scripted(answer_with(faults=[fault]))
    answer = worker.ask(chat("go"))
    assert answer.text == "".join(WORDS)
    assert counter.read_text() == "x"
    counter.unlink()
    assert worker.wait_exit() == 3
    assert counter.read_text() == "x"


def test_a_counted_fault_comes_so_often_in_all(scripted: Start, tmp_path: Path) -> None:
    """The counter outlives the worker: the second one answers to the end, from where the first broke off."""
    fault = {"at": "token", "token": 2, "do": "exit", "counter": str(tmp_path / "count"), "times": 1}
    first = scripted(answer_with(fault))
    first.start(chat("go"))
    assert first.wait_exit() == 1
    assert scripted(answer_with(fault)).ask(chat("go")).text == "".join(WORDS)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("garbage_line", b"Loading weights: 42%|####\n"),
        ("invalid_utf8", b'{"event":"tokens","text":"\xff\xfe"}\n'),
        ("empty_line", b"\n"),
        ("unknown_event", b'{"event":"weather","sun":true}\n'),
    ],
)
def test_bad_lines_are_written_as_they_are(scripted: Start, kind: str, line: bytes) -> None:
    """Between two events, and the answer goes on."""
    worker = scripted(answer_with({"at": "token", "token": 1, "do": kind}))
    assert worker.ask(chat("go")).text == "".join(WORDS)
    assert line in worker.lines
    assert len(worker.faults) == 1


def test_half_line_swallows_the_next_event(scripted: Start) -> None:
    """What follows a half line cannot be read any more."""
    worker = scripted(answer_with({"at": "token", "token": 3, "do": "half_line"}))
    worker.ask(chat("go"))
    assert len(worker.faults) == 1


def test_huge_line_has_the_size_asked_for(scripted: Start) -> None:
    """Larger than any reader accepts."""
    worker = scripted(answer_with({"at": "token", "do": "huge_line", "bytes": 5_000_000}))
    worker.ask(chat("go"))
    assert max(map(len, worker.lines)) > 5_000_000


def test_events_for_a_stranger(scripted: Start) -> None:
    """A well-formed event whose request nobody made."""
    worker = scripted(answer_with({"at": "token", "do": "unknown_request"}))
    worker.ask(chat("go"))
    assert any(isinstance(e, Tokens) and e.request_id == "never-asked" for e in worker.events)


@pytest.mark.parametrize(("kind", "late"), [("duplicate_done", Done), ("tokens_after_done", Tokens)])
def test_events_after_the_end(scripted: Start, kind: str, late: type[Done | Tokens]) -> None:
    """One more event of a request that is over."""
    worker = scripted(answer_with({"at": "token", "do": kind}))
    request_id = worker.start(chat("go"))
    worker.wait(Done, request_id)
    worker.wait(late, request_id)


def test_ready_twice(scripted: Start) -> None:
    """The same ready event again."""
    worker = scripted({"faults": [{"at": "ready", "do": "ready_twice"}]})
    assert worker.ready() == worker.wait(Ready)


def test_stdout_closed_while_alive(scripted: Start) -> None:
    """The output ends, the process does not."""
    worker = scripted({"faults": [{"at": "ready", "do": "close_stdout"}]})
    assert worker.next() is None
    assert worker.process.poll() is None


def test_a_grandchild_holds_the_output(scripted: Start) -> None:
    """The pipe of a dead worker stays open until the guard ends the grandchild."""
    worker = scripted({"faults": [{"at": "ready", "do": "grandchild"}, {"at": "idle", "ms": 200, "do": "exit"}]})
    assert worker.wait_exit() == 1
    assert worker.next() is None
    wait_for(lambda: not group_members(worker.process.pid))


def test_hang_of_a_request_leaves_ping(scripted: Start) -> None:
    """Only the request hangs."""
    worker = scripted(answer_with({"at": "token", "do": "hang", "request": True}))
    worker.wait(Accepted, worker.start(chat("go")))
    worker.send(Ping(request_id="p"))
    worker.wait(Result, "p")


@pytest.mark.parametrize("phase", ["load", "ready"])
@pytest.mark.parametrize("kind", ["hang", "stop_reading"])
def test_a_hung_worker_reads_nothing_more(scripted: Start, kind: str, phase: str) -> None:
    """The stdin pipe fills up and is never emptied."""
    worker = scripted({"faults": [{"at": phase, "do": kind}]}, ready=False)
    if phase == "ready":
        worker.ready()  # not a command of those who ask at once is heard
    else:
        wait_for(lambda: b"scripted fault" in worker.stderr)
    assert worker.process.stdin
    fd = worker.process.stdin.fileno()
    os.set_blocking(fd, False)

    def is_full() -> bool:
        try:
            os.write(fd, b'{"op":"ping","request_id":"p"}\n' * 1000)
        except BlockingIOError:
            return True
        return False

    wait_for(is_full)
    assert not any(isinstance(event, Result) for event in worker.events)


def test_cancel_may_be_ignored(scripted: Start) -> None:
    """The answer goes on to its end."""
    script = {"answers": [{"tokens": WORDS, "token_ms": 30, "faults": [{"at": "start", "do": "ignore_cancel"}]}]}
    worker = scripted(script)
    running = worker.start(chat("go"))
    worker.wait(Accepted, running)
    worker.cancel(running)
    assert worker.wait(Done, running).finish_reason == "stop"


def test_death_at_a_cancel(scripted: Start) -> None:
    """The moment between the cancel and its done event."""
    faults = [{"at": "cancel", "do": "exit", "status": 8}]
    worker = scripted({"answers": [{"tokens": {"repeat": ["w"], "count": 10_000}, "token_ms": 5, "faults": faults}]})
    running = worker.start(chat("go"))
    worker.wait(Tokens, running)
    worker.cancel(running)
    assert worker.wait_exit() == 8


def test_fatal_error_event(scripted: Start) -> None:
    """An error of the worker as a whole."""
    worker = scripted({"faults": [{"at": "idle", "do": "error_fatal"}]})
    error = worker.wait(Error)
    assert error.fatal
    assert error.request_id is None


def test_prints_cannot_reach_the_protocol(scripted: Start) -> None:
    """A library that writes to stdout writes to stderr, and the answer is whole."""
    worker = scripted(answer_with({"at": "token", "do": "print_stdout"}, {"at": "token", "do": "stderr_flood"}))
    assert worker.ask(chat("go")).text == "".join(WORDS)
    assert worker.faults == []
    worker.stop()
    assert b"flood" in worker.stderr
