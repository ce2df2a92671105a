"""Chats in the browser's own storage: only when asked for, all of them, and gone when they are to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import CHAT_SCRIPT, ask, record_requests, wait_over
from tests.browser.test_chat_files import PIXEL, document, give, open_chats
from tests.browser.test_edits import TWO_TURNS, contents, edit_message, shown, two_turns
from tests.browser.thinking_script import head_of
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

ALL_KEPT = """async () => {
  if (!(await indexedDB.databases()).some(({name}) => name === "muse")) return null;
  const result = (request) => new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
  const database = await result(indexedDB.open("muse"));
  const transaction = database.transaction(["chats", "pictures"]);
  const all = await Promise.all(["chats", "pictures"].map((name) => result(transaction.objectStore(name).getAll())));
  database.close();
  return all;
}"""

# Chromium's override of the quota does not reach the profiles that tests use; the store fails as a full one does.
FULL = """() => {
  window.realPut = IDBObjectStore.prototype.put;
  IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); };
}"""


def keep(page: Page) -> None:
    """Switch it on, with the sheet open."""
    open_chats(page)
    page.get_by_label("Save this chat in this browser").check()


def rows(page: Page) -> Locator:
    """The kept chats in the sheet."""
    return page.get_by_role("region", name="Saved chats").locator(".row-main")


def kept(page: Page) -> Any:
    """What is in the storage: [chats, pictures], or None if there is no storage."""
    return page.evaluate(ALL_KEPT)


def come_back(page: Page, url: str) -> Page:
    """A new tab of the same browser, the old one closed."""
    new = page.context.new_page()
    page.close()
    new.goto(url)
    new.wait_for_selector(".status.ready")
    return new


def test_nothing_is_kept_until_it_is_switched_on(chromium_page: Page, chat_server: ServerProcess) -> None:
    """No database at first; once on, the chat comes back with the next visit, and further turns are kept, too."""
    wait_over(ask(chromium_page, "short one"))
    open_chats(chromium_page)
    expect(chromium_page.get_by_label("Save this chat in this browser")).not_to_be_checked()
    assert kept(chromium_page) is None or kept(chromium_page) == [[], []]
    chromium_page.get_by_label("Save this chat in this browser").check()
    expect(chromium_page.locator("#keeping-help")).to_contain_text("IndexedDB")
    expect(rows(chromium_page)).to_have_text(["short oneopen"])
    wait_over(ask(chromium_page, "hello there"))
    page = come_back(chromium_page, chat_server.url)
    expect(page.locator(".from-model")).to_have_count(2)
    assert shown(page) == ["short one", "Short answer.", "hello there", "You said something."]
    expect(page.locator(".receipt")).to_have_count(2)
    bodies = record_requests(page)
    wait_over(ask(page, "short again"))
    assert contents(bodies[0]["messages"])[:2] == ["short one", "Short answer."]
    page.close()


def test_thinking_and_system_message_are_kept_over_a_restart_of_the_server(
    thinking_page: Page, thinking_server: ServerProcess, watch: PageWatch
) -> None:
    """The server has forgotten the session: the browser's copy is shown, and a reload keeps its thinking, although the
    server was told the texts only."""
    watch.expected.append("404")
    thinking_page.get_by_role("button", name="Settings", exact=True).click()
    thinking_page.get_by_label("System message").fill("Be kind.")
    answer = wait_over(ask(thinking_page, "Why so?"))
    words = head_of(answer).inner_text()
    keep(thinking_page)
    expect(rows(thinking_page)).to_have_count(1)
    session = thinking_page.evaluate("sessionStorage.getItem('muse.session')")
    assert thinking_server.post(f"/v1/sessions/{session}/reset", {}).status_code == 200
    thinking_page.reload()
    expect(head_of(answer)).to_have_text(words)
    wait_over(ask(thinking_page, "plain"))
    thinking_page.reload()
    expect(head_of(thinking_page.locator(".from-model").first)).to_have_text(words)
    expect(thinking_page.locator(".from-model")).to_have_count(2)
    thinking_page.get_by_role("button", name="Settings", exact=True).click()
    expect(thinking_page.get_by_label("System message")).to_have_value("Be kind.")


def test_pictures_are_kept_once_each(chromium_page: Page) -> None:
    """Beside the chat, not in it; they come back, and go with the chat."""
    parts = [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": "Look"}]
    open_chats(chromium_page)
    answer = {"role": "assistant", "content": "Seen."}
    give(
        chromium_page, document({"role": "user", "content": parts}, answer, {"role": "user", "content": parts}, answer)
    )
    chromium_page.get_by_label("Save this chat in this browser").check()
    expect(rows(chromium_page)).to_have_text(["Lookopen"])
    chats, pictures = kept(chromium_page)
    assert pictures == [PIXEL]
    assert PIXEL not in json.dumps(chats)
    chromium_page.get_by_role("button", name="New chat").click()
    expect(chromium_page.locator(".turn")).to_have_count(0)
    rows(chromium_page).click()
    expect(chromium_page.locator(".transcript img")).to_have_count(2)
    assert chromium_page.locator(".transcript img").first.get_attribute("src") == PIXEL
    chromium_page.get_by_role("button", name="Delete Look").click()
    chromium_page.get_by_role("button", name="Delete", exact=True).click()
    expect(rows(chromium_page)).to_have_count(0)
    assert kept(chromium_page) == [[], []]
    expect(chromium_page.get_by_label("Save this chat in this browser")).not_to_be_checked()


def test_a_picture_that_was_deleted_is_kept_no_more(chromium_page: Page) -> None:
    """What is gone from the chat is gone from the disk with the next save."""
    page = chromium_page
    parts = [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": "Look"}]
    open_chats(page)
    seen = {"role": "assistant", "content": "Seen."}
    give(page, document({"role": "user", "content": "Hello"}, seen, {"role": "user", "content": parts}, seen))
    page.get_by_label("Save this chat in this browser").check()
    expect(rows(page)).to_have_text(["Helloopen"])
    assert kept(page)[1] == [PIXEL]
    page.get_by_role("button", name="Delete from here").nth(2).click()
    expect(page.locator(".turn")).to_have_count(2)
    assert kept(page)[1] == []


def test_chats_are_opened_left_and_brought_back(chromium_page: Page) -> None:
    """New chat leaves a kept one where it is, and is not kept itself; the open one is marked; nothing is lost."""
    wait_over(ask(chromium_page, "short one"))
    keep(chromium_page)
    chromium_page.get_by_role("button", name="New chat").click()
    expect(chromium_page.get_by_label("Save this chat in this browser")).not_to_be_checked()
    chromium_page.reload()
    open_chats(chromium_page)
    expect(rows(chromium_page)).to_have_count(1)
    expect(chromium_page.locator(".turn")).to_have_count(0)
    wait_over(ask(chromium_page, "hello there"))
    chromium_page.get_by_label("Save this chat in this browser").check()
    expect(rows(chromium_page)).to_have_count(2)
    wait_over(ask(chromium_page, "short two"))
    rows(chromium_page).get_by_text("short one").click()
    expect(chromium_page.locator(".bubble")).to_have_text(["short one"])
    expect(chromium_page.locator("#chats [aria-current]")).to_contain_text("short one")
    chromium_page.get_by_role("button", name="Reopen").click()
    expect(chromium_page.locator(".bubble")).to_have_text(["hello there", "short two"])
    expect(chromium_page.locator("#chats [aria-current]")).to_contain_text("hello there")
    rows(chromium_page).get_by_text("short one").click()
    rows(chromium_page).get_by_text("hello there").click()
    expect(chromium_page.locator(".bubble")).to_have_text(["hello there", "short two"])


def test_words_are_found_in_kept_chats(chromium_page: Page) -> None:
    """In questions and answers, once there are so many that looking is work; Escape shows all again."""
    finder = chromium_page.get_by_label("Search chats")
    open_chats(chromium_page)
    for number, words in enumerate(["short one", "short two", "Say HELLO", "short four", "short five"], start=1):
        wait_over(ask(chromium_page, words))
        chromium_page.get_by_label("Save this chat in this browser").check()
        expect(rows(chromium_page)).to_have_count(number)
        chromium_page.get_by_role("button", name="New chat").click()
    expect(rows(chromium_page)).to_have_count(5)
    finder.fill("hello")
    expect(rows(chromium_page)).to_have_count(1)
    expect(rows(chromium_page)).to_contain_text("Say HELLO")
    finder.fill("short answer")
    expect(rows(chromium_page)).to_have_count(4)
    finder.fill("nowhere")
    expect(rows(chromium_page)).to_have_count(0)
    expect(chromium_page.locator("#chats")).to_contain_text("No matches")
    finder.press("Escape")
    expect(finder).to_have_value("")
    expect(rows(chromium_page)).to_have_count(5)


def test_an_edit_is_kept_only_once_the_model_has_taken_it(chromium_page: Page) -> None:
    """Until then the chat may go back to what it was, and a reload in between must find that."""
    page = chromium_page
    two_turns(page)
    keep(page)
    expect(rows(page)).to_have_count(1)
    held_back: list[Route] = []

    def hold(route: Route) -> None:
        held_back.append(route)

    page.route("**/v1/chat/completions", hold, times=1)
    edit_message(page, 0, "short edited")
    expect(page.locator(".pending .bubble")).to_have_text("short edited")
    assert contents(kept(page)[0][0]["document"]["messages"]) == TWO_TURNS
    held_back[0].continue_()
    wait_over(page.locator(".from-model"))
    page.get_by_role("button", name="New chat").click()
    expect(rows(page)).to_contain_text("2 turns")
    assert contents(kept(page)[0][0]["document"]["messages"]) == ["short edited", "Short answer."]


def test_switching_it_off_asks_and_deletes(chromium_page: Page) -> None:
    """The question can be left; the chat stays on the screen, and nothing of it in the browser."""
    wait_over(ask(chromium_page, "short one"))
    keep(chromium_page)
    expect(rows(chromium_page)).to_have_count(1)
    switch = chromium_page.get_by_label("Save this chat in this browser")
    switch.click()
    expect(chromium_page.get_by_role("button", name="Keep saving")).to_be_focused()
    chromium_page.keyboard.press("Escape")
    expect(switch).to_be_checked()
    assert len(kept(chromium_page)[0]) == 1
    switch.click()
    chromium_page.get_by_role("button", name="Delete the saved copy").click()
    expect(switch).not_to_be_checked()
    expect(rows(chromium_page)).to_have_count(0)
    wait_over(ask(chromium_page, "hello there"))
    assert kept(chromium_page) == [[], []]
    expect(chromium_page.locator(".turn")).to_have_count(4)


def test_all_are_deleted_at_once_in_other_tabs_too(
    chromium_page: Page, chat_server: ServerProcess, watch: PageWatch
) -> None:
    """A tab that keeps one of them says so and keeps it no more."""
    wait_over(ask(chromium_page, "short one"))
    keep(chromium_page)
    expect(rows(chromium_page)).to_have_count(1)
    other = chromium_page.context.new_page()
    watch.follow(other)
    other.goto(chat_server.url)
    # The first tab has it: a second one does not take it away.
    expect(other.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    open_chats(other)
    rows(other).click()
    expect(other.locator(".remark").first).to_contain_text("open in another tab, which keeps it")
    expect(other.get_by_label("Save this chat in this browser")).not_to_be_checked()
    other.get_by_role("button", name="Delete all saved chats").click()
    other.get_by_role("button", name="Delete", exact=True).click()
    expect(rows(other)).to_have_count(0)
    expect(chromium_page.locator(".remark").first).to_contain_text("deleted from the browser’s storage in another tab")
    wait_over(ask(chromium_page, "short two"))
    assert kept(chromium_page) == [[], []]
    other.close()


def test_a_chat_is_kept_anew_after_the_data_of_the_page_were_cleared(
    chromium_page: Page, chat_server: ServerProcess
) -> None:
    """The browser closes the storage under the page; the next save writes the whole chat into a new one."""
    page = chromium_page
    wait_over(ask(page, "short one"))
    keep(page)
    expect(rows(page)).to_have_count(1)
    cleared = {"origin": chat_server.url, "storageTypes": "indexeddb"}
    page.context.new_cdp_session(page).send("Storage.clearDataForOrigin", cleared)
    assert kept(page) is None
    wait_over(ask(page, "hello there"))
    page.get_by_role("button", name="New chat").click()
    expect(rows(page)).to_contain_text("4 turns")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_storage_that_cannot_be_used_is_said(chromium_page: Page) -> None:
    """As in some private windows; the chat itself goes on."""
    page = chromium_page
    page.add_init_script("Object.defineProperty(window, 'indexedDB', {get() { throw new Error('denied'); }});")
    page.reload()
    wait_over(ask(page, "short one"))
    keep(page)
    expect(page.get_by_role("alert")).to_contain_text("Its storage cannot be used")
    wait_over(ask(page, "hello there"))


def test_a_storage_that_never_opens_holds_nothing_up(chromium_page: Page) -> None:
    """Browsers are known to leave a page without an answer: the chat then comes from the server, and one is told."""
    page = chromium_page
    wait_over(ask(page, "short one"))
    keep(page)
    expect(rows(page)).to_have_count(1)
    page.add_init_script("IDBFactory.prototype.open = () => ({});")
    page.reload()
    expect(page.locator(".bubble")).to_have_text("short one")
    expect(page.locator(".remark")).to_contain_text("could not be read")
    wait_over(ask(page, "hello there"))


def test_a_full_storage_is_said_and_loses_nothing(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """What was kept before stays; another try works once there is room."""
    page = open_page(scripted_server(CHAT_SCRIPT).url)
    page.wait_for_selector(".status.ready")
    wait_over(ask(page, "short one"))
    keep(page)
    expect(rows(page)).to_have_count(1)
    page.evaluate(FULL)
    wait_over(ask(page, "hello there"))
    banner = page.get_by_role("alert")
    expect(banner).to_contain_text("This chat is not saved")
    expect(banner).to_contain_text("storage is full")
    assert len(kept(page)[0][0]["document"]["messages"]) == 2
    page.evaluate("() => { IDBObjectStore.prototype.put = window.realPut; }")
    page.get_by_role("button", name="Try again").click()
    expect(banner).to_have_count(0)
    page.get_by_role("button", name="New chat").click()
    rows(page).click()
    expect(page.locator(".from-model")).to_have_count(2)
    assert shown(page) == ["short one", "Short answer.", "hello there", "You said something."]
