"""What its owner asks of the program, and its answers: session commands, requests, their cancel.

The lines carry no request ids, so every line must be known to belong to whoever owns the program now, or the program
cannot be trusted any more (contracts/worker-protocol.md sections 1 and 12). The rules that make it so:
- one owner at a time (program.py), who alone writes and reads; a request is written after the end of the one before
  was read and every cancel for that one was written;
- a line that comes while nobody asked, or that answers something else, ends the engine;
- after a cancel, and after an error line, a session command with a name of its own is asked and answered before
  anything else (`_fence`): what comes before that answer is left over, and no later request can get it;
- whoever fails within an answer, for whatever reason, ends the engine: the rest of that answer is still to come.

A cancel is told in the way that the ready line names, or cannot be. What then does not end soon goes on without its
request: a thread reads the rest and owns the program for so long. Waiting longer than a load takes would be worse than
a load, so then `overdue` is called, and the worker is to be replaced.
"""

from __future__ import annotations

import itertools
import os
import threading
import traceback
from collections.abc import Callable
from typing import Any, Final

import attrs

from muse.protocol import PatchLevel
from muse.worker.engines.base import CancelToken, EngineFault
from muse.worker.engines.native.lines import Cancelled, NativeLines, distrust
from muse.worker.engines.native.wire import (
    CANCEL_LINE,
    ErrorLine,
    Line,
    Op,
    OpDone,
    Terminal,
    TokenLine,
    cancel_bytes,
    op_line,
    request_line,
)

CANCEL_GRACE_S: Final = 1.5
"""How long a request that was told to end is waited for: less than the 2 s after which whoever watches this worker
takes a cancel for not obeyed (actors/supervisor/watchdog.py)."""

Over = Callable[[Terminal | None], None]
"""Hears the end of a request that went on by itself; None: it failed."""

_numbers = itertools.count(1)
"""Of requests, for the control pipe, and of fences: growing, never used twice."""


class Refused(Exception):
    """The program answered with an error line."""

    def __init__(self, line: ErrorLine) -> None:
        super().__init__(line.message)
        self.line = line


@attrs.frozen(kw_only=True)
class Link:
    """The running program, as far as an exchange must know it. control_fd: of the control pipe. drain_s: how long the
    rest of a cancelled request may take. give_back: somebody else may own the program. overdue: it takes longer; does
    not return to business as usual. broken: hears of a fatal fault in a thread that nobody waits for."""

    lines: NativeLines
    patch_level: PatchLevel
    control_fd: int
    drain_s: float
    give_back: Callable[[], None]
    overdue: Callable[[str], None]
    broken: Callable[[EngineFault], None]


class Exchange:
    """The program while it is somebody's own. is_handed_on: a thread that reads the rest of a request has it now."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lines = link.lines
        self.is_handed_on = False

    def op(self, op: Op, session_id: str) -> ErrorLine | None:
        """Run a session command; gives the error line if it failed. Raises EngineFault."""
        self._lines.expect_silence()
        self._lines.write(op_line(op, session_id))
        line = self._lines.next()
        if line == OpDone(op=op, session_id=session_id):
            return None
        if isinstance(line, ErrorLine) and line.session_id in (None, session_id):
            return line
        return distrust(f"a {type(line).__name__} came in answer to {op}")

    def generate(
        self, request: dict[str, Any], on_text: Callable[[str], None], cancel: CancelToken, over: Over
    ) -> Terminal | None:
        """Run a request. None: it was cancelled and goes on by itself, and so does the program's ownership; `over` will
        hear its end. Raises Refused, EngineFault."""
        lines = self._lines
        lines.expect_silence()
        number = next(_numbers)
        if self._link.patch_level == "control_pipe":
            request = {**request, "cancel_request_id": number}
        lines.write(request_line(request))
        try:
            return self._answer(number, on_text, cancel, over)
        except (Refused, EngineFault):
            raise
        except Exception as fault:  # any: see the last rule above
            traceback.print_exc()
            distrust(f"its answer could not be followed ({type(fault).__name__})")

    def _answer(self, number: int, on_text: Callable[[str], None], cancel: CancelToken, over: Over) -> Terminal | None:
        lines = self._lines
        told, cancelled_at = False, 0.0
        with cancel.hook(lines.mark_cancelled):
            while True:
                left_s = cancelled_at + CANCEL_GRACE_S - lines.now() if cancelled_at else None
                match self._next_within(left_s, waits=told):
                    case TokenLine(text):
                        on_text(text)
                    case Cancelled():
                        cancelled_at = lines.now()
                        told = self._tell_cancel(number)
                    case Terminal() as end:
                        break
                    case ErrorLine() as line:
                        self._fence()
                        raise Refused(line)
                    case OpDone():
                        distrust("an OpDone came in an answer")
                    case None:
                        self._hand_on(cancelled_at + self._link.drain_s, over)
                        return None
        if told:
            self._fence()
        return end

    def _next_within(self, left_s: float | None, *, waits: bool) -> Line | Cancelled | None:
        """The next line if it comes in time (None: at any), or is there already. One that never pauses gets no more
        time than one that is silent."""
        if left_s is None:
            return self._lines.next()
        return self._lines.next(left_s if waits else 0.0) if left_s > 0 else None

    def _tell_cancel(self, number: int) -> bool:
        """Cancel the running request; false if this program cannot be told."""
        match self._link.patch_level:
            case "unpatched":
                return False
            case "cancel_op":
                self._lines.write(CANCEL_LINE)
            case "control_pipe":
                try:
                    os.write(self._link.control_fd, cancel_bytes(number))
                except OSError:
                    self._lines.gone()
        return True

    def _fence(self) -> None:
        """Make sure that everything it has to say of what was before is said: an unknown session is reset, which
        changes nothing, and the answer carries its name (section 8). Error lines before that are of a cancel that it
        did not know after all."""
        name = f"fence-{next(_numbers)}"
        self._lines.write(op_line("reset", name))
        while True:
            match self._lines.next():
                case OpDone(op="reset", session_id=named) if named == name:
                    return
                case ErrorLine(session_id=named) if named == name:
                    return
                case ErrorLine() | Cancelled():
                    pass
                case line:
                    distrust(f"a {type(line).__name__} came behind the end of a request")

    # ------------------------------------------------------------ what goes on by itself

    def _hand_on(self, deadline: float, over: Over) -> None:
        self.is_handed_on = True
        threading.Thread(target=self._drain_safely, args=(deadline, over), name="drain", daemon=True).start()

    def _drain_safely(self, deadline: float, over: Over) -> None:
        try:
            self._drain(deadline, over)
        except EngineFault as fault:
            self._link.broken(fault)

    def _drain(self, deadline: float, over: Over) -> None:
        """Read the rest of a cancelled request, then give the program back."""
        while True:
            match self._next_within(deadline - self._lines.now(), waits=True):
                case None:
                    self._link.overdue(
                        "the native worker went on with an answer that was cancelled for as long as another load "
                        f"would take ({self._link.drain_s:.0f} s)"
                    )
                    return
                case TokenLine() | Cancelled():
                    pass
                case (Terminal() | ErrorLine()) as line:
                    self._fence()
                    over(line if isinstance(line, Terminal) else None)
                    self._link.give_back()
                    return
                case line:
                    distrust(f"a {type(line).__name__} came in an answer")
