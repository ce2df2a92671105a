"""Signs of life from work that tells nothing of itself, such as a picture or a prompt that is read in one go.

On a slow machine that takes minutes, in which no event comes. Whoever watches the worker judges it by its progress, so
it is told that there is some while the process computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from muse.exhaustion import is_exhaustion

EVERY_S: Final = 10.0
"""Far less than a request may be without progress (actors/supervisor/watchdog.py)."""


@contextmanager
def signs_of_life(
    activity: Callable[[], object], say: Callable[[], None], *, every_s: float = EVERY_S
) -> Generator[None]:
    """Within the block, call `say` every so often, from another thread, but only if `activity` has changed since it was
    looked at last, or is None: nobody can tell. The first look is after `every_s`, so that short work is not held up by
    it. Where the system gives no thread, the work goes on without."""
    over = threading.Event()

    def watch() -> None:
        if over.wait(every_s):
            return
        before = activity()
        while not over.wait(every_s):
            now = activity()
            if now != before or now is None:
                say()
            before = now

    thread = threading.Thread(target=watch, name="signs of life", daemon=True)
    try:
        thread.start()
    except RuntimeError as fault:
        if not is_exhaustion(fault):
            raise
        over.set()
    try:
        yield
    finally:
        if not over.is_set():
            over.set()
            thread.join()
