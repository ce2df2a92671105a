"""When the system refuses a process, a thread, a descriptor, memory or disk: a matter of the moment, never a bug.

Such a refusal says nothing about what was asked for. Whoever meets one waits and tries again, or answers "try later".
"""

from __future__ import annotations

import errno
from typing import Final

_ERRNOS: Final = frozenset(
    {
        errno.EAGAIN,  # processes or threads (RLIMIT_NPROC, pids.max)
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOSPC,
        errno.EDQUOT,
    }
)
_NO_THREAD: Final = "can't start new thread"
"""CPython's words; it has no error of its own for this."""


def is_exhaustion(fault: BaseException) -> bool:
    """Whether this is the system's refusal of a resource."""
    if isinstance(fault, OSError):
        return fault.errno in _ERRNOS
    return isinstance(fault, MemoryError) or (isinstance(fault, RuntimeError) and str(fault) == _NO_THREAD)


def reason_of(fault: BaseException) -> str:
    """What happened in words for people: without a path, without `[Errno 2]`, and without the name of the exception if
    it has words of its own."""
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return str(fault) or type(fault).__name__
