"""Jobs for tests, as hostile as can be: `python -m muse.isolated tests.isolated.jobs`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time

from muse.errors import ClientFault


def echo(payload: bytes) -> bytes:
    return payload


def pid(_payload: bytes) -> bytes:
    return str(os.getpid()).encode()


def hold_interpreter(_payload: bytes) -> bytes:
    """One operation that runs no other thread meanwhile."""
    return str(10 ** (10**8)).encode()


def sleep(payload: bytes) -> bytes:
    time.sleep(float(payload))
    return payload


def burn(payload: bytes) -> bytes:
    """Use so many seconds of processor time."""
    end = time.process_time() + float(payload)
    while time.process_time() < end:
        pass
    return b""


def grow(_payload: bytes) -> bytes:
    """Take memory until somebody ends it."""
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(os.urandom(1024) * 16 * 1024))
        time.sleep(0.01)


def keep(payload: bytes) -> bytes:
    """Keep memory after the job."""
    _kept.append(bytearray(b"x" * int(payload)))
    time.sleep(0.2)
    return b""


_kept: list[bytearray] = []


def allocate(payload: bytes) -> bytes:
    return bytes(bytearray(int(payload)))


def crash(_payload: bytes) -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def stop(_payload: bytes) -> bytes:
    os.kill(os.getpid(), signal.SIGSTOP)
    return b"went on"


def refuse(_payload: bytes) -> bytes:
    raise ClientFault(
        "no", "Not like this.", param="messages[1]", status=409, retry_after_s=3, data={"n": 2, "s": None}
    )


def fail(payload: bytes) -> bytes:
    raise KeyError(payload.decode())


def complain(_payload: bytes) -> bytes:
    """More on stderr than a pipe holds, and a print."""
    sys.stderr.write("x" * 1_000_000 + "\n")
    sys.stdout.write("print\n")
    sys.stdout.flush()
    return b"said"


def limits(_payload: bytes) -> bytes:
    """Seconds of processor time that are left, bytes of a core file."""
    left = resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time()
    return json.dumps([left, resource.getrlimit(resource.RLIMIT_CORE)[0]]).encode()


def garbage(_payload: bytes) -> bytes:
    """Write what is no frame to every descriptor."""
    for fd in range(1, 20):
        try:
            os.write(fd, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(60)
    return b""


_ALL = (
    *(echo, pid, burn, hold_interpreter, sleep, grow, keep, allocate, crash, stop, refuse, fail, complain, limits),
    garbage,
)
JOBS = {job.__name__: job for job in _ALL}
