"""FormChecker: has schemas checked in an isolated process before a request is accepted, and remembers the verdicts.

The process is started with the first check and ends when none came for a while. Verdicts are kept by the schemas'
hash: agents send the same tools with every turn. Knows nothing of schemas.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import trio

from actors.isolated.pool import IsolatedProcesses
from actors.isolated.process import JobLost
from actors.kernel import Signal
from muse.api.chat_request import ChatRequest
from muse.api.held_form import HeldForm
from muse.api.response_format import ANY_OBJECT
from muse.errors import ClientFault, InternalFault
from muse.structured.forms import (
    CHECK,
    INVALID,
    MODULE,
    AskedSchema,
    asked_schemas,
    decode_held,
    encode_asked,
    param_of,
)

log = logging.getLogger("muse.front")

LIMIT_S: Final = 2.0
"""Of one check. Those of ordinary schemas take some 50 ms."""
KEPT_WARM_S: Final = 300.0
MAX_VERDICTS: Final = 256
MAX_VERDICT_BYTES: Final = 8 * 1024 * 1024

Verdict = HeldForm | ClientFault


class FormChecker:
    """`run` it for as long as checks are made."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[bytes, tuple[Verdict, int]] = OrderedDict()
        self._bytes = 0
        self._processes: IsolatedProcesses | None = None
        self._started = trio.Event()
        self._wanted = trio.Event()
        self._news = Signal()
        self._checks = 0
        self._running = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start a process when one is needed, and end it when none was for a while."""
        task_status.started()
        while True:
            await self._wanted.wait()
            async with trio.open_nursery() as nursery:
                processes = IsolatedProcesses(MODULE)
                await nursery.start(processes.run)
                self._processes = processes
                self._started.set()
                await self._wait_unused()
                self._processes = None
                self._started, self._wanted = trio.Event(), trio.Event()
                nursery.cancel_scope.cancel()

    @property
    def has_process(self) -> bool:
        """Whether one is kept now."""
        return self._processes is not None

    async def _wait_unused(self) -> None:
        """Return when no check has run for KEPT_WARM_S."""
        while True:
            checks = self._checks
            with trio.move_on_after(KEPT_WARM_S):
                await self._news.wait()
                continue
            if not self._running and checks == self._checks:
                return

    async def check(self, request: ChatRequest) -> HeldForm | None:
        """The form that the answer is to be held to; None: it is free. Raises ClientFault where none can be, and
        Unavailable when no process can be had."""
        asked = asked_schemas(request)
        if not asked:
            return None
        if request.json_schema == ANY_OBJECT:
            return HeldForm(schema=ANY_OBJECT)  # needs no check
        payload = encode_asked(asked)
        key = hashlib.sha256(payload).digest()
        if key in self._verdicts:
            self._verdicts.move_to_end(key)
            verdict, _ = self._verdicts[key]
        else:
            verdict = await self._ask(asked, payload)
            self._remember(key, verdict)
        if isinstance(verdict, ClientFault):
            raise _anew(verdict)
        return verdict

    async def _ask(self, asked: Sequence[AskedSchema], payload: bytes) -> Verdict:
        self._checks += 1
        self._running += 1
        try:
            self._wanted.set()
            await self._started.wait()
            assert self._processes is not None
            return decode_held(await self._processes.call(CHECK, payload, limit_s=LIMIT_S))
        except ClientFault as fault:
            return fault
        except JobLost as lost:
            log.warning("schema-refused reason=%s", lost.reason)
            return ClientFault(
                INVALID,
                f"The schema '{param_of(asked)}' cannot be used: checking it {lost.words}. Make it smaller: fewer "
                "properties, branches and values, shorter patterns, lower minItems, maxItems and lengths.",
                param=param_of(asked),
            )
        except (ValueError, KeyError, TypeError):
            raise InternalFault("internal_error", "The check of the schema gave no verdict.") from None
        finally:
            self._running -= 1
            self._news.notify()

    def _remember(self, key: bytes, verdict: Verdict) -> None:
        size = len(verdict.schema) if isinstance(verdict, HeldForm) else len(verdict.detail)
        _, before = self._verdicts.pop(key, (None, 0))  # another request may have asked the same meanwhile
        self._verdicts[key] = (verdict, size)
        self._bytes += size - before
        while len(self._verdicts) > MAX_VERDICTS or self._bytes > MAX_VERDICT_BYTES:
            _, (_, gone) = self._verdicts.popitem(last=False)
            self._bytes -= gone


def _anew(fault: ClientFault) -> ClientFault:
    """One that can be raised: an exception object keeps the tracebacks of everyone who raised it."""
    return ClientFault(fault.code, fault.detail, status=fault.status, param=fault.param, data=fault.data)
