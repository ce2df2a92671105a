"""Runs the stages that are not ready, one after another, under the set-up lock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from bootstrap.children import Runner, begin_log
from bootstrap.console import Console, megabytes
from bootstrap.faults import SetupFault, StageFailed
from bootstrap.layout import Layout
from bootstrap.setup_lock import SetupLock
from bootstrap.stages import Stage
from bootstrap.stop import StopRequest

# Measured: a whole set-up with the test tools, and what pip and the unpacking need on the way.
NEEDED_BYTES = 900_000_000


def is_set_up(stages: Sequence[Stage]) -> bool:
    """Whether nothing is to be done; touches no lock and no network."""
    return all(stage.is_ready() for stage in stages)


def set_up(layout: Layout, stages: Sequence[Stage], *, purpose: str, console: Console) -> bool:
    """Make every stage ready and clear away what killed set-ups left; says whether there was anything to do.

    Raises StageFailed with the stage's number and title, Stopped when the end was asked for (no tool is left then),
    and SetupFault for what belongs to no stage (folders, lock).
    """
    if is_set_up(stages) and not layout.left_overs():
        return False
    layout.prepare()
    with StopRequest() as stop, SetupLock(layout.setup_lock, purpose=purpose, console=console, stop=stop) as lock:
        begin_log(layout)
        shutil.rmtree(layout.scratch, ignore_errors=True)
        layout.scratch.mkdir()
        runner = Runner(layout=layout, console=console, stop=stop, lock=lock)
        for number, stage in enumerate(stages, 1):
            stop.check()
            if stage.is_ready():
                console.already(number, len(stages), stage.title)
                continue
            _check_room(layout)
            console.begin(number, len(stages), stage.title)
            try:
                result = _make(stage, runner)
            except SetupFault as fault:
                console.end_failed()
                raise StageFailed(number, len(stages), stage.title, fault) from fault
            console.end(result)
        for path in (layout.scratch, *layout.left_overs()):
            shutil.rmtree(path, ignore_errors=True)
    return True


def _make(stage: Stage, runner: Runner) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S")
    with runner.layout.log.open("a", encoding="utf-8") as log:
        log.write(f"\n== {stage.title}, {began}\n")
    try:
        result = stage.make(runner)
    except OSError as fault:
        raise SetupFault(
            f"{fault.strerror or fault} ({fault.filename or 'no file named'}).",
            advice="Check the disk's room and who owns the folder, then run the same command again",
        ) from fault
    if not stage.is_ready():
        raise SetupFault(
            "The stage ended, but what it made is not as it should be.",
            advice="Delete the home folder (.runtime, or $MUSE_HOME) and run the same command again",
        )
    return result


def _check_room(layout: Layout) -> None:
    free = shutil.disk_usage(layout.home).free
    if free < NEEDED_BYTES / 3:
        raise SetupFault(
            f"Only {megabytes(free)} are free on the disk of {layout.home}.",
            advice=f"Make room for {megabytes(NEEDED_BYTES)}, or set MUSE_HOME to a folder on another disk",
        )
