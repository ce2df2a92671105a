"""A small server of the front's own for its tests, on real sockets, and a client that speaks raw bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import h11
import trio
import trio.testing
from hypercorn.typing import ASGIFramework
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.datastructures import Headers

from actors.front import serve as serve_module
from actors.front.answers import fault_answer
from actors.front.binding import bind
from actors.front.body import read_data, read_json
from actors.front.gate import Gate, at_request_end
from actors.front.limits import FrontLimits
from actors.front.security import SecurityPolicy
from actors.front.sse import sse_data, sse_event, sse_response
from actors.front.static import StaticFile, StaticFiles
from muse.errors import MuseError

HANG_S = 30
"""Guard against a hang; nothing waits so long when all is well."""

QUICK = FrontLimits(header_s=4, keep_alive_s=0.3, body_stall_s=1, send_stall_s=1, linger_s=0.2, stop_grace_s=0.2)
"""Limits for tests that wait for them: short, but long enough for a request on a busy machine."""

PATIENT = FrontLimits(header_s=60, keep_alive_s=60, body_stall_s=60, send_stall_s=60)
"""Limits for tests in which none may act."""


@attrs.define
class Phase:
    """What one kind of handler went through."""

    entered: int = 0
    cancelled: int = 0
    ended: int = 0
    changed: trio.Event = attrs.field(factory=trio.Event)

    def count(self, field: str) -> None:
        setattr(self, field, getattr(self, field) + 1)
        self.changed.set()
        self.changed = trio.Event()

    async def wait_until(self, field: str, value: int) -> None:
        with trio.fail_after(HANG_S):
            while getattr(self, field) < value:
                await self.changed.wait()


@attrs.define
class Front:
    """A running server under test."""

    port: int
    limits: FrontLimits
    stop: trio.Event
    done: trio.Event
    phases: dict[str, Phase]
    stopping: trio.Event
    cancel: Callable[[], None]
    idle_tasks: int = 0
    idle_fds: int = 0

    async def connect(self) -> Client:
        return Client(self, await trio.open_tcp_stream("127.0.0.1", self.port))

    async def assert_healthy(self) -> None:
        """A new connection is served. Asked again if it was closed: on a stalled machine a limit may act here too."""
        with trio.fail_after(HANG_S):
            while True:
                async with await self.connect() as client:
                    try:
                        answer = await client.ask("GET", "/health")
                    except (trio.BrokenResourceError, ConnectionError):
                        continue
                if answer.status != 408:
                    break
        assert answer.status == 200

    async def wait_no_connection_tasks(self) -> None:
        """Wait until the server works on no connection; the client's side may still be open."""
        with trio.fail_after(HANG_S):
            while _tasks() > self.idle_tasks:
                await trio.sleep(0.001)

    async def wait_nothing_left(self) -> None:
        """Wait until no task and no descriptor is there that was not there before the first connection."""
        with trio.fail_after(HANG_S):
            while (self.idle_tasks, self.idle_fds) != (_tasks(), _fds()):
                await trio.sleep(0.001)


@attrs.define
class Reply:
    """An answer as the client read it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


class Client:
    """One connection to the server. `ask` speaks HTTP, `send` and `read_all` speak bytes."""

    def __init__(self, front: Front, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._front = front
        self._h11 = h11.Connection(h11.CLIENT)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stream.socket.close()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def read_all(self) -> bytes:
        """Everything up to the server's FIN or RST."""
        received = bytearray()
        with trio.fail_after(HANG_S):
            try:
                while data := await self.stream.receive_some(65536):
                    received += data
            except trio.BrokenResourceError:
                pass
        return bytes(received)

    async def read_until(self, mark: bytes) -> bytes:
        received = bytearray()
        with trio.fail_after(HANG_S):
            while mark not in received:
                data = await self.stream.receive_some(65536)
                assert data, f"closed before {mark!r}: {bytes(received)!r}"
                received += data
        return bytes(received)

    def reset(self) -> None:
        """End the connection with RST."""
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()

    def head(self, method: str, path: str, *extra: str, version: str = "1.1") -> bytes:
        lines = [f"{method} {path} HTTP/{version}", f"Host: 127.0.0.1:{self._front.port}", *extra, "", ""]
        return "\r\n".join(lines).encode("latin-1")

    async def ask(self, method: str, path: str, *extra: tuple[str, str], body: bytes | None = None) -> Reply:
        """One request and its whole answer, on this connection."""
        headers = [("host", f"127.0.0.1:{self._front.port}"), *extra]
        if body is not None:
            headers.append(("content-length", str(len(body))))
        if self._h11.our_state is h11.DONE:
            self._h11.start_next_cycle()
        out = self._h11.send(h11.Request(method=method, target=path, headers=headers))
        if body:
            out += self._h11.send(h11.Data(data=body))
        await self.send(out + self._h11.send(h11.EndOfMessage()))
        return await self.read_reply()

    async def read_reply(self) -> Reply:
        status, headers, content = 0, [], b""
        with trio.fail_after(HANG_S):
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(bytes(await self.stream.receive_some(65536)))
                elif isinstance(event, h11.Response):
                    status, headers = event.status_code, list(event.headers)
                elif isinstance(event, h11.Data):
                    content += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return Reply(status, headers, content)
                elif isinstance(event, h11.ConnectionClosed):
                    raise ConnectionError("closed before an answer")


