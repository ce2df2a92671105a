"""FormChecker: has schemas checked in an isolated process before a request is accepted, and remembers the verdicts.

The process is started with the first check and ends when none came for a while. Verdicts are kept by the schemas'
hash: agents send the same tools with every turn. A check that was lost to a limit is a refusal, kept for LOST_KEPT_S
only; one that was lost to a crash, twice, is the refusal of this request and not kept. Knows nothing of schemas.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from math import inf
from typing import Final

import attrs
import trio

from actors.isolated.pool import IsolatedProcesses
from actors.isolated.process import JobLost
from actors.kernel import Signal
from muse.api.chat_request import ChatRequest, CheckedRequest
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
    refused,
)

log = logging.getLogger("muse.front")

LIMIT_S: Final = 2.0
"""Of one check, in processor time. Those of ordinary schemas take some 50 ms."""
LOST_KEPT_S: Final = 60.0
"""An agent that sends a schema beyond a limit with every turn costs 2 s of a processor a minute, and a schema that was
refused on a bad day is tried again soon."""
_SMALLER: Final = "fewer properties, branches and values, shorter patterns, lower minItems, maxItems and lengths"
KEPT_WARM_S: Final = 300.0
MAX_VERDICTS: Final = 256
MAX_VERDICT_BYTES: Final = 8 * 1024 * 1024

Verdict = HeldForm | ClientFault


@attrs.frozen
class _Kept:
    verdict: Verdict
    until: float = inf
    """On trio's clock."""

    @property
    def size(self) -> int:
        return len(self.verdict.schema) if isinstance(self.verdict, HeldForm) else len(self.verdict.detail)


class FormChecker:
    """`run` it for as long as checks are made."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[bytes, _Kept] = OrderedDict()
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

    async def checked(self, request: ChatRequest) -> CheckedRequest:
        """The request with the form of its answer. Raises as `check` does."""
        return CheckedRequest(attrs.evolve(request, form=await self.check(request)))

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
        kept = self._verdicts.get(key)
        if kept is not None and trio.current_time() < kept.until:
            self._verdicts.move_to_end(key)
        else:
            kept = await self._ask(asked, payload)
            self._keep(key, kept)
        if isinstance(kept.verdict, ClientFault):
            raise kept.verdict.without_frames()
        return kept.verdict

    async def _ask(self, asked: Sequence[AskedSchema], payload: bytes) -> _Kept:
        self._checks += 1
        self._running += 1
        try:
            self._wanted.set()
            await self._started.wait()
            try:
                return _Kept(await self._call(payload))
            except JobLost as lost:
                log.warning("schema-check-lost reason=%s schemas=%d", lost.reason, len(asked))
                fault = await self._blame(asked) if len(asked) > 1 else None
                kept_s = 0.0 if lost.reason == "crash" else LOST_KEPT_S
                return _Kept(fault or _lost(asked, lost), until=trio.current_time() + kept_s)
        except ClientFault as fault:
            return _Kept(fault.without_frames())
        except (ValueError, KeyError, TypeError):
            raise InternalFault("internal_error", "The check of the schema gave no verdict.") from None
        finally:
            self._running -= 1
            self._news.notify()

    async def _call(self, payload: bytes) -> HeldForm:
        assert self._processes is not None
        return decode_held(await self._processes.call(CHECK, payload, limit_s=LIMIT_S))

    async def _blame(self, asked: Sequence[AskedSchema]) -> ClientFault | None:
        """The error of the first schema that cannot be checked alone either. None: it is only all of them together, or
        there are too many to tell."""
        until = inf
        for schema in asked:  # each with its whole limit: what another left of it would blame wrongly
            if trio.current_time() > until:
                return None
            try:
                await self._call(encode_asked((schema,)))
            except JobLost as lost:
                return _lost((schema,), lost)
            except ClientFault as fault:
                return fault.without_frames()
            if until == inf:  # not before: the first one waits for the process that takes the lost one's place
                until = trio.current_time() + LIMIT_S
        return None

    def _keep(self, key: bytes, kept: _Kept) -> None:
        before = self._verdicts.pop(key, None)  # it is over, or another request asked the same meanwhile
        self._bytes -= before.size if before is not None else 0
        if kept.until <= trio.current_time():
            return
        self._verdicts[key] = kept
        self._bytes += kept.size
        while len(self._verdicts) > MAX_VERDICTS or self._bytes > MAX_VERDICT_BYTES:
            _, gone = self._verdicts.popitem(last=False)
            self._bytes -= gone.size


def _lost(asked: Sequence[AskedSchema], lost: JobLost) -> ClientFault:
    """The error for schemas whose check was lost."""
    if len(asked) == 1:
        return refused(asked[0], "#", f"checking it {lost.words}. Make it smaller: {_SMALLER}")
    return ClientFault(
        INVALID,
        f"The parameters of the {len(asked)} tools that tool_choice allows cannot be used together: checking them "
        f"{lost.words}. Name one function in tool_choice, or make them smaller: {_SMALLER}.",
        param=param_of(asked),
    )
