"""Who has scrolled up is not pulled away: new text is followed at the end, or after the reader's own Send."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import composer
from tests.browser.scripts import ask, wait_over, wait_until
from tests.browser.test_layout import DISTANCE_TO_END

pytestmark = pytest.mark.browser

AT_END = f"{DISTANCE_TO_END} < 40"
# Where the conversation stands once it has stopped moving.
STANDSTILL = """new Promise((resolve) => {
  const scroller = document.querySelector(".transcript");
  let last = null;
  const look = () => {
    if (scroller.scrollTop === last) resolve(last);
    else setTimeout(look, 100);
    last = scroller.scrollTop;
  };
  look();
})"""
COMPLETIONS = "**/v1/chat/completions"


def scroll_top(page: Page) -> float:
    """How far the conversation is scrolled."""
    return page.evaluate("document.querySelector('.transcript').scrollTop")


def go_up(page: Page, by: int) -> float:
    """The reader scrolls up by hand; returns the place."""
    page.locator(".transcript").hover()
    page.mouse.wheel(0, -by)
    expect(page.get_by_role("button", name="Jump to newest")).to_be_visible()
    return page.evaluate(STANDSTILL)


def write_long(page: Page) -> Locator:
    """An answer that is being written, and longer than the window."""
    answer = ask(page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 22 has")
    wait_until(page, AT_END)
    return answer


def queue_long(page: Page, count: int) -> None:
    """Further messages, sent when the answer before each is done."""
    for _ in range(count):
        composer(page).fill("long once more")
        composer(page).press("Enter")


@pytest.mark.parametrize("by", [300, 100], ids=["far up", "less than the height of the queue"])
def test_a_queued_message_leaves_who_has_scrolled_up_alone(chromium_page: Page, by: int) -> None:
    """It goes out, its answer grows, the list of queued messages goes: the text on the screen stays."""
    write_long(chromium_page)
    queue_long(chromium_page, 2)
    place = go_up(chromium_page, by)
    second = chromium_page.locator(".from-model").nth(1)
    expect(second.locator(".prose")).to_contain_text("Paragraph 10 has")
    assert scroll_top(chromium_page) == place
    expect(chromium_page.get_by_role("button", name="Jump to newest")).to_be_visible()


def test_a_queued_message_is_followed_at_the_end(chromium_page: Page) -> None:
    """The reader is at the end: the message and its answer come into view by themselves."""
    write_long(chromium_page)
    queue_long(chromium_page, 1)
    second = chromium_page.locator(".from-model").nth(1)
    expect(second.locator(".prose")).to_contain_text("Paragraph 22 has")
    wait_until(chromium_page, AT_END)


def test_a_message_of_ones_own_is_brought_into_view(chromium_page: Page) -> None:
    """From far up, by Send, by Send now, and by saving an edit."""
    page = chromium_page
    composer(page).fill("long please")
    composer(page).press("Enter")
    wait_over(page.locator(".from-model"))
    go_up(page, 500)
    queued = ask(page, "endless")
    wait_until(page, AT_END)
    composer(page).fill("short")
    composer(page).press("Enter")
    page.get_by_role("button", name="Stop", exact=True).click()
    wait_over(queued, "stopped")
    go_up(page, 500)
    page.get_by_role("button", name="Send now").click()
    wait_over(page.locator(".from-model").nth(2))
    wait_until(page, AT_END)
    go_up(page, 500)
    page.get_by_role("button", name="Edit message").last.evaluate("(button) => button.click()")
    page.get_by_role("button", name="Save & send").press("Enter")
    wait_over(page.locator(".from-model").nth(2))
    wait_until(page, AT_END)


def test_a_refused_edit_puts_the_chat_back_and_does_not_scroll(chromium_page: Page, watch: PageWatch) -> None:
    """The reader looks at an earlier answer by then."""
    watch.expected.append("503")
    page = chromium_page
    wait_over(ask(page, "long please"))
    wait_over(ask(page, "short"))
    held: list[Route] = []

    def hold(route: Route) -> None:  # a function of its own: Playwright marks it
        held.append(route)

    page.route(COMPLETIONS, hold)
    page.get_by_role("button", name="Edit message").last.click()
    with page.expect_request(COMPLETIONS):
        page.get_by_role("button", name="Save & send").press("Enter")
    wait_until(page, AT_END)
    place = go_up(page, 500)
    held[0].fulfill(status=503, json={"error": {"message": "Not now.", "code": "overloaded"}})
    expect(page.get_by_role("alert")).to_contain_text("Your edit was not sent")
    expect(page.locator(".from-model").last).to_have_attribute("data-phase", "done")
    assert scroll_top(page) == place


def test_what_was_deleted_leaves_no_way_to_the_newest(chromium_page: Page) -> None:
    """The reader had scrolled up to what is now the end."""
    wait_over(ask(chromium_page, "long please"))
    wait_over(ask(chromium_page, "short"))
    go_up(chromium_page, 500)
    chromium_page.get_by_role("button", name="Delete from here").nth(2).evaluate("(button) => button.click()")
    expect(chromium_page.get_by_role("button", name="Undo")).to_be_visible()
    chromium_page.mouse.wheel(0, 2000)
    expect(chromium_page.get_by_role("button", name="Jump to newest")).to_have_count(0)
