"""Whose chat it is when two pages of one tab's storage meet: who lives answers, who sleeps or is left does not."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import ask, session_id, wait_over, wait_until
from tests.browser.test_late_answers import HOLD_LOCK
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser

COUNT_QUESTIONS = """() => {
  window.questions = 0;
  new BroadcastChannel("muse.locks").onmessage = ({data}) => (window.questions += data.asked ? 1 : 0);
}"""


def patience(page: Page, becomes_ms: int | None) -> None:
    """In pages that are opened from now on, waiting for an answer takes so long; None: for ever."""
    act = "0" if becomes_ms is None else f"wait(done, {becomes_ms}, ...more)"
    page.context.add_init_script(
        f"""(() => {{
          const wait = window.setTimeout;
          window.setTimeout = (done, ms, ...more) => (ms === 10_000 ? {act} : wait(done, ms, ...more));
        }})()"""
    )


def copy_of(page: Page) -> Page:
    """A duplicate of the tab, which has its storage."""
    with page.expect_popup() as copied:
        page.evaluate("void open(location.href)")
    return copied.value


def test_a_tab_that_lives_says_so(chromium_page: Page, watch: PageWatch) -> None:
    """Its copy learns by that answer that the chat is taken, and not by giving up."""
    watch.expected.append("a popup")
    page = chromium_page
    wait_over(ask(page, "short one"))
    patience(page, None)
    copy = copy_of(page)
    expect(copy.locator(".bubble")).to_have_text("short one")
    assert session_id(copy) != session_id(page)
    copy.close()


def test_a_tab_that_sleeps_has_its_chat(chromium_page: Page, chat_server: ServerProcess) -> None:
    """A holder of the lock that never answers: after a while it counts as a living one, and nobody waits for ever."""
    page = chromium_page
    wait_over(ask(page, "short one"))
    known = session_id(page)
    sleeper = page.context.new_page()
    sleeper.goto(chat_server.url + "/api/runtime")
    sleeper.evaluate(HOLD_LOCK, f"muse.session.{known}")
    patience(page, 300)
    page.reload()
    expect(page.locator(".bubble")).to_have_text("short one")
    assert session_id(page) != known
    sleeper.close()


def test_a_page_that_is_left_does_not_answer(chromium_page: Page, watch: PageWatch) -> None:
    """It still holds the lock, and hears the question; the page after it waits, and has the chat when it is gone."""
    watch.expected.append("a popup")
    page = chromium_page
    wait_over(ask(page, "short one"))
    known = session_id(page)
    page.evaluate(COUNT_QUESTIONS)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    after = copy_of(page)
    wait_until(page, "window.questions > 3")
    expect(after.locator(".restoring")).to_be_visible()
    page.close()
    expect(after.locator(".bubble")).to_have_text("short one")
    assert session_id(after) == known
    after.close()


def test_a_page_that_is_shown_again_answers(chromium_page: Page, watch: PageWatch) -> None:
    """From the browser's cache of pages: it lives, and its copy is one."""
    watch.expected.append("a popup")
    page = chromium_page
    wait_over(ask(page, "short one"))
    patience(page, None)
    for event in ("pagehide", "pageshow"):
        page.evaluate(f"dispatchEvent(new PageTransitionEvent('{event}'))")
    copy = copy_of(page)
    expect(copy.locator(".bubble")).to_have_text("short one")
    assert session_id(copy) != session_id(page)
    copy.close()
