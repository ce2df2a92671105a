"""Starts a process whose group ends with the main process: behind the guard (muse/worker/guard.py)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

import trio

from muse.worker import guard


async def open_guarded_process(command: Sequence[str], *, env: Mapping[str, str], cwd: str) -> tuple[trio.Process, int]:
    """Start `command` (absolute program first) with its guard in a process group of their own (Ctrl-C in the terminal
    is not for them), standard streams as pipes.

    Returns the process, which is the guard, and the write end of its life pipe, which the caller closes at the end.
    Raises OSError, or RuntimeError where no thread can be started.
    """
    read_fd, write_fd = os.pipe()
    try:
        process = await trio.lowlevel.open_process(
            guard.command([*command], life_fd=read_fd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(read_fd,),
            process_group=0,
            env=dict(env),
            cwd=cwd,
        )
    except BaseException:
        os.close(write_fd)
        raise
    finally:
        os.close(read_fd)
    return process, write_fd
