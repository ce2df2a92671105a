"""JSON answers and forced calls, killed at random places: whole and valid all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.cores import Manner, stand_in_core
from tests.faults.constrained_kills import kill_at_random


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("solo", 1),
        ("dflash", 1),
        pytest.param("solo", 30, marks=pytest.mark.slow),
        pytest.param("dflash", 30, marks=pytest.mark.slow),
    ],
)
async def test_a_killed_constrained_answer_goes_on(artifact: Artifact, tmp_path: Path, kind: str, kills: int) -> None:
    """No byte lost or repeated, every one valid, the greedy ones mostly those of a run without a kill. Slowed down a
    little, so that the kills come in time."""
    async with stand_in_core(artifact(kind), tmp_path, Manner(pause_s=0.002), guard_s=120 + 30 * kills) as core:
        await core.wait_worker("ready")
        counts = await kill_at_random(core, kills, 16, ("group", "worker"))
    print(dict(counts))
    assert counts["as undisturbed"] * 2 >= counts["greedy"]
    assert counts["resumed"] >= kills
