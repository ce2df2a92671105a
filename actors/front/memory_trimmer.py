"""Gives memory back to the system after a large request.

glibc keeps what was freed in the arenas of threads, and raises its threshold for mapping blocks of their own with each
large block that is freed: after a few bodies of 50 MiB the process would keep hundreds of MiB for good. Elsewhere
(macOS, musl) free memory is given back by itself, and nothing happens here.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

import trio

from actors.threads import run_in_thread, suppress_no_threads

MMAP_THRESHOLD_BYTES: Final = 1024 * 1024
PAUSE_S: Final = 1.0
_M_MMAP_THRESHOLD: Final = -3
"""From malloc.h."""


@cache
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    # Found by name: musl has neither.
    trim, option = getattr(library, "malloc_trim", None), getattr(library, "mallopt", None)
    if trim is None or option is None:
        return None
    trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
    option.argtypes, option.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    # Once set by hand it is not raised any more, so large blocks go back when they are freed.
    option(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    return trim


class MemoryTrimmer:
    """Gives memory back a while after the last large request has ended. `run` it beside the front."""

    def __init__(self) -> None:
        self._wanted = trio.Event()

    def note_large_request(self) -> None:
        """A request that took much memory has ended."""
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        _trim()  # sets the threshold
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            # What the request held is freed behind its end.
            await trio.sleep(PAUSE_S)
            with suppress_no_threads("memory-not-trimmed"):
                await run_in_thread(trim_memory)


def trim_memory() -> None:
    """Give freed memory back: a few ms, in which the interpreter lock is free."""
    trim = _trim()
    if trim is not None:
        trim(0)
