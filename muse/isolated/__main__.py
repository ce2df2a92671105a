"""The process side of isolated jobs: `python -m muse.isolated MODULE`; see the package.

One job at a time, from stdin to stdout. Ends when stdin does. Knows nothing of the time and memory a job may take: the
main process measures both and kills.
"""

from __future__ import annotations

from muse.worker.stdio import take_over

_REQUESTS_FD, _RESPONSES_FD = take_over()  # before any other import: a library may print

import importlib  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from typing import Final  # noqa: E402

from muse.errors import MuseError  # noqa: E402
from muse.isolated import frames  # noqa: E402
from muse.isolated.faults import encode_fault  # noqa: E402

Jobs = Mapping[str, Callable[[bytes], bytes]]

ADDRESS_SPACE_BYTES: Final = 2 * 1024**3
"""Bounds what one allocation takes between two looks of the main process. Linux only, macOS does not enforce it."""

TRACEBACK_FRAMES: Final = 8
CPU_SECONDS: Final = 60
"""Of one job. For a process whose main process and guard were both killed by force: nobody else ends it."""


def _answer(jobs: Jobs, name: str, payload: bytes) -> tuple[int, bytes]:
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + CPU_SECONDS, hard))
    try:
        result = jobs[name](payload)
        if len(result) > frames.MAX_PAYLOAD_BYTES:
            return frames.NO_MEMORY, b""
        return frames.RESULT, result
    except MuseError as fault:
        return frames.FAULT, encode_fault(fault)
    except MemoryError:
        return frames.NO_MEMORY, b""
    except Exception as fault:  # the barrier around a stranger's input
        # Where it was and of which kind, without its words, which may be a conversation's.
        place = "".join(traceback.format_tb(fault.__traceback__)[-TRACEBACK_FRAMES:])
        return frames.ERROR, f"{place}{type(fault).__name__}".encode()


def _respond(status: int, payload: bytes) -> None:
    frames.write_all(_RESPONSES_FD, frames.RESPONSE.pack(status, len(payload)))
    frames.write_all(_RESPONSES_FD, payload)


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the conversation
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = ADDRESS_SPACE_BYTES if hard == resource.RLIM_INFINITY else min(hard, ADDRESS_SPACE_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Serve jobs until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _limit_resources()
    jobs: Jobs = importlib.import_module(sys.argv[1]).JOBS
    _respond(frames.READY, str(os.getpid()).encode())
    while (header := frames.read_exactly(_REQUESTS_FD, frames.REQUEST.size)) is not None:
        name_bytes, payload_bytes = frames.REQUEST.unpack(header)
        name = frames.read_exactly(_REQUESTS_FD, name_bytes)
        payload = frames.read_exactly(_REQUESTS_FD, payload_bytes)
        if name is None or payload is None:
            return
        status, answer = _answer(jobs, name.decode(), payload)
        del payload
        _respond(status, answer)
        del answer


main()
