"""The chaos run in the test run, and long ones by hand: `MUSE_CHAOS_S=1800 pytest -m slow tests/faults/chaos`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.chaos.report import is_clean, summary
from tests.faults.chaos.run import Model, Options, chaos

LONG_S = float(os.environ.get("MUSE_CHAOS_S", "120"))


async def test_some_seconds_of_chaos(tmp_path: Path) -> None:
    """Kills in quick succession: no answer wrong, cut or failed beyond the rules, and nothing left over."""
    options = Options(
        duration_s=7.0,
        clients=4,
        kill_every_s=0.7,
        is_patient=True,
        home=tmp_path / "home",
        records=tmp_path / "failures",
    )
    result = await chaos(options)
    assert is_clean(result), summary(result)
    assert result.killer.hurts
    assert result.log.rights


@pytest.mark.slow
@pytest.mark.parametrize("model", ["nano", "nano-draft", "builtin"])
async def test_chaos(tmp_path: Path, builtin_model: Path, model: Model) -> None:
    """The same for as long as asked, without and with a draft model, and with a model whose answers nobody knows."""
    options = Options(
        duration_s=LONG_S,
        model=model,
        builtin_model=builtin_model,
        is_patient=True,
        home=tmp_path / "home",
        records=tmp_path / "failures",
    )
    result = await chaos(options)
    assert is_clean(result), summary(result)
    assert result.log.resumed
    print(summary(result))
