"""The StateBoard: the last known state of everything, one small immutable value anybody may read.

Written by the actor that knows (supervisor: worker and model; session manager: requests), read by the
HTTP front without asking anyone, so that pages and health checks never wait for the model.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import attrs

from actors.kernel import Signal
from muse.api.template_options import EFFORTS
from muse.chat.channels import can_think
from muse.errors import JsonScalar
from muse.protocol import Ready

WorkerState = Literal["starting", "loading", "ready", "busy", "draining", "restarting", "failed", "stopped"]

ANSWERING: Final[frozenset[WorkerState]] = frozenset({"ready", "busy"})
"""States in which the worker takes requests."""


@attrs.frozen(kw_only=True)
class WorkerStatus:
    """The worker as people may see it. fraction: 0..1 of the load, or None. epoch counts the
    processes started so far; reason says in words why the state is what it is (failures, restarts).
    exhausted: the system refused the last start a process, thread, open file or memory; reason says which."""

    state: WorkerState = "starting"
    reason: str | None = None
    exhausted: bool = False
    stage: str | None = None
    fraction: float | None = None
    epoch: int = 0

    def as_dict(self) -> dict[str, Any]:
        """JSON form for /health, /api/runtime and /api/events."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class RequestCounts:
    """Turns that the model works on, and the ids of the replies that wait for it, next one first."""

    running: int = 0
    waiting: tuple[str, ...] = ()

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self.waiting)

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"running": self.running, "queued": self.queued, "waiting": list(self.waiting)}


@attrs.frozen(kw_only=True)
class DraftStatus:
    """The draft that the server was given. file: its name. reason: why the model runs without it, None: it runs with
    it."""

    file: str
    reason: str | None = None

    def as_dict(self) -> dict[str, JsonScalar]:
        """JSON form."""
        return {"file": self.file, "used": self.reason is None, "reason": self.reason}


@attrs.frozen(kw_only=True)
class SystemState:
    """Everything on the board. model is None until a worker was ready once, and stays afterwards, so
    that the page keeps its limits while the worker restarts. draft is None if the server was given none."""

    worker: WorkerStatus = attrs.field(factory=WorkerStatus)
    model: Ready | None = None
    draft: DraftStatus | None = None
    requests: RequestCounts = attrs.field(factory=RequestCounts)
    stopping: bool = False

    def model_dict(self) -> dict[str, Any] | None:
        """JSON form of the model, without the template and token lists."""
        model = self.model
        if model is None:
            return None
        return {
            "id": model.model_id,
            "engine": model.engine,
            "engine_version": model.engine_version,
            "files": [attrs.asdict(file) for file in model.files],
            "backend": model.backend,
            "device": model.device,
            "load_ms": model.load_ms,
            "context_length": model.context_length,
            "max_sessions": model.max_sessions,
            "draft_tokens": model.draft_tokens,
            "max_image_cells": model.max_image_cells,
            "patch_level": model.patch_level,
            "memory_bytes": model.memory_bytes,
            "kv_bytes": model.kv_bytes,
            "kv_limit_bytes": model.kv_limit_bytes,
            "supports": attrs.asdict(model.supports),
            "thinks": can_think(model.chat_template),
            "reasoning_strengths": list(EFFORTS) if "reasoning_strength" in (model.chat_template or "") else [],
        }


class StateBoard:
    """Holds one SystemState; `change` replaces it and wakes whoever waits.

    `version` grows by one with each real change, so a reader that slept can tell whether it missed one.
    """

    __slots__ = ("_signal", "_value", "_version")

    def __init__(self) -> None:
        self._value = SystemState()
        self._version = 0
        self._signal = Signal()

    @property
    def value(self) -> SystemState:
        """The state now."""
        return self._value

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._version

    def change(self, **changes: Any) -> None:
        """Replace the named fields of SystemState; equal values are no change."""
        value = attrs.evolve(self._value, **changes)
        if value != self._value:
            self._value = value
            self._version += 1
            self._signal.notify()

    def change_worker(self, **changes: Any) -> None:
        """Replace the named fields of the WorkerStatus."""
        self.change(worker=attrs.evolve(self._value.worker, **changes))

    async def wait_newer(self, version: int) -> int:
        """Wait until `version` is outdated and return the current one."""
        while self._version <= version:
            await self._signal.wait()
        return self._version
