"""Real Chromium over real servers. A page under test may report no error, break no security rule and reach
no other host; each test that opens a page checks that by using the fixture."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from playwright.sync_api import Browser, Dialog, Error, Page, expect

from muse.bench.browser import chromium_path, running_chromium
from tests.browser.scripts import CHAT_SCRIPT, HANG_GUARD_MS
from tests.browser.thinking_script import thinking_script
from tests.server_process import ServerProcess

WATCH_POLICY = """
window.policyReports = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.policyReports.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

CHATS_OF_TAB = """(() => {
  const left = JSON.parse(sessionStorage.getItem("muse.left-chats") ?? "[]").map(({session}) => session);
  return [sessionStorage.getItem("muse.session"), ...left].map((id) => new URL(`/v1/sessions/${id}`, location).href);
})()"""
"""Addresses of the open chat and of those that were left."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests. Without one they are skipped, unless MUSE_REQUIRE_BROWSER=1."""
    expect.set_options(timeout=HANG_GUARD_MS)
    path = chromium_path()
    if path is None:
        words = "no Chromium found (set MUSE_TEST_CHROMIUM to its path)"
        if os.environ.get("MUSE_REQUIRE_BROWSER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    with running_chromium(path) as browser:
        yield browser


@attrs.define(slots=False)  # Playwright marks the objects whose methods it calls
class PageWatch:
    """What the pages of one test did: errors, requests to other hosts, dialogs. `expected` patterns are let pass."""

    hosts: set[str] = attrs.field(factory=set)
    problems: list[str] = attrs.field(factory=list)
    expected: list[str] = attrs.field(factory=list)

    def follow(self, page: Page) -> None:
        """Begin to note what this page does."""
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda message: self._console(message.type, message.text))
        page.on("request", lambda request: self._request(request.url))
        page.on("dialog", self.on_dialog)
        page.on("popup", lambda popup: self.problems.append(f"a popup: {popup.url}"))

    def on_dialog(self, dialog: Dialog) -> None:
        """A dialog is a problem, and must not block the page."""
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def unexpected(self) -> list[str]:
        """Problems that no expected pattern covers."""
        return [problem for problem in self.problems if not any(pattern in problem for pattern in self.expected)]

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"console {kind}: {text}")

    def _request(self, url: str) -> None:
        if not any(url.startswith(allowed) for allowed in (*self.hosts, "data:", "blob:")):
            self.problems.append(f"request to {url}")


@pytest.fixture
def watch() -> PageWatch:
    """The watch over this test's pages; a test that forces an error names it in `expected`."""
    return PageWatch()


@pytest.fixture
def open_page(
    chromium: Browser, watch: PageWatch, scripted_server: Callable[..., ServerProcess]
) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server in a browser profile of its own: `open_page(url, **context_options)`.

    Asks for `scripted_server` so that pages close before their servers stop: a page would report the loss."""
    del scripted_server
    pages: list[Page] = []

    def open_at(url: str, **options: Any) -> Page:
        settings: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, **options}
        context = chromium.new_context(**settings)
        context.set_default_timeout(HANG_GUARD_MS)
        context.add_init_script(WATCH_POLICY)
        page = context.new_page()
        watch.hosts.add(url)
        watch.follow(page)
        pages.append(page)
        page.goto(url)
        page.wait_for_selector(".composer")
        return page

    yield open_at
    reports: list[str] = []
    for page in pages:
        chats: list[str] = []
        with contextlib.suppress(Error):  # the page was closed by its test
            reports += page.evaluate("window.policyReports")
            chats = page.evaluate(CHATS_OF_TAB)
        page.context.close()
        # An answer does not end with its page: what a test leaves running would hold up those after it.
        with contextlib.suppress(httpx.HTTPError):
            for chat in chats:
                httpx.delete(chat)
    assert reports == []
    assert watch.unexpected() == []


@contextlib.contextmanager
def serving(script: dict[str, Any], folder: Path) -> Iterator[ServerProcess]:
    """A real server over the scripted engine, ready; it must end well."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    server = ServerProcess(["--engine", "scripted", "--model", str(path)], home=folder / "home")
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


@pytest.fixture(scope="session")
def chat_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the answers of scripts.py. Shared."""
    with serving(CHAT_SCRIPT, tmp_path_factory.mktemp("chat")) as server:
        yield server


@pytest.fixture(scope="session")
def thinking_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model thinks: thinking_script.py. Shared."""
    folder = tmp_path_factory.mktemp("thinking")
    with serving(thinking_script(folder), folder) as server:
        yield server


@pytest.fixture
def thinking_page(open_page: Callable[..., Page], thinking_server: ServerProcess) -> Page:
    """The page of `thinking_server`, ready to use, 1280 x 800."""
    page = open_page(thinking_server.url)
    page.wait_for_selector(".status.ready")
    return page


@pytest.fixture
def chromium_page(open_page: Callable[..., Page], chat_server: ServerProcess) -> Page:
    """The page of `chat_server`, ready to use, 1280 x 800."""
    page = open_page(chat_server.url)
    page.wait_for_selector(".status.ready")
    return page
