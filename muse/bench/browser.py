"""The Chromium that the measurements and tests of the page use."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
    """The browser named by MUSE_TEST_CHROMIUM, else the first Chromium or Chrome of PATH, else None.

    The shell without windows comes first: the same engine, at half the processor time for each page that is opened."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = (shutil.which(name) for name in names)
    return os.environ.get("MUSE_TEST_CHROMIUM") or next((path for path in found if path), None)


@contextmanager
def running_chromium(path: str) -> Generator[Browser]:
    """Start the browser; ends it. Raises RuntimeError without Playwright."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - belongs to the test tools
    except ImportError:
        raise RuntimeError("Playwright is missing: `python3 -m bootstrap test` installs the test tools") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def collected_heap_mb(page: Page) -> float:
    """JavaScript heap of the page after a forced garbage collection; MB."""
    devtools: Any = page.context.new_cdp_session(page)
    before, used = math.inf, math.inf
    while before == math.inf or used < 0.999 * before:  # much of what the DOM held goes only with a later collection
        before = used
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 50))")
        devtools.send("HeapProfiler.collectGarbage")
        used = float(devtools.send("Runtime.getHeapUsage")["usedSize"])
    devtools.detach()
    return used / 1e6
