"""Work in threads of the main process, where a thread may be refused (RLIMIT_NPROC, pids.max of a container)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar, TypeVarTuple, Unpack

import trio

from muse.errors import Unavailable
from muse.exhaustion import explain, is_exhaustion, reason_of

log = logging.getLogger("muse.system")

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

PAUSES_S: Final = (0.05, 0.2, 0.8, 2.0)
"""Between tries for a thread: threads of others end meanwhile."""


async def run_in_thread(
    work: Callable[[Unpack[Arguments]], Result],
    *arguments: *Arguments,
    limiter: trio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> Result:
    """As `trio.to_thread.run_sync`. Raises Unavailable `out_of_threads` where the system gives no thread, after some
    tries; what `work` raises comes through."""
    started = False

    def run() -> Result:
        nonlocal started
        started = True
        return work(*arguments)

    reason = ""
    for pause_s in (0.0, *PAUSES_S):
        await trio.sleep(pause_s)
        try:
            return await trio.to_thread.run_sync(run, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
        except RuntimeError as fault:
            if started or not is_exhaustion(fault):
                raise
            reason = reason_of(fault)
    raise Unavailable("out_of_threads", f"The server could not start a thread: {explain(reason)}.")


@contextmanager
def suppress_no_threads(event: str) -> Generator[None]:
    """For work that can be left out: where no thread could be had, log the event and go on."""
    try:
        yield
    except Unavailable as fault:
        log.warning("%s reason=%s", event, fault.detail)
