"""The HTTP server: accepting, the limit of connections, start and stop.

hypercorn 0.18 supplies the HTTP/1.1 protocol and the ASGI lifespan; its own serve loop is not used, because one
connection can end it and one client that does not read can keep it from stopping. The reasons stand in
`connection` and `protocol`.

Stop, in order: listeners close, idle connections close, running requests get `stop_grace_s` (streams watch an
event of their own and send a last message), then they are cancelled and their connections closed.
"""

from __future__ import annotations

import errno
import functools
import logging
import resource
import socket
from collections.abc import Sequence
from typing import Final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework

from actors.front.answers import fault_answer
from actors.front.connection import Connection
from actors.front.limits import FrontLimits
from actors.front.protocol import FrontConfig
from muse.errors import Unavailable

log = logging.getLogger("muse.front")

ACCEPT_PAUSE_S: Final = 0.1
"""After a failed accept. Trio's own listener loop waits as long."""
OTHER_DESCRIPTORS: Final = 64
"""Descriptors kept for everything but client connections: pipes, files, libraries. Of few, half."""


async def serve(
    app: ASGIFramework,
    *,
    sockets: Sequence[socket.socket],
    stop: trio.Event,
    limits: FrontLimits | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the ASGI application on listening sockets until `stop` is set.

    The sockets belong to this function from here on and are closed when it returns. `task_status.started` is
    called when connections are accepted. If this is cancelled instead of stopped, everything ends at once.
    """
    limits = limits or FrontLimits()
    config = FrontConfig()
    config.h11_max_incomplete_size = limits.header_bytes
    wrapped = ASGIWrapper(app)
    context = WorkerContext(None)
    lifespan = Lifespan(wrapped, config, {})
    live: set[Connection] = set()
    connect = functools.partial(Connection, wrapped, config, context, limits)
    async with trio.open_nursery() as lifespan_nursery:
        await lifespan_nursery.start(lifespan.handle_lifespan)
        await lifespan.wait_for_startup()
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as acceptors:
                accept = _Acceptor(connect, connections, live, limits)
                for sock in sockets:
                    acceptors.start_soon(accept.run, trio.socket.from_stdlib_socket(sock))
                task_status.started()
                await stop.wait()
                acceptors.cancel_scope.cancel()
            await context.terminated.set()
            for connection in list(live):
                connection.stop()
            connections.cancel_scope.deadline = trio.current_time() + limits.stop_grace_s
        await lifespan.wait_for_shutdown()
        lifespan_nursery.cancel_scope.cancel()


class _Acceptor:
    """Accepts on any number of listeners, within one limit of connections."""

    def __init__(
        self,
        connect: functools.partial[Connection],
        nursery: trio.Nursery,
        live: set[Connection],
        limits: FrontLimits,
    ) -> None:
        self._connect = connect
        self._nursery = nursery
        self._live = live
        self._limits = limits
        descriptors = _descriptor_limit()
        self._max_connections = min(limits.connections, max(descriptors - OTHER_DESCRIPTORS, descriptors // 2))
        self._refusals = 0
        fault = Unavailable("too_many_connections", "Too many open connections; close some.", retry_after_s=1)
        self._refusal = _plain_answer(fault)

    async def run(self, listener: trio.socket.SocketType) -> None:
        complained = False
        with listener:
            while True:
                try:
                    sock, _ = await listener.accept()
                except OSError as error:
                    # A client that left before it was accepted, or no descriptor to be had. Never a reason to stop.
                    if error.errno != errno.ECONNABORTED:
                        if not complained:
                            log.warning("accept failed errno=%s", errno.errorcode.get(error.errno or 0, error.errno))
                        complained = True
                        await trio.sleep(ACCEPT_PAUSE_S)
                    continue
                complained = False
                if len(self._live) < self._max_connections:
                    _tune(sock)
                    connection = self._connect(sock)
                    self._live.add(connection)
                    self._nursery.start_soon(connection.run, self._live)
                elif self._refusals < self._limits.refusals:
                    self._nursery.start_soon(self._refuse, sock)
                else:
                    sock.close()

    async def _refuse(self, sock: trio.socket.SocketType) -> None:
        self._refusals += 1
        try:
            with sock, trio.move_on_after(self._limits.linger_s):
                await sock.send(self._refusal)
                sock.shutdown(socket.SHUT_WR)
                while await sock.recv(4096):
                    pass
        except OSError:
            pass
        finally:
            self._refusals -= 1


def _tune(sock: trio.socket.SocketType) -> None:
    try:
        # Events of a stream are small and must leave at once.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Trio's figure for its own streams: a slow reader is felt after 16 KiB, not after megabytes.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 16 * 1024)
    except OSError:
        pass  # the client is gone already (macOS: EINVAL); the connection's first call will tell


def _descriptor_limit() -> int:
    # macOS starts programs with 256 descriptors. Raising the soft limit needs no rights.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (OSError, ValueError):
        return soft
    return target


def _plain_answer(fault: Unavailable) -> bytes:
    answer = fault_answer(fault, close=True)
    lines = [b"HTTP/1.1 %d " % answer.status]
    lines += [name + b": " + value for name, value in (*answer.headers, *FrontConfig().response_headers("h11"))]
    return b"\r\n".join(lines) + b"\r\n\r\n" + answer.body
