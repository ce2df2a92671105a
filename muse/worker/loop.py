"""The protocol loop: one thread reads commands, one thread a request runs the engine.

The reading thread never calls the engine, so that ping, cancel and the end of stdin are served in every
phase. States: loading (one load thread; only ping, cancel and shutdown are served), then ready. The process
leaves by `os._exit` only: native libraries hang or crash in orderly teardown, and nothing here needs one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn, assert_never

import attrs

from muse.exhaustion import is_exhaustion, reason_of
from muse.protocol import (
    MAY_BE_A_CRASH,
    Cancel,
    Close,
    Count,
    Error,
    ErrorCode,
    Generate,
    Loading,
    Open,
    Ping,
    Reset,
    Result,
    Show,
    Shutdown,
    WorkerEvent,
)
from muse.protocol_codec import ProtocolError, decode_command
from muse.worker import exits
from muse.worker.engines.base import CancelToken, Engine, EngineFault
from muse.worker.stdio import EventWriter, LineTooLong, read_lines

# Besides the generations: counts and session commands under way at once.
_SMALL_COMMANDS: Final = 8
_NO_THREAD: Final[tuple[ErrorCode, str]] = ("capacity_exhausted", "the system refuses this worker another thread")


class ProtocolLoop:
    """Serves one engine on one pair of pipes.

    before_command: called before each command is looked at; a test fault blocks there.
    """

    def __init__(
        self, engine: Engine, writer: EventWriter, commands_fd: int, before_command: Callable[[], None] | None = None
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._commands_fd = commands_fd
        self._before_command = before_command
        self._lock = threading.Lock()
        self._leaving = threading.Lock()  # taken once, never given back
        self._running: dict[str, CancelToken] = {}  # generations by request id
        self._small: set[str] = set()  # other requests under way
        self._max_inflight = 0  # 0: not ready
        writer.gone = lambda: self.leave(exits.ASKED)  # the main process is gone, and so is the reason to live

    def run(self) -> NoReturn:
        """Load and serve until stdin ends, a shutdown comes or the engine is lost."""
        status = exits.ASKED
        try:
            self._start("load", self._load)
            for line in read_lines(self._commands_fd, self._before_command):
                if not self._dispatch(line):
                    break
        except LineTooLong as fault:
            self._refuse(None, "bad_request", str(fault), fatal=True)
            status = exits.BUG
        except BaseException as fault:
            traceback.print_exc()
            status = exits.REFUSED if is_exhaustion(fault) else exits.BUG
        self.leave(status)

    def leave(self, status: int) -> NoReturn:
        """Let the engine tidy up and end the process. The first to leave decides how: closing the engine makes
        a load or a request in another thread fail, and that thread then comes here too and waits for the end."""
        self._leaving.acquire()
        try:
            self._engine.close()
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    # ------------------------------------------------------------ reading thread

    def _dispatch(self, line: bytes) -> bool:
        try:
            command = decode_command(line)
        except ProtocolError as fault:
            code: ErrorCode = "bad_request" if fault.known else "unsupported"
            self._refuse(_request_id_of(line), code, str(fault))
            return True
        match command:
            case Generate():
                self._begin_generate(command)
            case Cancel():
                with self._lock:
                    token = self._running.get(command.target_request_id)
                if token:
                    token.set()
            case Count() | Open() | Reset() | Close() | Show():
                self._begin_small(command)
            case Ping():
                self._writer.send(Result(request_id=command.request_id))
            case Shutdown():
                return False
            case _:
                assert_never(command)
        return True

    def _begin_generate(self, request: Generate) -> None:
        token = CancelToken()
        with self._lock:
            refusal = self._refusal(request.request_id, len(self._running), self._max_inflight)
            if not refusal:
                self._running[request.request_id] = token
        if not refusal and not self._may_start("generate", self._generate, request, token):
            with self._lock:
                del self._running[request.request_id]
            refusal = _NO_THREAD
        if refusal:
            self._refuse(request.request_id, *refusal)

    def _begin_small(self, request: Count | Open | Reset | Close | Show) -> None:
        with self._lock:
            refusal = self._refusal(request.request_id, len(self._small), _SMALL_COMMANDS)
            if not refusal:
                self._small.add(request.request_id)
        if not refusal and not self._may_start("small", self._answer_small, request):
            with self._lock:
                self._small.discard(request.request_id)
            refusal = _NO_THREAD
        if refusal:
            self._refuse(request.request_id, *refusal)

    def _refusal(self, request_id: str, under_way: int, limit: int) -> tuple[ErrorCode, str] | None:
        if not self._max_inflight:
            return "bad_request", "the model is not loaded yet: wait for the ready event"
        if request_id in self._running or request_id in self._small:
            return "bad_request", "a request with this request_id is under way"
        if under_way >= limit:
            return "capacity_exhausted", f"{limit} requests are under way, which is all this worker takes"
        return None

    def _refuse(self, request_id: str | None, code: ErrorCode, message: str, *, fatal: bool = False) -> None:
        self._writer.send(Error(request_id=request_id, code=code, message=message, fatal=fatal))

    def _may_start(self, name: str, target: Callable[..., None], *arguments: object) -> bool:
        """Start a thread, unless the system gives none."""
        try:
            self._start(name, target, *arguments)
        except RuntimeError as fault:
            if not is_exhaustion(fault):
                raise
            return False
        return True

    def _start(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=self._barrier, args=(target, *arguments), name=name, daemon=True).start()

    # ------------------------------------------------------------ other threads

    def _barrier(self, target: Callable[..., None], *arguments: object) -> None:
        """What escapes a request's own handling is a bug of ours: the state is in doubt, so leave."""
        try:
            target(*arguments)
        except BaseException:
            traceback.print_exc()
            self.leave(exits.BUG)

    def _load(self) -> None:
        def report(fraction: float | None, stage: str) -> None:
            self._writer.send(Loading(fraction=fraction, stage=stage))

        began = time.monotonic()
        try:
            ready = self._engine.load(report)
        except EngineFault as fault:
            code = "capacity_exhausted" if _comes_of_exhaustion(fault) else fault.code
            self._refuse(None, code, fault.message, fatal=True)
            self.leave(exits.LOAD_FAILED)
        except BaseException as fault:
            traceback.print_exc()
            self._refuse(None, _code_of(fault), f"The load failed unexpectedly: {reason_of(fault)}.", fatal=True)
            self.leave(exits.LOAD_FAILED)
        with self._lock:
            self._max_inflight = ready.max_inflight_requests
        self._writer.send(attrs.evolve(ready, load_ms=(time.monotonic() - began) * 1000))

    def _generate(self, request: Generate, token: CancelToken) -> None:
        last = self._answer(request.request_id, lambda: self._engine.generate(request, self._writer.send, token))
        # The place is free before the client can see the end, so that its next request is never refused.
        with self._lock:
            del self._running[request.request_id]
        self._writer.send(last)

    def _answer_small(self, request: Count | Open | Reset | Close | Show) -> None:
        def act() -> Result:
            if isinstance(request, Count):
                return self._engine.count(request)
            return self._engine.session(request)

        last = self._answer(request.request_id, act)
        with self._lock:
            self._small.discard(request.request_id)
        self._writer.send(last)

    def _answer(self, request_id: str, act: Callable[[], WorkerEvent]) -> WorkerEvent:
        """The last event of a request: what `act` returns, or the fault it raises as an error event.

        The one place where a request meets the death of its engine. Whatever failed first (a socket, half an answer, an
        error of the engine's), it is a fatal error of the worker, and the request is lost, not refused.
        """
        try:
            try:
                return act()
            except Exception as fault:
                if not isinstance(fault, EngineFault) or fault.code in MAY_BE_A_CRASH:
                    self._engine.check_alive()
                raise
        except EngineFault as fault:
            if fault.fatal:
                self._refuse(request_id, fault.code, fault.message, fatal=True)
                self.leave(exits.ENGINE_GONE)
            return Error(
                request_id=request_id,
                code=fault.code,
                message=fault.message,
                prompt_tokens=fault.prompt_tokens,
                context_length=fault.context_length,
                image=fault.image,
            )
        except Exception as fault:
            traceback.print_exc()
            message = f"The engine failed unexpectedly: {reason_of(fault)[:400]}."
            return Error(request_id=request_id, code=_code_of(fault), message=message)


def _code_of(fault: BaseException) -> ErrorCode:
    if isinstance(fault, MemoryError):
        return "out_of_memory"
    return "capacity_exhausted" if is_exhaustion(fault) else "engine_error"


def _comes_of_exhaustion(fault: BaseException | None) -> bool:
    """Whether a refusal of the system is among the causes: a file that cannot be opened for want of a descriptor is no
    broken file."""
    while fault is not None:
        if is_exhaustion(fault):
            return True
        fault = fault.__cause__
    return False


def _request_id_of(line: bytes) -> str | None:
    """The request id of a command that could not be understood, if it has one."""
    try:
        value: Any = json.loads(line)
        request_id: Any = value["request_id"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    return request_id if isinstance(request_id, str) else None
