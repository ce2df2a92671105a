"""Runs the page's unit tests (units/*.test.mjs) in Node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parent / "units"


@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.glob("*.test.mjs")))
def test_units_of_the_page(name: str) -> None:
    """Stream reader, completion client and Markdown, each by its own properties."""
    node = shutil.which("node")
    if node is None:
        if os.environ.get("MUSE_REQUIRE_BROWSER") == "1":
            pytest.fail("node is not on the path")
        pytest.skip("node is not on the path")
    run = subprocess.run([node, "--test", str(UNITS / name)], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout[-6000:]
