"""Which Chromium the measurements and tests of the page use, and how it is started."""

from __future__ import annotations

import os
import shutil
from typing import Final

FLAGS: Final = (
    # Machines that test run as root. The rest keeps the browser from looking for the outside world.
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_path() -> str | None:
    """The browser named by MUSE_TEST_CHROMIUM, else the first Chromium or Chrome of PATH, else None."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return os.environ.get("MUSE_TEST_CHROMIUM") or next((path for path in found if path), None)
