"""A connection like a bad phone line, and an answer as long as a book: the page stays usable, and all of it comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from muse.bench.browser import collected_heap_mb
from muse.bench.page import HEAP_GROWTH
from muse.bench.page_script import page_script
from tests.browser.files import composer
from tests.browser.scripts import HANG_GUARD_MS, LINES, ask, wait_over
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

LONG_TOKENS = 30_000


def test_a_slow_connection_loses_nothing(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The answer falls behind the model and still comes whole; Stop and a reload work over it as well."""
    page = chromium_page
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    slow = {"offline": False, "latency": 300, "downloadThroughput": 24_000, "uploadThroughput": 12_000}
    devtools.send("Network.emulateNetworkConditions", slow)
    lines = ask(page, "lines")
    expect(lines.locator(".prose")).to_contain_text("Line 3")
    composer(page).fill("still typing")
    expect(composer(page)).to_have_value("still typing")
    page.reload()
    lines = wait_over(page.locator(".from-model"))
    assert lines.locator(".prose p").all_inner_texts() == LINES
    expect(composer(page)).to_have_value("still typing")
    endless = ask(page, "endless")
    expect(endless.locator(".prose")).to_contain_text("on and")
    composer(page).press("Escape")
    wait_over(endless, "stopped")
    chat_server.wait_idle()


def test_a_very_long_answer_comes_whole(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """30,000 tokens as fast as they come, with typing in between, and little more memory than after a reload; how quick
    that is, `muse bench page` measures."""
    script = page_script(LONG_TOKENS)
    script["answers"][0]["token_ms"] = 0.2
    page = open_page(scripted_server(script).url)
    page.wait_for_selector(".status.ready")
    answer = ask(page, "everything, please")
    expect(answer.locator("h3").nth(20)).to_be_attached()
    composer(page).press_sequentially("typed meanwhile")
    expect(composer(page)).to_have_value("typed meanwhile")
    expect(answer).to_have_attribute("data-phase", "writing")
    expect(answer).to_have_attribute("data-phase", "done", timeout=10 * HANG_GUARD_MS)
    text = "".join(script["answers"][0]["tokens"])
    assert answer.locator("h3").count() == text.count("## Part")
    answer.get_by_role("button", name="Source text").click()
    assert answer.locator("pre.source").evaluate("(e) => e.textContent") == text
    answer.get_by_role("button", name="Source text").click()
    expect(answer.locator("h3").first).to_be_attached()
    grown = collected_heap_mb(page)
    page.reload()
    expect(answer.locator("h3").first).to_be_attached()
    assert grown <= HEAP_GROWTH * collected_heap_mb(page)
