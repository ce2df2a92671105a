"""The program, its worker, or all of them killed in an answer: the client has the memorised text, byte for byte.

The tests of tests/faults/test_recital.py, over the double. The program names ids only at the end of an answer, so that
the continuation begins with exact ones shows that those read from its text are right.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.supervisor.launch import WorkerCommand
from muse.settings import Settings
from tests.faults.core import running_core
from tests.faults.test_recital import TRIES, Whom, recite
from tests.native.doubles import LEVELS, make_artifact, make_program

pytestmark = pytest.mark.thorough

PLACES: tuple[tuple[str, tuple[int, ...], Whom], ...] = (
    ("plan", (5,), "group"),
    ("plan", (40,), "engine"),
    ("german", (20,), "worker"),
    ("japanese", (6,), "engine"),
    ("emoji", (4,), "group"),
    ("story", (40, 200), "engine"),
)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_killed_recital_is_word_for_word(tmp_path: Path, level: str) -> None:
    """In reasoning and answer, among characters of several tokens, twice in one answer."""
    settings = Settings(
        engine="native",
        model=make_artifact(tmp_path),
        worker_bin=make_program(tmp_path, level=level, token_ms=4),
        context=4096,
        home=tmp_path / "home",
    )
    async with running_core(WorkerCommand(settings), settings, guard_s=400) as core:
        await core.wait_worker("ready")
        for name, places, whom in PLACES:
            for _ in range(TRIES):
                if len(await recite(core, name, places, whom)) == len(places):
                    break
            else:
                raise AssertionError(f"{name}: every kill came too late")
