"""Standard streams that are closed or broken: no reason to stop serving, and no place for anything else to land.

With descriptor 0, 1 or 2 closed (`muse serve >&-`), the next file or socket that is opened would get that number, and
whatever prints to it (a library, a child process) would write into it.
"""

from __future__ import annotations

import os
import sys
from typing import IO, Final

_MODES: Final = {0: "r", 1: "w", 2: "w"}


def secure_standard_streams() -> None:
    """Fill each standard descriptor that is closed with the null device. To be called before anything is opened."""
    for number, mode in _MODES.items():
        try:
            os.fstat(number)
        except OSError:
            _to_null(number)
        if (stream := _null_stream(number, mode)) is not None:
            match number:
                case 0:
                    sys.stdin = stream
                case 1:
                    sys.stdout = stream
                case _:
                    sys.stderr = stream


def say(text: str, stream: IO[str]) -> None:
    """A line for the person at the terminal. Where nobody can read it any more (a closed terminal, `| head`, a full
    disk) it is lost, and so are later ones."""
    try:
        stream.write(text + "\n")
        stream.flush()
    except (OSError, ValueError):
        # What the stream still holds goes nowhere, else Python complains at exit, with an exit status of its own.
        _to_null(stream.fileno())


def _null_stream(number: int, mode: str) -> IO[str] | None:
    """For a stream that Python found closed; None: it is there."""
    if (sys.stdin, sys.stdout, sys.stderr)[number] is not None:
        return None
    return open(number, mode, encoding="utf-8", closefd=False)


def _to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)  # children have standard streams, too
