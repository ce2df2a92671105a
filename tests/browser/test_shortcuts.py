"""Single keys: what they do, when they must not, and that they can be switched off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.scripts import ask, record_requests, wait_over, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def off_the_fields(page: Page) -> Locator:
    """The conversation has the focus: a place where nobody types."""
    region = page.get_by_role("region", name="Conversation")
    region.focus()
    return region


def key_list(page: Page) -> Locator:
    """The list of shortcuts."""
    return page.get_by_role("dialog", name="Keyboard shortcuts")


def test_the_list_opens_by_key_and_from_the_settings(chromium_page: Page) -> None:
    """It names every key; Escape closes it and gives the focus back."""
    region = off_the_fields(chromium_page)
    chromium_page.keyboard.press("?")
    expect(key_list(chromium_page)).to_be_visible()
    expect(key_list(chromium_page).locator("dt")).to_contain_text(["Enter", "/", "n", "c", "t", "e", "s", "?"])
    chromium_page.keyboard.press("Escape")
    expect(key_list(chromium_page)).to_have_count(0)
    expect(region).to_be_focused()
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(key_list(chromium_page)).to_be_visible()


def test_the_list_stays_over_settings_that_lose_their_place(chromium_page: Page) -> None:
    """In a window that becomes narrow docked settings become a modal, under the list; Escape closes one at a time."""
    page = chromium_page
    page.get_by_role("button", name="Settings", exact=True).click()
    off_the_fields(page)
    page.keyboard.press("?")
    box = key_list(page).get_by_label("Use single keys")
    box.focus()
    page.set_viewport_size({"width": 900, "height": 800})
    wait_until(page, "document.querySelector('#settings').matches(':modal')")
    expect(box).to_be_focused()
    assert page.evaluate("document.elementFromPoint(450, 400).closest('dialog').className") == "shortcuts"
    page.keyboard.press("Escape")
    expect(key_list(page)).to_have_count(0)
    expect(page.get_by_role("heading", name="Settings")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Settings")).to_have_count(0)


def test_each_key_does_what_the_list_says(thinking_page: Page) -> None:
    """Write, settings, copy, thinking, newest, new chat."""
    page = thinking_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = wait_over(ask(page, "long thought"))
    off_the_fields(page)
    page.keyboard.press("c")
    expect(page.locator(".remark")).to_contain_text("The last answer was copied.")
    assert page.evaluate("navigator.clipboard.readText()").startswith("Yes, because it is")
    head = answer.locator(".thought-head")
    expect(head).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("t")
    expect(head).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("button", name="Jump to newest")).to_be_visible()
    page.keyboard.press("e")
    wait_until(page, "!document.querySelector('.jump')")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Settings")).to_have_count(0)
    off_the_fields(page)
    page.keyboard.press("/")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    off_the_fields(page)
    page.keyboard.press("n")
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.get_by_role("button", name="Reopen the previous chat")).to_be_visible()


def test_keys_are_text_where_one_types(chromium_page: Page) -> None:
    """In the composer, in a setting, while an input method composes, and with a modifier."""
    wait_over(ask(chromium_page, "short"))
    field = chromium_page.get_by_label("Message", exact=True)
    field.press_sequentially("n?/cs")
    expect(field).to_have_value("n?/cs")
    off_the_fields(chromium_page)
    for modifier in ("Control", "Alt", "Meta"):
        chromium_page.keyboard.press(f"{modifier}+n")
    chromium_page.evaluate(
        """document.querySelector(".transcript").dispatchEvent(new KeyboardEvent("keydown",
             {key: "n", isComposing: true, bubbles: true, cancelable: true}))"""
    )
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.get_by_label("System message").press_sequentially("n?")
    expect(chromium_page.get_by_label("System message")).to_have_value("n?")
    expect(key_list(chromium_page)).to_have_count(0)
    expect(chromium_page.locator(".turn")).to_have_count(2)


def test_they_can_be_switched_off(chromium_page: Page) -> None:
    """Also after a reload; Escape still stops an answer."""
    off_the_fields(chromium_page)
    chromium_page.keyboard.press("?")
    chromium_page.get_by_label("Use single keys").uncheck()
    chromium_page.keyboard.press("Escape")
    chromium_page.reload()
    chromium_page.wait_for_selector(".status.ready")
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    off_the_fields(chromium_page)
    for key in "?sn":
        chromium_page.keyboard.press(key)
    chromium_page.keyboard.press("Escape")
    wait_over(answer, "stopped")
    expect(chromium_page.locator("dialog[open]")).to_have_count(0)


def test_escape_closes_the_sheet_before_it_stops_an_answer(chromium_page: Page) -> None:
    """One press, one thing."""
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short"))
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.keyboard.press("Escape")
    expect(chromium_page.get_by_role("heading", name="Settings")).to_have_count(0)
    expect(answer).to_have_attribute("data-phase", "writing")
    off_the_fields(chromium_page)
    chromium_page.keyboard.press("Escape")
    wait_over(answer, "stopped")
    assert len(bodies) == 2
