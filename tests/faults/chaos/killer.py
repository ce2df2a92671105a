"""Killer: every few seconds a random signal to a random process of the server's tree, the main process excepted."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from tests.faults.chaos.processes import Process, send, send_more, tree_of

_SIGNALS: Final[dict[signal.Signals, int]] = {
    signal.SIGKILL: 65,
    signal.SIGSEGV: 12,
    signal.SIGSTOP: 13,
    signal.SIGTERM: 10,
}
"""How often each is sent, in parts of 100."""
_STOPPED_S: Final = (0.2, 1.0, 3.0, 8.0)
"""How long a stopped process stays so. Longer than the last one is a hang, which has tests of its own."""
_ALL_AT_ONCE: Final = 0.04
"""The part of rounds in which the whole tree is killed at once."""

_IN_LOAD: Final = 0.2
"""The part of rounds that a patient killer does not wait in."""
_ANSWERS_S: Final = 0.5
"""How long it lets a worker answer at most."""


@attrs.frozen(kw_only=True)
class Hurt:
    """One signal. at: of the Trio clock. duration_s: of a stop."""

    at: float
    name: str
    pid: int
    signal: str
    is_helper: bool
    duration_s: float | None = None


class Killer:
    """Run it in a task; `hurts` is the record. wait_answering: mostly waited for before a signal, so that answers are
    met on a machine where loading takes longer than a round; None: nothing is waited for."""

    def __init__(
        self,
        main_pid: int,
        chance: random.Random,
        every_s: float,
        wait_answering: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.hurts: list[Hurt] = []
        self._wait_answering = wait_answering
        self._main_pid = main_pid
        self._chance = chance
        self._every_s = every_s

    async def run(self) -> None:
        """Until cancelled; then nobody is left stopped."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(self._every_s * self._chance.uniform(0.7, 1.3))
                if self._wait_answering is not None and self._chance.random() > _IN_LOAD:
                    await self._wait_answering()
                    await trio.sleep(self._chance.random() * _ANSWERS_S)
                tree = tree_of(self._main_pid)
                if not tree:
                    continue  # between two workers
                if self._chance.random() < _ALL_AT_ONCE:
                    for process in tree:
                        self._hurt(process, signal.SIGKILL, nursery)
                else:
                    numbers, weights = zip(*_SIGNALS.items(), strict=True)
                    (number,) = self._chance.choices(numbers, weights)
                    self._hurt(self._chosen(tree), number, nursery)

    def _chosen(self, tree: list[Process]) -> Process:
        """One of the worker's or one of the helpers, as often, however many these are."""
        groups = [[process for process in tree if process.is_helper is is_helper] for is_helper in (False, True)]
        return self._chance.choice(self._chance.choice([group for group in groups if group]))

    def _hurt(self, process: Process, number: signal.Signals, nursery: trio.Nursery) -> None:
        descriptor = send(process.pid, number)
        if descriptor is None:
            return
        duration = self._chance.choice(_STOPPED_S) * self._chance.random() if number == signal.SIGSTOP else None
        self.hurts.append(
            Hurt(
                at=trio.current_time(),
                name=process.name,
                pid=process.pid,
                signal=number.name,
                is_helper=process.is_helper,
                duration_s=duration,
            )
        )
        if duration is None:
            os.close(descriptor)
        else:
            nursery.start_soon(_continue_later, descriptor, duration)

    def counts(self) -> Counter[tuple[str, str]]:
        """How often which process got which signal."""
        return Counter((hurt.name, hurt.signal) for hurt in self.hurts)


async def _continue_later(descriptor: int, after_s: float) -> None:
    try:
        await trio.sleep(after_s)
    finally:
        send_more(descriptor, signal.SIGCONT)
        os.close(descriptor)
