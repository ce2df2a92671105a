"""Who has the program, and until when: with lines that are made up, at any pace."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from muse.attention import TICK_S, Attention
from muse.protocol import PatchLevel
from muse.worker.child import Child
from muse.worker.engines.base import CancelToken, EngineFault
from muse.worker.engines.native import exchange
from muse.worker.engines.native.exchange import Exchange, Link, Refused
from muse.worker.engines.native.lines import Cancelled, NativeLines
from muse.worker.engines.native.program import NativeProgram
from muse.worker.engines.native.wire import ErrorLine, Line, OpDone, Terminal, TokenLine
from tests.native.doubles import make_artifact, make_program
from tests.native.test_double import LONG
from tests.worker.client import HANG_S, wait_for

END = Terminal(
    prompt_tokens=1, completion_tokens=1, finish_reason="stop", reused_prompt_tokens=0, prefilled_prompt_tokens=1,
    ids=(1,), prefill_ms=0, decode_ms=0, total_ms=0, prefill_tok_s=0, decode_tok_s=0, vision_encoder_ms=None,
    cancelled=False,
)  # fmt: skip
MANY = 20_000


class MadeUpLines:
    """Lines that are there at once, a cancel among them; the answer to a fence where one was asked for."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._cancelled = False
        self._fence = ""
        self.written: list[bytes] = []
        self.jumped_s = 0.0
        self.now = Attention(lambda: time.monotonic() + self.jumped_s).now

    def expect_silence(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.written.append(data)
        if b'"reset"' in data:
            self._fence = data.split(b'"')[-2].decode()

    def next(self, timeout_s: float | None = None) -> Line | Cancelled | None:
        del timeout_s
        if self._fence:
            name, self._fence = self._fence, ""
            return OpDone(op="reset", session_id=name)
        if self._cancelled:
            self._cancelled = False
            return Cancelled()
        return next(self._lines, None)

    def mark_cancelled(self) -> None:
        self._cancelled = True


class Around:
    """What an exchange tells to others."""

    def __init__(self, lines: Iterator[Line], level: PatchLevel, drain_s: float = 60.0) -> None:
        self.lines = MadeUpLines(lines)
        self.told: list[str] = []
        self.is_over = threading.Event()
        self.exchange = Exchange(
            Link(
                lines=cast(NativeLines, self.lines),
                patch_level=level,
                control_fd=-1,
                drain_s=drain_s,
                give_back=self._tell("given back"),
                overdue=self._tell("overdue"),
                broken=self._tell("broken"),
            )
        )

    def _tell(self, word: str) -> Callable[..., None]:
        def tell(*_: Any) -> None:
            self.told.append(word)
            self.is_over.set()

        return tell

    def generate(self, on_text: Callable[[str], None], *, cancelled: bool) -> Terminal | None:
        cancel = CancelToken()
        if cancelled:
            cancel.set()
        return self.exchange.generate({}, on_text, cancel, lambda _end: self.told.append("ended"))


def chatter() -> Iterator[Line]:
    yield from (TokenLine("a") for _ in range(MANY))
    yield END


@pytest.mark.parametrize("level", ["unpatched", "cancel_op"])
def test_one_that_never_pauses_is_given_no_more_time(level: PatchLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always a further line, so waiting for one never ends by itself; the grace does."""
    monkeypatch.setattr(exchange, "CANCEL_GRACE_S", 0.0)
    around = Around(chatter(), level)
    heard: list[str] = []
    assert around.generate(heard.append, cancelled=True) is None
    assert len(heard) < MANY
    assert around.exchange.is_handed_on
    assert around.is_over.wait(60)
    assert around.told == ["ended", "given back"]
    assert b"fence-" in around.lines.written[-1]


def test_what_goes_on_without_a_pause_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for the thread that reads the rest."""
    monkeypatch.setattr(exchange, "CANCEL_GRACE_S", 0.0)
    around = Around(chatter(), "unpatched", drain_s=0.0)
    assert around.generate(lambda _text: None, cancelled=True) is None
    assert around.is_over.wait(60)
    assert around.told == ["overdue"]


def test_a_fault_of_ours_within_an_answer_ends_the_engine() -> None:
    """The rest of the answer is still to come, and would be the next one's."""

    def fail(_text: str) -> None:
        raise KeyError

    around = Around(chatter(), "cancel_op")
    with pytest.raises(EngineFault) as caught:
        around.generate(fail, cancelled=False)
    assert caught.value.fatal
    assert "KeyError" in caught.value.message


def test_a_cancel_is_fenced_off() -> None:
    """Before the next request can be written: what a late cancel leaves behind is read till the fence's answer."""
    around = Around(iter([END]), "cancel_op")
    assert around.generate(lambda _text: None, cancelled=True) == END
    _request, cancel, fence = around.lines.written
    assert cancel == b'{"op":"cancel"}\n'
    assert b"fence-" in fence


def test_an_error_is_fenced_off() -> None:
    """It may be the answer to the request, and that to its cancel is still to come; or the other way round."""
    around = Around(iter([ErrorLine(message="no", code=None, session_id=None)]), "cancel_op")
    with pytest.raises(Refused):
        around.generate(lambda _text: None, cancelled=True)
    assert b"fence-" in around.lines.written[-1]


@pytest.mark.parametrize(
    "answer", [OpDone(op="open", session_id="other"), OpDone(op="close", session_id="s"), TokenLine("a"), END]
)
def test_the_answer_to_another_command_ends_the_engine(answer: Line) -> None:
    """Its own names command and conversation."""
    around = Around(iter([answer]), "unpatched")
    with pytest.raises(EngineFault) as caught:
        around.exchange.op("open", "s")
    assert caught.value.fatal


def test_an_absence_of_the_worker_is_no_time_of_the_program() -> None:
    """Stopped for a minute between a cancel and the end that it brought: the end is read, nothing is overdue."""

    def lines() -> Iterator[Line]:
        yield TokenLine("a")
        around.lines.jumped_s += 60.0
        yield TokenLine("b")
        yield END

    around = Around(lines(), "cancel_op", drain_s=5.0)
    assert around.generate(lambda _text: None, cancelled=True) == END
    assert around.told == []


class Silent:
    """A program whose output is a queue."""

    def __init__(self) -> None:
        self.queue: queue.Queue[bytes | None] = queue.Queue()
        self.lines = iter(self.queue.get, None)


def test_a_line_is_waited_for_in_time_of_the_workers_own() -> None:
    """A minute's absence is none of it; without one the wait ends, and a line that is there is always taken."""
    child = Silent()
    lines = NativeLines(cast(Child, child))
    jumped_s = 0.0
    lines.now = Attention(lambda: time.monotonic() + jumped_s).now  # type: ignore[misc]

    def absence() -> None:
        nonlocal jumped_s
        time.sleep(0.1)  # the wait has begun
        jumped_s = 60.0
        time.sleep(1.5 * TICK_S)  # so that whoever waits looks at the time once more
        child.queue.put(b'{"token":"a"}')

    threading.Thread(target=absence).start()
    assert isinstance(lines.next(5.0), TokenLine)
    assert lines.next(0.0) is None
    assert lines.next(0.01) is None
    child.queue.put(None)


def test_what_was_said_before_a_death_is_told_before_it(tmp_path: Path) -> None:
    """However long it takes to be read: the program has been dead for a while when its first word is taken."""
    artifact = make_artifact(tmp_path)
    told: list[str] = []
    lost = threading.Event()

    def take(text: str) -> None:
        if not told:
            wait_for(lambda: program.cpu_seconds() is None)
        told.append(text)

    def note_loss(fault: EngineFault, returncode: int) -> None:
        told.append(f"{fault.code} {returncode}")
        lost.set()

    program = NativeProgram(note_loss, told.append)
    command = [
        str(make_program(tmp_path, dies_at=3)),
        f"--model_path={artifact / 'model.pte'}",
        f"--tokenizer_path={artifact / 'tokenizer.json'}",
        "--bos_id=500",
        "--eos_id=501",
    ]
    program.start(command, 4, lambda _fraction, _stage: None)
    with program.turn(CancelToken()) as turn:
        assert turn is not None
        with pytest.raises(EngineFault, match="closed its pipes"):
            turn.generate({"prompt": LONG}, take, CancelToken(), lambda _end: None)
    assert lost.wait(HANG_S)
    assert program._child is not None
    with program._child._process:  # closes its pipes
        pass
    assert program._link is not None
    os.close(program._link.control_fd)
    assert (len(told), told[-1]) == (4, "engine_error -11")
