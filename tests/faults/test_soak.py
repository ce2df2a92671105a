"""A short soak in the test run; the long one is run by hand (soak.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.soak import soak

pytestmark = pytest.mark.thorough

REQUESTS = 500
KILLS = 0.01


async def test_500_requests_with_kills_leave_nothing(tmp_path: Path) -> None:
    """Every answer is right, and memory, descriptors, tasks and processes are flat."""
    result = await soak(REQUESTS, KILLS, tmp_path, guard_s=120)
    assert result.kills > 0
    assert result.resumed > 0
    assert result.faults() == [], result.table()
