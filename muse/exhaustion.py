"""When the system refuses a process, a thread, a descriptor, memory or disk: a matter of the moment, never a bug.

Such a refusal says nothing about what was asked for. Whoever meets one waits and tries again, or answers "try later".
"""

from __future__ import annotations

import errno
import os
import resource
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
_NO_PROCESS: Final = (
    "this user or container may have no more processes or threads. End other programs, or raise the limit (ulimit -u)"
)
_NO_MEMORY: Final = "there is no memory left. Close other programs"
_DISK_FULL: Final = "the disk is full. Free some space"
_WHAT_TO_DO: Final = {
    _NO_THREAD: _NO_PROCESS,
    os.strerror(errno.EAGAIN): _NO_PROCESS,
    os.strerror(errno.ENOMEM): _NO_MEMORY,
    MemoryError.__name__: _NO_MEMORY,
    os.strerror(errno.EMFILE): "only {files} files may be open (ulimit -n). Raise the limit and start the server again",
    os.strerror(errno.ENFILE): "the whole system has no more files to open. End other programs",
    os.strerror(errno.ENOSPC): _DISK_FULL,
    os.strerror(errno.EDQUOT): _DISK_FULL,
}


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


def explain(words: str) -> str:
    """What is exhausted and what to do, for the middle of a sentence. words: the system's, as from `reason_of`."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for said, advice in _WHAT_TO_DO.items():
        if said in words:
            return advice.format(files=files)
    return "the system has no process, thread, open file or memory left for it. Close other programs"
