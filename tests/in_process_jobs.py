"""Isolated jobs without a process, for tests of other things: the same codec and the same jobs."""

from __future__ import annotations

import trio

from actors.transcripts.renderer import Renderer
from muse.chat.render_job import JOBS


class InProcessJobs:
    """Runs the rendering jobs at once. For templates that can be trusted."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes:
        await trio.lowlevel.checkpoint()
        assert limit_s > 0
        return JOBS[job](payload)

    def warm_up_with(self, job: str, payload: bytes, *, limit_s: float) -> None:
        assert job in JOBS


def in_process_renderer() -> Renderer:
    """A renderer for a TranscriptStore that starts no process."""
    return Renderer(InProcessJobs())
