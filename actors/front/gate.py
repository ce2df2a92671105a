"""The ASGI application that stands before Quart and decides what Quart gets to see.

In this order: target, method, Host, site, key and body headers (`security`), then the page's files from memory,
then the body, then Quart. So the checks cover unknown paths and files as well, and a refused request costs no
routing. Answers that set no Cache-Control get `no-store`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
    Scope,
)
from quart import request

from actors.front.answers import Answer, fault_answer
from actors.front.body import BODY, ClientLeft, check_declared, receive_body
from actors.front.body_budget import BodyBudget
from actors.front.limits import FrontLimits
from actors.front.memory_trimmer import MemoryTrimmer
from actors.front.security import RequestHead, SecurityPolicy, check_request
from actors.front.static import StaticFile, StaticFiles
from muse.errors import ClientFault, InternalFault, MuseError
from muse.sizes import MIB

log = logging.getLogger("muse.front")

LARGE_BYTES: Final = MIB
"""Bodies beyond this are worth a walk through the free memory behind them."""
CLOSERS: Final = "request closers"
"""Key in the ASGI scope's state, which is made anew for each request."""


def at_request_end(callback: Callable[[], object]) -> None:
    """From inside a route: have `callback` called when this request has ended, however it ends."""
    request.scope["state"].setdefault(CLOSERS, []).append(callback)


class Gate:
    """See the module. `static` None serves no files. `memory`: is told of the end of large requests."""

    def __init__(
        self,
        app: ASGIFramework,
        *,
        policy: SecurityPolicy,
        static: StaticFiles | None,
        limits: FrontLimits,
        memory: MemoryTrimmer | None = None,
    ) -> None:
        self._app = app
        self._policy = policy
        self._static = static
        self._limits = limits
        self._memory = memory
        self._budget = BodyBudget(limits.bodies_bytes, limits.body_total_s)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = RequestHead.of(scope["method"], scope["raw_path"], scope["headers"])
        file = self._static.find(scope["path"]) if self._static else None
        try:
            if fault := check_request(self._policy, head, public=file is not None):
                raise fault
            if file is not None:
                await _send(send, _file_answer(file, head))
                return
            if head.has_body:
                await self._run_with_body(scope, head, receive, send)
                return
        except MuseError as fault:
            # With a body the connection ends: it may be unread, and how far it was read is a matter of luck.
            await _send(send, fault_answer(fault, close=head.has_body))
        else:
            await self._run(scope, receive, send)

    async def _run_with_body(
        self, scope: HTTPScope, head: RequestHead, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Raises MuseError while nothing was answered."""
        check_declared(head, self._limits)
        with self._budget.share(head.declared_bytes) as share:
            try:
                scope["state"][BODY] = await receive_body(receive, head, self._limits, self._budget, share)
                await self._run(scope, receive, send)
            except ClientLeft:
                return
            finally:
                # Also what nobody took; and no name here holds it.
                scope["state"].pop(BODY, None)
                if share.received > LARGE_BYTES and self._memory is not None:
                    self._memory.note_large_request()

    async def _run(self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        handed_over = False
        started = False
        failed = False

        async def receive_once() -> ASGIReceiveEvent:
            nonlocal handed_over
            if not handed_over:
                handed_over = True
                return {"type": "http.request", "body": b"", "more_body": False}
            while (message := await receive())["type"] == "http.request":
                pass  # the empty message that ends a request without a body
            return message

        async def send_guarded(message: ASGISendEvent) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message["headers"])
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive_once, send_guarded)
        except* Exception as faults:
            if started:
                raise  # too late for an answer; the connection logs it and cuts the stream
            log.error("request failed", exc_info=faults)
            failed = True
        finally:
            for closer in scope["state"].get(CLOSERS, ()):
                closer()
        if failed:
            fault = InternalFault("internal_error", "The server made a mistake; its log says more.")
            await _send(send, fault_answer(fault))


def _file_answer(file: StaticFile, head: RequestHead) -> Answer:
    if head.method not in {"GET", "HEAD"}:
        raise ClientFault("method_not_allowed", "This is a file.", status=405, data={"allow": "GET, HEAD"})
    return file.answer(head.values(b"if-none-match"))


async def _send(send: ASGISendCallable, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
