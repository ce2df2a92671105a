"""One client connection: reading, writing, time limits and the way it ends.

hypercorn's protocol objects turn bytes into ASGI calls; this class stands where hypercorn has its TCPServer and
TaskGroup, and differs from them in what a hostile or vanished client can cause:

* Nothing that happens here leaves `run`: faults are logged, the socket is closed, the server goes on.
* A reader task reads on while a request is answered, so that a client that goes away is noticed, also behind
  pipelined bytes: at once, or within 0.1 s before its answer has begun. The request's task is then cancelled. No
  `http.disconnect` message is ever sent (under quart-trio it would cancel the task that is just finishing the answer).
* A client that closes only its sending side behind a whole request is answered (`_outlast`).
* A write has a deadline. A write that was begun and not finished (stall, cancellation) resets the connection.
* Input that has arrived counts before its deadline does: Trio looks at sockets first, and here it is parsed first.
  Absences of this process are no time (`actors/clock.py`).
* The socket is closed in one place, at the end of `run`, by the connection's own task.

States: `idle` (nothing of the next request seen), `head` (its first bytes seen), `busy` (headers complete, until
the answer is complete). Each sets the deadline of the reader. Invariant, proved by `tests/front`: whatever the
client sends and however it ends, the connection's tasks and its descriptor are gone soon after.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import struct
from collections.abc import Awaitable, Callable, MutableSet
from typing import Final, Literal, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, ConnectionState, Scope, TaskGroup

from actors.front.answers import protocol_fault
from actors.front.limits import FrontLimits
from actors.front.protocol import Http11
from actors.threads import run_in_thread
from muse.errors import MuseError

log = logging.getLogger("muse.front")

State = Literal["idle", "head", "busy"]

READ_BYTES: Final = 64 * 1024
BODY_MESSAGES: Final = 4
"""Body chunks waiting for the application; when full, reading pauses."""
JOINED_BYTES: Final = 64 * 1024
"""A body up to this is copied behind its head, to leave in one write."""
PROBE_S: Final = 0.05
"""From the end of a client's input to the first probe of whether it has left. Most answers are given by then."""
PROBE_EVERY_S: Final = 1.0
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: close() sends RST and drops what was not sent."""


class Connection:
    """Serves one accepted socket. Also plays hypercorn's TaskGroup for its protocol object."""

    def __init__(
        self,
        app: ASGIWrapper,
        config: Config,
        context: WorkerContext,
        limits: FrontLimits,
        sock: trio.socket.SocketType,
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._limits = limits
        self._socket = sock
        self._reading = trio.CancelScope()
        self._lingering = trio.CancelScope()
        self._write_lock = trio.Lock()
        self._progress = trio.lowlevel.ParkingLot()
        self._unfed_bytes = 0
        self._held_head = b""
        self._state: State = "idle"
        self._request_complete = False
        self._all_fed = False
        self._peer_gone = False
        self._stopping = False

    async def run(self, live: MutableSet[Connection]) -> None:
        """Serve until the client or the server ends the connection. Raises nothing but cancellation.

        It leaves `live` when its descriptor is closed.
        """
        try:
            await self._converse()
            if not self._peer_gone and not self._stopping:
                await self._linger()
        except* OSError:
            pass  # the client is gone
        except* Exception as faults:
            log.error("connection failed", exc_info=faults)
        finally:
            self._socket.close()
            live.discard(self)

    def stop(self) -> None:
        """Close now unless a request is being answered; that one may finish. For the server's shutdown."""
        self._stopping = True
        self._lingering.cancel()
        if self._state != "busy":
            self._reading.cancel()

    # -- conversation

    async def _converse(self) -> None:
        client, server = self._socket.getpeername()[:2], self._socket.getsockname()[:2]
        # Bounded in bytes by _read, not in items: a client may well send one byte at a time.
        arrived, arrivals = trio.open_memory_channel[bytes](math.inf)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._protocol = Http11(
                self._app,
                self._config,
                self._context,
                cast("TaskGroup", self),  # of its methods, HTTP/1.1 calls only spawn_app
                ConnectionState({}),
                False,
                client,
                server,
                self._on_protocol_event,
            )
            nursery.start_soon(self._feed, arrivals)
            self._enter("idle", self._limits.header_s)
            with arrived:
                await self._read_in_time(arrived)
            nursery.cancel_scope.cancel()

    async def _read_in_time(self, arrived: trio.MemorySendChannel[bytes]) -> None:
        """Read until the end of input, or of the patience that the state allows."""
        while True:
            with trio.CancelScope(deadline=self._reading.deadline) as self._reading:
                await self._read(arrived)
                return
            # What was read is parsed before the client is judged: it may be the rest of a request.
            while self._unfed_bytes and self._is_late():
                await self._progress.park()
            if self._stopping:
                return
            if self._is_late():
                break
        if self._state == "head":
            await self._protocol.refuse(protocol_fault(408))

    async def _read(self, arrived: trio.MemorySendChannel[bytes]) -> None:
        while True:
            try:
                data = await self._socket.recv(READ_BYTES)
            except (OSError, trio.ClosedResourceError):
                self._peer_gone = True
                return
            if not data:
                arrived.close()
                await self._outlast()
                return
            self._unfed_bytes += len(data)
            arrived.send_nowait(data)
            while self._unfed_bytes > self._limits.read_ahead_bytes:
                if self._request_complete:
                    log.warning("connection reset reason=pipelined_too_much bytes=%d", self._unfed_bytes)
                    self._reset()
                    return
                await self._progress.park()

    async def _outlast(self) -> None:
        """The client sent its last byte. Return when nothing is left to answer, or nobody is left to read it.

        A client that has left looks like one that waits for its answer until something is sent: then RST comes back.
        So before an answer has begun, `100 Continue` is sent as a probe. Once it has begun the end of input is taken
        for the client's leaving, as it is for all but a few.
        """
        if self._protocol.answer_has_begun and self._request_complete:
            self._peer_gone = True
            return
        pause_s = PROBE_S
        while True:
            with trio.move_on_after(pause_s) as pause:
                await self._progress.park()
            if self._all_fed and not (self._state == "busy" and self._request_complete):
                return  # all is answered, or what is left is half a request
            if pause.cancelled_caught:
                await self._protocol.probe()
                await trio.sleep(PROBE_S)
                pause_s = PROBE_EVERY_S
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._peer_gone = True
                return

    def _is_late(self) -> bool:
        return self._reading.deadline <= trio.current_time()

    async def _feed(self, arrivals: trio.MemoryReceiveChannel[bytes]) -> None:
        # A task of its own, because the protocol waits in here while bytes of a next request are held back.
        async for data in arrivals:
            self._unfed_bytes -= len(data)
            self._progress.unpark_all()
            try:
                await self._protocol.handle(RawData(data=data))
            except MuseError as fault:
                await self._protocol.refuse(fault)
                self._nursery.cancel_scope.cancel()
            if self._state == "idle" and not self._protocol.at_start:
                self._enter("head", self._limits.header_s)
        self._all_fed = True
        self._progress.unpark_all()

    def _enter(self, state: State, seconds: float) -> None:
        self._state = state
        self._reading.deadline = trio.current_time() + seconds

    # -- calls from hypercorn's protocol objects

    async def _on_protocol_event(self, event: Event) -> None:
        # No checkpoint but in _write: the end of an answer (last bytes, recycling, idle timer) is one step.
        match event:
            case RawData(data=data):
                await self._write_or_hold(data)
            case Updated(idle=True):
                self._request_complete = False
                if self._protocol.at_start:
                    self._enter("idle", self._limits.keep_alive_s)
                else:
                    self._enter("head", self._limits.header_s)
                self._progress.unpark_all()
            case Updated(idle=False):
                self._enter("busy", math.inf)
            case Closed():
                self._nursery.cancel_scope.cancel()
            case _:
                raise TypeError(f"unknown protocol event {event!r}")

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the application for one request; returns the function that hands it the body."""
        to_app, from_client = trio.open_memory_channel[ASGIReceiveEvent](BODY_MESSAGES)

        async def put(message: ASGIReceiveEvent) -> None:
            if message["type"] != "http.request":
                return  # http.disconnect: see the head of this module
            if not message["more_body"]:
                self._request_complete = True
                self._progress.unpark_all()
            with contextlib.suppress(trio.BrokenResourceError):  # it ended without its body
                await to_app.send(message)

        async def receive() -> ASGIReceiveEvent:
            await self._protocol.invite_body()
            return await from_client.receive()

        async def run_app() -> None:
            with from_client:
                try:
                    await app(scope, receive, send, run_in_thread, trio.from_thread.run)
                except* Exception as faults:
                    log.error("request failed", exc_info=faults)
                await send(None)

        self._nursery.start_soon(run_app)
        return put

    # -- writing and closing

    async def _write_or_hold(self, data: bytes) -> None:
        # Half the cost of a short answer is waking the client, so it is woken once.
        if self._protocol.holds_head:
            self._held_head = data
            return
        if self._held_head:
            head, self._held_head = self._held_head, b""
            if len(data) <= JOINED_BYTES:
                data = head + data
            else:
                await self._write(head)
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        if not data:
            return
        async with self._write_lock:
            rest = memoryview(data)
            try:
                while rest:
                    # A scope for each: one whose deadline has passed would also end the next call.
                    with trio.move_on_after(self._limits.send_stall_s) as scope:
                        rest = rest[await self._socket.send(rest) :]
                    if scope.cancelled_caught:
                        log.warning("connection reset reason=send_stalled unsent_bytes=%d", len(rest))
                        break
            except (OSError, trio.ClosedResourceError):
                pass  # the client is gone; the finally below ends the request
            finally:
                if rest:
                    self._reset()

    def _reset(self) -> None:
        self._peer_gone = True
        with contextlib.suppress(OSError):  # already closed
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._socket.close()
        self._nursery.cancel_scope.cancel()

    async def _linger(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)
        self._lingering.deadline = trio.current_time() + self._limits.linger_s
        discarded = 0
        with self._lingering:
            while discarded < self._limits.linger_bytes and (data := await self._socket.recv(READ_BYTES)):
                discarded += len(data)
