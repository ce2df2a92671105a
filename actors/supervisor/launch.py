"""How a worker is started: its command line, its environment, its record for the next start."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from actors.guarded_process import python_environment
from actors.supervisor.draft import DraftChoice
from actors.supervisor.left_over import LeftOver
from actors.supervisor.link import WorkerLink
from actors.threads import run_in_thread, suppress_no_threads
from muse.settings import PROJECT_ROOT, Settings


class WorkerCommand:
    """Starts workers of one kind. draft: whether they have one; whoever changes it changes the next. `extra_env` is
    for tests."""

    def __init__(self, settings: Settings, *, extra_env: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self.draft = DraftChoice(settings.draft)
        self._extra_env = dict(extra_env or {})
        self._left_over = LeftOver(settings.home / "run")

    @property
    def engine(self) -> str:
        """Which engine the workers run."""
        return self._settings.engine

    @property
    def wanted_context(self) -> int | None:
        """Tokens a conversation was asked to hold, if anybody asked."""
        return self._settings.context

    def arguments(self) -> list[str]:
        """The worker's command line."""
        settings = self._settings
        command = [settings.worker_python, "-m", "muse.worker", "--engine", settings.engine]
        command += ["--script" if settings.engine == "scripted" else "--model", str(settings.model_path)]
        if self.draft.used is not None:
            command += ["--draft", str(self.draft.used)]
        if settings.keep_draft:
            command += ["--keep-draft"]
        if settings.mmproj is not None:
            command += ["--mmproj", str(settings.mmproj)]
        if settings.picture_positions is not None:
            command += ["--picture-positions", settings.picture_positions]
        if settings.context is not None:
            command += ["--context", str(settings.context)]
        if settings.kv_memory_mib is not None:
            command += ["--kv-mib", str(settings.kv_memory_mib)]
        if settings.threads is not None:
            command += ["--threads", str(settings.threads)]
        if settings.worker_bin is not None:
            command += ["--worker-bin", str(settings.worker_bin)]
        command += [f"--worker-arg={flag}" for flag in settings.worker_args]
        if settings.model_id is not None:
            command += ["--model-id", settings.model_id]
        return command

    async def start(self) -> WorkerLink:
        """Start one worker behind its guard. Raises OSError."""
        env = {**python_environment(), "MUSE_HOME": str(self._settings.home), **self._extra_env}
        link = await WorkerLink.open(self.arguments(), env=env, cwd=str(PROJECT_ROOT))
        # A thread, since macOS has to ask `ps`; shielded, since the link must reach whoever ends it.
        with trio.CancelScope(shield=True), suppress_no_threads("worker-record-not-written"):
            await run_in_thread(self._left_over.note, link.pid)
        return link

    def ended(self) -> None:
        """The worker that was started last is gone."""
        self._left_over.forget()

    async def end_left_over(self) -> None:
        """End what an earlier server left behind, before anything is started."""
        with suppress_no_threads("left-overs-not-looked-for"):
            await run_in_thread(self._left_over.end)
