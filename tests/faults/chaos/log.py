"""Log: the verdict of each answer, a folder with everything known of each failure, and the summary."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.faults.chaos.client import Exchange
from tests.faults.chaos.killer import Hurt
from tests.faults.chaos.watcher import WorkerState

AROUND_S: Final = 6.0
"""How much of the server's log, the signals and the worker's states goes into a failure's record before and after."""


class Log:
    """folder: of the records; made with the first failure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rights: Counter[str] = Counter()
        self.resumed: Counter[str] = Counter()
        self.named: Counter[tuple[str, str]] = Counter()
        self.failures: list[tuple[str, str]] = []
        # Log lines of the server carry the time of day.
        self._clock_offset_s = time.time() - trio.current_time()

    def right(self, kind: str, *, resumed: int = 0) -> None:
        """An answer was complete and right, or as far as it was wanted."""
        self.rights[kind] += 1
        self.resumed[kind] += bool(resumed)

    def ended_as_named(self, kind: str, code: str) -> None:
        """An answer ended in an error that a rule names."""
        self.named[kind, code] += 1

    def failure(
        self,
        kind: str,
        reason: str,
        exchanges: Sequence[Exchange],
        *,
        hurts: Sequence[Hurt],
        states: Sequence[WorkerState],
        server_log: Path,
    ) -> None:
        """Something that must not be. Everything known of it goes into a folder."""
        self.failures.append((kind, reason))
        start = (exchanges[-1].sent if exchanges else trio.current_time()) - AROUND_S
        end = trio.current_time() + AROUND_S
        record = {
            "kind": kind,
            "reason": reason,
            "exchanges": [attrs.asdict(exchange) for exchange in exchanges],
            "signals": [attrs.asdict(hurt) for hurt in hurts if start <= hurt.at <= end],
            "worker": [attrs.asdict(state) for state in states if start <= state.at <= end],
            "server_log": self._lines_between(server_log, start, end),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"failure-{len(self.failures):04}.json"
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False, default=repr))

    def _lines_between(self, server_log: Path, start: float, end: float) -> list[str]:
        first, last = (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at + self._clock_offset_s)) for at in (start, end)
        )
        found: list[str] = []
        is_inside = False
        for line in server_log.read_text(errors="replace").splitlines():
            if line[:2] == "20":  # what goes on over several lines belongs to its first
                is_inside = first <= line[:19] <= last
            if is_inside:
                found.append(line)
        return found
