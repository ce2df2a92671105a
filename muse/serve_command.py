"""`muse serve`: binds the port, runs the system, stops it on a signal, tells people where it is."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import webbrowser
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import trio

from muse.errors import EnvironmentFault, Unavailable
from muse.logs import escape, set_up_logging
from muse.settings import Settings
from muse.standard_streams import say

if TYPE_CHECKING:
    from actors.front.binding import Binding

log = logging.getLogger("muse.serve")

EXIT_OK: Final = 0
EXIT_FAULT: Final = 1
EXIT_PORT: Final = 4
SERVER_RECORD: Final = "server.json"


def _say(text: str) -> None:
    say(text, sys.stdout)


def _complain(text: str) -> None:
    say(f"muse: {text}", sys.stderr)


def serve(settings: Settings, *, log_level: str = "INFO") -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP, unless the caller has these ignored. Returns the exit status."""
    set_up_logging(log_level)
    # The one place where the core reaches up to the actors: it starts them.
    from actors.clock import AttentiveClock  # noqa: PLC0415
    from actors.front.binding import bind, find_running_instance  # noqa: PLC0415

    try:
        binding = bind(settings.host, settings.port)
    except EnvironmentFault as fault:
        running = find_running_instance(settings.home, settings.port) if settings.port else None
        if running is None:
            _complain(escape(fault.detail))
            return EXIT_PORT
        _say(f"Muse is running already: {running.url} (process {running.pid}).")
        if settings.open_page:
            _open_browser(running.url)
            return EXIT_OK
        _complain(f"port {settings.port} is taken by that server. Use it, or choose another with --port.")
        return EXIT_PORT
    status = EXIT_OK
    try:
        trio.run(_serve, settings, binding, clock=AttentiveClock())
    except BaseExceptionGroup as group:
        faults, others = group.split(EnvironmentFault)
        if faults is None or others is not None:
            raise
        status = EXIT_FAULT
        for fault in _leaves(faults):
            _complain(escape(str(fault)))
    finally:
        binding.close()
    return status


def _leaves(group: BaseExceptionGroup[EnvironmentFault]) -> list[EnvironmentFault]:
    found: list[EnvironmentFault] = []
    for fault in group.exceptions:
        found += _leaves(fault) if isinstance(fault, BaseExceptionGroup) else [fault]
    return found


async def _serve(settings: Settings, binding: Binding) -> None:
    from actors.system import System, run_system  # noqa: PLC0415

    record = _record_path(settings.home, binding.port)
    with _stop_signals() as signals:
        async with trio.open_nursery() as nursery:

            async def run(*, task_status: trio.TaskStatus[System]) -> None:
                await run_system(settings, binding, task_status=task_status)
                nursery.cancel_scope.cancel()

            system: System = await nursery.start(run)
            nursery.start_soon(_stop_on_signal, signals, system.stop, nursery.cancel_scope)
            _write_record(record, binding, system.instance_id)
            _say(f"Muse is at {binding.url}  (Ctrl-C stops it)")
            if settings.open_page:
                nursery.start_soon(_open_page, binding.url)
    _remove_record(record, system.instance_id)


@contextmanager
def _stop_signals() -> Generator[AsyncIterator[int]]:
    """Those that stop the server. What the caller chose to ignore (nohup, a shell's background job) stays ignored.

    Afterwards they do nothing more: the server is over, and one that comes late (a second Ctrl-C) must not change its
    exit status. Trio gives those that nobody received back to the handlers that were there before."""
    watched = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    if not watched:
        yield _nothing()
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)  # one that comes between the two handlers waits
    try:
        for number in watched:
            signal.signal(number, _do_nothing)
        with trio.open_signal_receiver(*watched) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
            yield signals
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


async def _nothing() -> AsyncIterator[int]:
    for number in ():
        yield number


async def _stop_on_signal(signals: AsyncIterator[int], stop: trio.Event, scope: trio.CancelScope) -> None:
    """The first signal stops in order, a second one at once."""
    async for number in signals:
        log.info("signal name=%s", signal.Signals(number).name)
        if stop.is_set():
            scope.cancel()
        else:
            _say("Stopping ...")
            stop.set()


async def _open_page(url: str) -> None:
    from actors.threads import run_in_thread  # noqa: PLC0415

    try:
        opened = await run_in_thread(_open_browser, url, abandon_on_cancel=True)
    except Unavailable:
        opened = False
    if not opened:
        _say(f"No browser could be opened. Open {url} yourself.")


def _open_browser(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except Exception as fault:  # any: what a desktop's own programs do is none of our business
        log.warning("browser-not-opened reason=%s", fault)
        return False


def _record_path(home: Path, port: int) -> Path:
    """`server.json`, unless it names another server that is running: then a file with our port in its name."""
    first = home / SERVER_RECORD
    try:
        pid = int(json.loads(first.read_text())["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return first
    return first if pid == os.getpid() else home / f"server-{port}.json"


def _write_record(path: Path, binding: Binding, instance_id: str) -> None:
    record = {
        "pid": os.getpid(),
        "port": binding.port,
        "url": binding.url,
        "instance_id": instance_id,
        "started_at": round(time.time(), 3),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(record) + "\n")
        partial.replace(path)
    except OSError as fault:
        log.warning("server-record-not-written path=%s reason=%s", path, fault.strerror)


def _remove_record(path: Path, instance_id: str) -> None:
    """Remove our own record; another server of the same folder may have written its own since."""
    try:
        if json.loads(path.read_text()).get("instance_id") == instance_id:
            path.unlink()
    except (OSError, ValueError, AttributeError):
        pass
