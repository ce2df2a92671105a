"""JSON answers and forced calls of the llama.cpp engine, killed at random places: whole and valid all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from muse.settings import Settings
from tests.faults.constrained_kills import Whom, kill_at_random
from tests.faults.core import running_core
from tests.faults.test_recital import EachTokenAtOnce
from tests.worker.nano import DRAFT, MODEL

pytestmark = pytest.mark.thorough

WHOM: tuple[Whom, ...] = ("group", "worker", "engine")


@pytest.mark.parametrize(
    ("kills", "has_draft"),
    [(6, False), pytest.param(100, False, marks=pytest.mark.slow), pytest.param(40, True, marks=pytest.mark.slow)],
)
async def test_a_killed_answer_of_muse_nano_is_whole(tmp_path: Path, kills: int, has_draft: bool) -> None:
    """No byte lost or repeated, every one valid; greedy ones mostly as without a kill, but near ties can fall the other
    way."""
    settings = Settings(model=MODEL, draft=DRAFT if has_draft else None, keep_draft=True, home=tmp_path, threads=1)
    async with running_core(EachTokenAtOnce(settings), settings, guard_s=120 + 20 * kills) as core:
        await core.wait_worker("ready")
        counts = await kill_at_random(core, kills, 14, WHOM)
    print(dict(counts))
    assert counts["resumed"] >= kills
    assert counts["as undisturbed"] * 2 >= counts["greedy"]


@pytest.mark.model
@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=pytest.mark.slow)])
async def test_a_killed_answer_of_the_built_in_model_is_whole(builtin_model: Path, tmp_path: Path, kills: int) -> None:
    """No byte lost or repeated, and valid."""
    settings = Settings(model=builtin_model, home=tmp_path, threads=1)
    async with running_core(EachTokenAtOnce(settings), settings, guard_s=120 + 60 * kills) as core:
        await core.wait_worker("ready")
        counts = await kill_at_random(core, kills, 15, WHOM)
    print(dict(counts))
    assert counts["resumed"] >= kills
