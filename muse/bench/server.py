"""A server of the benchmark's own: `muse serve` on a free port, with a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from muse.bench.client import Connection
from muse.settings import PROJECT_ROOT

START_S: Final = 120.0


@attrs.frozen(kw_only=True)
class BenchServer:
    """port: of the HTTP front. home: its folder. pid: of the main process."""

    port: int
    home: Path
    pid: int

    async def wait_ready(self) -> None:
        """Wait until the model answers."""
        with trio.fail_after(START_S):
            while True:
                async with Connection(port=self.port) as connection:
                    status, body = await connection.request("GET", "/ready")
                if status == 200:
                    return
                worker: dict[str, Any] = json.loads(body)["worker"]
                if worker["state"] == "failed":
                    raise RuntimeError(f"the model could not be loaded: {worker['reason']}")
                await trio.sleep(0.1)


@asynccontextmanager
async def bench_server(arguments: Sequence[str]) -> AsyncGenerator[BenchServer]:
    """Start a server, give it ready, stop it."""
    with tempfile.TemporaryDirectory(prefix="muse-bench-") as folder:
        home = Path(folder)
        env = {**os.environ, "MUSE_HOME": folder, "PYTHONPATH": str(PROJECT_ROOT)}
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "muse", "serve", "--port", "0", "--no-open", "--log-level", "WARNING", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=env,
        )
        try:
            with trio.fail_after(START_S):
                while not (home / "server.json").exists():
                    if process.poll() is not None:
                        raise RuntimeError(f"the server ended with status {process.returncode}")
                    await trio.sleep(0.05)
            record: dict[str, Any] = json.loads((home / "server.json").read_text())
            server = BenchServer(port=int(record["port"]), home=home, pid=process.pid)
            await server.wait_ready()
            yield server
        finally:
            with trio.CancelScope(shield=True):
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                await process.wait()
