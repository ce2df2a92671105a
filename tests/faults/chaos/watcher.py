"""Watcher: follows the worker's states, starts a failed model again as a person would, and samples the main process."""

from __future__ import annotations

import json
from typing import Final

import attrs
import httpx
import trio

from tests.faults.chaos.processes import MainProcess, tree_of
from tests.server_process import ServerProcess

_OPERATOR_WAITS_S: Final = 1.0
_SAMPLE_EVERY_S: Final = 1.0
_ORPHAN_S: Final = 10.0
"""A worker whose guard was killed may end what it was saying; then it has to be gone."""
_SEEN_LATE_S: Final = 1.0
"""The states come over a connection: what the server knew may be seen so much later."""


@attrs.frozen(kw_only=True)
class WorkerState:
    """One state, at a time of the Trio clock."""

    at: float
    state: str
    epoch: int
    reason: str | None


class Watcher:
    """Run its tasks with `run`. states, samples: in order. orphans: what outlived its parents for too long."""

    def __init__(self, server: ServerProcess) -> None:
        self.states: list[WorkerState] = []
        self.samples: list[tuple[float, MainProcess]] = []
        self.orphans: list[str] = []
        self.restarts_asked = 0
        self._news = trio.Event()
        self._server = server

    async def run(self) -> None:
        """Until cancelled. A lost connection is a failure of the server and raises."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, nursery)
            nursery.start_soon(self._sample)

    async def _follow(self, nursery: trio.Nursery) -> None:
        async with httpx.AsyncClient(base_url=self._server.url, timeout=60.0) as client:
            async with client.stream("GET", "/api/events") as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: {") and "worker" in (state := json.loads(line[6:])):
                        self._note(state["worker"], nursery)

    def _note(self, worker: dict[str, object], nursery: trio.Nursery) -> None:
        state, epoch, reason = worker["state"], worker["epoch"], worker["reason"]
        assert isinstance(state, str)
        assert isinstance(epoch, int)
        last = self.states[-1] if self.states else None
        if last is None or (last.state, last.epoch) != (state, epoch):
            words = None if reason is None else str(reason)
            self.states.append(WorkerState(at=trio.current_time(), state=state, epoch=epoch, reason=words))
            self._news.set()
            self._news = trio.Event()
            if state == "failed":
                nursery.start_soon(self._ask_for_another_try)

    async def wait_answering(self) -> None:
        """Wait until the worker takes requests."""
        while not self.states or self.states[-1].state not in ("ready", "busy"):
            await self._news.wait()

    async def _ask_for_another_try(self) -> None:
        await trio.sleep(_OPERATOR_WAITS_S)
        self.restarts_asked += 1
        async with httpx.AsyncClient(base_url=self._server.url, timeout=60.0) as client:
            (await client.post("/api/worker/restart", json={})).raise_for_status()

    async def _sample(self) -> None:
        alone_since: dict[int, float] = {}
        while True:
            now = trio.current_time()
            self.samples.append((now, MainProcess.now(self._server.pid)))
            of_tree = {process.pid for process in tree_of(self._server.pid)} | {self._server.pid}
            alone = self._server.processes() - of_tree
            alone_since = {pid: alone_since.get(pid, now) for pid in alone}
            for pid, since in alone_since.items():
                words = f"process {pid} outlived its parents"
                if now - since > _ORPHAN_S and words not in self.orphans:
                    self.orphans.append(words)
            await trio.sleep(_SAMPLE_EVERY_S)

    def workers_lost(self, start: float, end: float) -> int:
        """At most so many workers died between these times."""
        before = [state.epoch for state in self.states if state.at <= start]
        until = [state.epoch for state in self.states if state.at <= end + _SEEN_LATE_S]
        # The last one may be dying.
        return until[-1] - (before[-1] if before else until[0]) + 1

    def had_failed(self, start: float, end: float) -> bool:
        """Was the worker `failed` at any time between these?"""
        for state, after in zip(self.states, [*self.states[1:], None], strict=True):
            ended = after.at if after else float("inf")
            if state.state == "failed" and state.at <= end + _SEEN_LATE_S and ended + _SEEN_LATE_S >= start:
                return True
        return False

    def deaths(self) -> int:
        """Workers that were replaced."""
        return self.states[-1].epoch - self.states[0].epoch

    def times_failed(self) -> int:
        """How often the model was given up."""
        return sum(state.state == "failed" for state in self.states)
