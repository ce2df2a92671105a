"""Makes the README's two pictures: `.runtime/venv/bin/python -m tools.screenshots`, after `setup --tests`.

A real server, the real page, a real browser; only the answers are given (demo.py). The pictures go to docs/images.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from muse.bench.browser import chromium_path, running_chromium
from muse.bench.server import bench_server
from muse.settings import PROJECT_ROOT
from tools.screenshots.demo import SCRIPT, SORTING, WALK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

FOLDER: Final = PROJECT_ROOT / "docs" / "images"
LARGEST_BYTES: Final = 150_000
WIDE: Final[dict[str, Any]] = {
    "viewport": {"width": 1280, "height": 800},
    "device_scale_factor": 1.5,
    "color_scheme": "light",
}
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "color_scheme": "dark",
    "is_mobile": True,
    "has_touch": True,
}


def _save(page: Page, name: str) -> None:
    page.evaluate("document.fonts.ready")
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    path = FOLDER / name
    page.screenshot(path=path, caret="hide")
    if path.stat().st_size > LARGEST_BYTES:
        raise RuntimeError(f"{path} has {path.stat().st_size} bytes; at most {LARGEST_BYTES} are wanted")


def _open(browser: Browser, url: str, circumstances: dict[str, Any]) -> Page:
    page = browser.new_page(reduced_motion="reduce", **circumstances)
    page.goto(url)
    page.wait_for_selector(".status.ready")
    return page


def _ask(page: Page, question: str) -> Locator:
    page.get_by_label("Message", exact=True).fill(question)
    page.get_by_role("button", name="Send").click()
    answer = page.locator('.from-model[data-phase="done"]')
    answer.wait_for()
    page.wait_for_selector(".status.ready")
    return answer


def _take(url: str) -> None:
    path = chromium_path()
    if path is None:
        raise RuntimeError("no Chromium found; install one or set MUSE_TEST_CHROMIUM to its path")
    with running_chromium(path) as browser:
        page = _open(browser, url, WIDE)
        answer = _ask(page, SORTING)
        answer.locator("math").first.wait_for()
        answer.locator(".hl-keyword").first.wait_for()
        _save(page, "chat-light.png")
        page = _open(browser, url, PHONE)
        # Not by a tap: its mark would stay in the picture.
        _ask(page, WALK).locator(".thought-head").evaluate("(head) => head.click()")
        _save(page, "phone-dark.png")


async def main() -> None:
    """Start the server and take both pictures. Raises RuntimeError without a browser, or if a picture is too large."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="muse-screenshots-") as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        async with bench_server(["--engine", "scripted", "--model", str(script)]) as server:
            await trio.to_thread.run_sync(_take, f"http://127.0.0.1:{server.port}/")


if __name__ == "__main__":
    trio.run(main)
