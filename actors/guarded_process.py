"""Processes behind the guard: each in a group of its own, which is killed when the main process is gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

import trio

from muse.settings import PROJECT_ROOT
from muse.worker import guard


def python_environment() -> dict[str, str]:
    """Our own environment, in which Python finds the project's modules, too."""
    search = [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search)}


async def start_guarded(command: Sequence[str], *, env: Mapping[str, str], cwd: str) -> tuple[trio.Process, int]:
    """Start `command` (absolute program first) behind a guard, with a pipe for each standard stream.

    Returns the guard's process, whose id is that of the group, and our end of the life pipe: the guard kills the group
    when it closes. Raises OSError, or RuntimeError where no thread can be started.
    """
    read_fd, write_fd = os.pipe()
    try:
        process = await trio.lowlevel.open_process(
            guard.command([*command], life_fd=read_fd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(read_fd,),
            process_group=0,  # Ctrl-C in the terminal is not for it
            env=dict(env),
            cwd=cwd,
        )
    except BaseException:
        os.close(write_fd)
        raise
    finally:
        os.close(read_fd)
    return process, write_fd


def close_guarded(process: trio.Process, life_fd: int) -> None:
    """Close the life pipe and the pipes of the standard streams."""
    os.close(life_fd)
    for stream in (process.stdin, process.stdout, process.stderr):
        close_pipe(stream)


def close_pipe(stream: trio.abc.AsyncResource | None) -> None:
    """Close one of a process's pipes at once: `aclose` would add a checkpoint, which fails under cancellation."""
    assert isinstance(stream, trio.lowlevel.FdStream)
    stream.close()