def make_app(phases: dict[str, Phase], stopping: trio.Event) -> QuartTrio:
    """Routes that stay in one phase until they are cancelled."""
    app = QuartTrio("front_under_test", static_folder=None)
    app.config.update(RESPONSE_TIMEOUT=None, BODY_TIMEOUT=None, MAX_CONTENT_LENGTH=None)

    @app.errorhandler(MuseError)
    async def on_fault(fault: MuseError) -> Response:
        answer = fault_answer(fault)
        return Response(answer.body, answer.status, Headers([(k.decode(), v.decode()) for k, v in answer.headers]))

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/echo")
    async def echo() -> dict[str, object]:
        return {"value": await read_json(request)}  # type: ignore[arg-type]

    @app.post("/size")
    async def size() -> dict[str, int]:
        return {"size": len(read_data(request))}

    @app.post("/ignore")
    async def ignore() -> dict[str, str]:
        return {"status": "ok"}

    @app.route("/wait", methods=["GET", "POST"])
    async def wait() -> dict[str, str]:
        phase = phases["wait"]
        phase.count("entered")
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            phase.count("cancelled")
            raise
        return {}

    @app.post("/slow")
    async def slow() -> dict[str, str]:
        phases["slow"].count("entered")
        return {"status": "ok"}

    @app.get("/quiet")
    async def quiet() -> Response:
        return sse_response(_one_then_silence(phases["quiet"]))

    @app.get("/silent")
    async def silent() -> Response:
        return sse_response(_silence())

    @app.get("/flood")
    async def flood() -> Response:
        return sse_response(_endless(phases["flood"]))

    @app.get("/polite")
    async def polite() -> Response:
        return sse_response(_until(stopping, phases["polite"]))

    @app.get("/late")
    async def late() -> dict[str, str]:
        await stopping.wait()
        return {"status": "ok"}

    @app.get("/unstarted")
    async def unstarted() -> dict[str, str]:
        at_request_end(lambda: phases["unstarted"].count("ended"))
        phases["unstarted"].count("entered")
        await trio.sleep_forever()
        return {}

    @app.get("/crash")
    async def crash() -> Response:
        raise RuntimeError("a fault of the route")

    @app.get("/crash-late")
    async def crash_late() -> Response:
        return sse_response(_crash_after_one())

    @app.get("/big")
    async def big() -> bytes:
        return b"x" * 20_000_000

    return app


async def _one_then_silence(phase: Phase) -> AsyncIterator[bytes]:
    try:
        phase.count("entered")
        yield sse_data({"n": 0})
        await trio.sleep_forever()
    except trio.Cancelled:
        phase.count("cancelled")
        raise
    finally:
        phase.count("ended")


async def _silence() -> AsyncIterator[bytes]:
    await trio.sleep_forever()
    yield b""


async def _endless(phase: Phase) -> AsyncIterator[bytes]:
    try:
        phase.count("entered")
        event = sse_data("x" * 2000)
        while True:
            yield event
            await trio.lowlevel.checkpoint()
    finally:
        phase.count("ended")


async def _until(stopping: trio.Event, phase: Phase) -> AsyncIterator[bytes]:
    phase.count("entered")
    yield sse_data({"n": 0})
    await stopping.wait()
    yield sse_event("stopping", {})
    phase.count("ended")


async def _crash_after_one() -> AsyncIterator[bytes]:
    yield sse_data({"n": 0})
    raise RuntimeError("a fault of the stream")


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def _fds() -> int:
    return len(list(Path("/dev/fd").iterdir()))


STATIC = StaticFiles(
    {
        "/": StaticFile(b"text/html; charset=utf-8", b'"page"', b"<!doctype html><title>t</title>"),
        "/app.js": StaticFile(b"text/javascript; charset=utf-8", b'"script"', b"export {}\n"),
    }
)


@asynccontextmanager
async def running(
    limits: FrontLimits = PATIENT,
    *,
    key: str | None = None,
    app: ASGIFramework | None = None,
    static: StaticFiles = STATIC,
) -> AsyncIterator[Front]:
    """The server, until the block ends; it must then stop by itself. `app` instead of the routes and their gate."""
    binding = bind("127.0.0.1", 0)
    phases = {name: Phase() for name in ("wait", "slow", "quiet", "flood", "polite", "unstarted")}
    stopping = trio.Event()
    scope = trio.CancelScope()
    gate = Gate(
        make_app(phases, stopping),
        policy=SecurityPolicy.for_binding(binding, key=key),
        static=static,
        limits=limits,
    )
    front = Front(
        port=binding.port,
        limits=limits,
        stop=trio.Event(),
        done=trio.Event(),
        phases=phases,
        stopping=stopping,
        cancel=scope.cancel,
    )
    async with trio.open_nursery() as nursery:

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await serve_module.serve(
                    app or gate, sockets=binding.sockets, stop=front.stop, limits=limits, task_status=task_status
                )
            front.done.set()

        await nursery.start(run)
        await trio.testing.wait_all_tasks_blocked()
        front.idle_tasks, front.idle_fds = _tasks(), _fds()
        yield front
        front.stopping.set()
        front.stop.set()
        with trio.fail_after(HANG_S):
            await front.done.wait()
