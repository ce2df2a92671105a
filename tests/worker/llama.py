"""What tests of the llama.cpp engine share: its native process, and a long text."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.worker.client import WorkerProcess, children_of, worker_pid

LONG_TEXT = "The quick brown fox jumps over the lazy dog. " * 90  # about 900 tokens


def socket_of(worker: WorkerProcess) -> Path:
    """The native server's socket, from the command line of its process."""
    (engine,) = children_of(worker_pid(worker.process.pid))
    command = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(engine)], capture_output=True, text=True, check=True
    )
    return Path(command.stdout.split('"socket": "')[1].split('"')[0])
