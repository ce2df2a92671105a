"""What the page asks for when it opens: all at once, each thing once, and at a reload nothing that it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import serving
from tests.browser.scripts import ask, pieces, wait_over
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser

RICH = "A formula \\(x^2\\), *words* and code:\n\n```python\nprint(1)\n```\n"
SCRIPT = {"model_id": "scripted-model", "answers": [{"when": "", "tokens": pieces(RICH)}]}

LOADED = """
performance.getEntriesByType("resource").map(({ name, initiatorType, transferSize }) =>
  ({ url: name, by: initiatorType, bytes: transferSize }))
"""
NAMED_MODULES = """
[...document.querySelectorAll("link[rel=modulepreload], script[type=module]")].map(({ href, src }) => href ?? src)
"""


@pytest.fixture(scope="module")
def rich_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose answers need what the page loads late."""
    with serving(SCRIPT, tmp_path_factory.mktemp("rich")) as server:
        yield server


@pytest.fixture
def page(open_page: Callable[..., Page], rich_server: ServerProcess) -> Page:
    """The page of that server, ready to use."""
    page = open_page(rich_server.url)
    page.wait_for_selector(".status.ready")
    return page


def page_files(page: Page) -> dict[str, int]:
    """URL of every file of the page that was loaded, and the bytes that came over the network for it."""
    entries = page.evaluate(LOADED)
    return {entry["url"]: entry["bytes"] for entry in entries if re.search(r"/v-\w+/", entry["url"])}


def test_every_module_is_named_by_the_document_and_every_name_is_a_module(page: Page) -> None:
    """No module has to be fetched to learn of another; a name that is no file would be an error on the console."""
    named = page.evaluate(NAMED_MODULES)
    loaded = [url for url in page_files(page) if url.endswith(".js") and not url.endswith("/boot.js")]
    assert sorted(loaded) == sorted(named)
    assert len(named) == len(set(named)) > 50


def test_nothing_of_the_page_is_fetched_twice_or_without_a_version(page: Page) -> None:
    """Modules, styles and fonts, also those that come with the first code and the first formula."""
    answer = wait_over(ask(page, "show"))
    expect(answer.locator("math")).to_be_visible()
    expect(answer.locator("code span").first).to_be_visible()
    entries = page.evaluate(LOADED)
    urls = [entry["url"] for entry in entries if not re.match(r"/(v1|api)/", urlsplit(entry["url"]).path)]
    assert any("/vendor/temml/" in url for url in urls)
    assert any("/vendor/highlight/" in url for url in urls)
    assert [url for url in urls if not re.match(r"/v-\w{16}/", urlsplit(url).path)] == []
    assert len(urls) == len(set(urls))


def test_a_reload_fetches_nothing_of_the_page_again(page: Page) -> None:
    """All of it comes from the browser's cache, without a question to the server."""
    first = page_files(page)
    assert all(first.values())
    page.reload()
    page.wait_for_selector(".status.ready")
    again = page_files(page)
    assert again.keys() == first.keys()
    assert [url for url, count in again.items() if count > 0] == []


def test_the_chat_is_asked_for_before_the_page_is_complete(page: Page) -> None:
    """The question does not wait for the modules that will show the answer."""
    wait_over(ask(page, "show"))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/app.js", hold)
    with page.expect_response(re.compile(r"/v1/sessions/page-")) as told:
        page.reload(wait_until="commit")
    assert told.value.status == 200
    assert page.locator(".composer").count() == 0
    [route] = held
    route.continue_()
    expect(page.locator(".bubble")).to_have_text(["show"])
