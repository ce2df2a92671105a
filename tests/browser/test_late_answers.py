"""Whatever comes late, and in whatever order: what the user wrote is never replaced by it."""

from __future__ import annotations

import json

import httpx
import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import add, attached, composer
from tests.browser.held_stream import holding
from tests.browser.scripts import ask, session_id, wait_over, wait_until
from tests.browser.test_composer import SAVE, begin_endless, queued, say
from tests.browser.test_drafts import is_save, reload
from tests.browser.test_pictures import png
from tests.server_process import HANG_GUARD_S, ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

OLD_PATIENCE_MS = 1200
"""More than a page once waited for the lock of the page before it."""
HOLD_LOCK = """(name) => new Promise((held) => navigator.locks.request(name, { steal: true }, () => {
  held();
  return new Promise((done) => (window.letGo = done));
}))"""


KEEP_BACK_SAVES = """() => {
  const send = window.fetch;
  window.fetch = (path, options) => {
    if (options?.method !== "PUT" || !path.includes("/drafts/text/")) return send(path, options);
    localStorage.setItem("kept back", JSON.stringify([path, options.body]));
    return new Promise(() => {});
  };
}"""


class Held:
    """Answers of the server that are on their way until they are let go, or for good."""

    def __init__(self, page: Page, pattern: str) -> None:
        self.routes: list[tuple[Route, APIResponse]] = []
        self._page, self._is_open = page, False
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        if self._is_open or route.request.method != "GET":
            route.fallback()
        else:
            self.routes.append((route, route.fetch()))

    def wait(self, count: int = 1) -> None:
        """Until so many are held."""
        while len(self.routes) < count:
            self._page.wait_for_timeout(20)

    def let_go(self) -> None:
        """Let them through, and all later ones."""
        self.forget()
        for route, answer in self.routes:
            route.fulfill(response=answer)

    def forget(self) -> None:
        """Their page is gone; later ones go through."""
        self._is_open = True


def test_a_page_that_is_slow_to_go_is_waited_for(chromium_page: Page, chat_server: ServerProcess) -> None:
    """On a busy machine the page before holds the chat's lock for a while: this is no copy of a tab, and nothing of
    what was written is left to another."""
    page = chromium_page
    wait_over(ask(page, "short one"))
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("half a thought")
    known = session_id(page)
    before = page.context.new_page()
    before.goto(chat_server.url + "/api/runtime")
    before.evaluate(HOLD_LOCK, f"muse.session.{known}")
    reload(page)
    before.wait_for_timeout(OLD_PATIENCE_MS)
    composer(page).fill("and another")
    reload(page)  # with what was written while it waited
    before.evaluate("letGo()")
    expect(composer(page)).to_have_value("half a thought\n\nand another")
    assert session_id(page) == known
    before.close()


@pytest.mark.parametrize("part", ["text", "files"])
def test_a_draft_that_cannot_be_had_at_once_is_asked_for_again(
    chromium_page: Page, watch: PageWatch, part: str
) -> None:
    """Until it is here; meanwhile nothing is saved over it."""
    watch.expected.append("ERR_FAILED")
    page = chromium_page
    add(page, SAVE)
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("before")
    page.route(f"**/api/drafts/{part}/*", lambda route: route.abort("failed"), times=2)
    reload(page)
    expect(composer(page)).to_have_value("before")
    expect(attached(page)).to_contain_text("save.py")
    reload(page)
    expect(composer(page)).to_have_value("before")
    expect(attached(page)).to_contain_text("save.py")


def test_the_last_save_of_the_page_before_is_waited_for(chromium_page: Page, chat_server: ServerProcess) -> None:
    """It may arrive after the first question for it."""
    page = chromium_page
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("early")
    page.evaluate(KEEP_BACK_SAVES)
    composer(page).fill("early and late")
    with page.expect_response(lambda response: "/api/drafts/text" in response.url) as asked:
        page.reload()
    assert asked.value.json()["content"]["text"] == "early"
    path, body = json.loads(page.evaluate("localStorage.getItem('kept back')"))
    assert json.loads(body)["content"]["text"] == "early and late"
    headers = {"content-type": "application/json"}
    sent = httpx.put(chat_server.url + path, content=body, headers=headers, timeout=HANG_GUARD_S)
    assert sent.json() == {"saved": True}
    expect(composer(page)).to_have_value("early and late")


def test_a_save_that_is_on_its_way_is_sent_again_when_the_page_is_left(chromium_page: Page) -> None:
    """It may never arrive: nothing has changed since, but the next page must find the text."""
    page = chromium_page
    page.evaluate(KEEP_BACK_SAVES)
    composer(page).fill("on its way")
    wait_until(page, "localStorage.getItem('kept back') !== null")
    page.evaluate("localStorage.removeItem('kept back')")
    page.goto(page.url + "favicon.svg")
    body = json.loads(json.loads(page.evaluate("localStorage.getItem('kept back')"))[1])
    assert body["content"]["text"] == "on its way"


def test_what_is_written_before_the_draft_comes_survives_a_reload_as_well(chromium_page: Page) -> None:
    """Of text and of files, twice: a page that has not seen what is kept adds to it."""
    page = chromium_page
    add(page, SAVE)
    expect(attached(page)).to_have_count(1)
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("one")
    for words in ("two", "three"):
        held = Held(page, "**/api/drafts/*/*")
        reload(page)
        held.wait(2)
        composer(page).fill(words)
        add(page, {**SAVE, "name": f"{words}.py"})
        expect(attached(page)).to_have_count(1)
        held.forget()
    reload(page)
    expect(composer(page)).to_have_value("one\n\ntwo\n\nthree")
    expect(attached(page).locator(".attachment-name")).to_have_text(["save.py", "two.py", "three.py"])
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("four")
    reload(page)
    expect(composer(page)).to_have_value("four")
    expect(attached(page)).to_have_count(3)


def test_a_text_does_not_wait_for_its_files(chromium_page: Page) -> None:
    """But nothing is sent without them, and a queued message keeps its own."""
    page = chromium_page
    begin_endless(page)
    add(page, SAVE)
    say(page, "queued")
    expect(queued(page)).to_have_count(1)
    add(page, {**SAVE, "name": "second.py"})
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("with a file")
    for _ in range(2):
        held = Held(page, "**/api/drafts/files/*")
        reload(page)
        held.wait()
        expect(composer(page)).to_have_value("with a file")
        expect(page.get_by_role("button", name="Queue message")).to_be_disabled()
        expect(queued(page)).to_have_count(0)
        with page.expect_request_finished(is_save("text")):
            composer(page).fill("with a file")
            composer(page).press("End")
            composer(page).press_sequentially(" ")
            composer(page).press("Backspace")
        held.forget()
    reload(page)
    expect(queued(page)).to_contain_text("save.py")
    expect(attached(page)).to_contain_text("second.py")
    expect(composer(page)).to_have_value("with a file")
    expect(page.get_by_role("button", name="Queue message")).to_be_enabled()


def test_a_late_draft_belongs_to_its_chat(chromium_page: Page) -> None:
    """It does not come into a chat that was begun meanwhile, but comes back with its own; neither text is lost."""
    page = chromium_page
    wait_over(ask(page, "short one"))
    add(page, SAVE)
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("of the first chat")
    held = Held(page, "**/api/drafts/*/*")
    reload(page)
    held.wait(2)
    expect(page.locator(".bubble")).to_have_count(1)
    page.get_by_role("button", name="New chat").click()
    composer(page).fill("of the second")
    with page.expect_response("**/api/drafts/files/*"):
        held.let_go()
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    expect(composer(page)).to_have_value("of the second")
    page.get_by_role("button", name="Reopen the previous chat").click()
    expect(composer(page)).to_have_value("of the first chat")
    expect(attached(page)).to_contain_text("save.py")
    page.get_by_role("button", name="Chats", exact=True).click()
    page.get_by_role("button", name="of the second closed").click()
    expect(composer(page)).to_have_value("of the second")


def test_a_system_message_written_meanwhile_stays(chromium_page: Page) -> None:
    """That of the chat, which comes later, does not take its place; that there was one is said."""
    page = chromium_page
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("System message", exact=True).fill("of the chat")
    page.keyboard.press("Escape")
    wait_over(ask(page, "short one"))
    held = Held(page, "**/v1/sessions/*")
    reload(page)
    held.wait()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("System message", exact=True).fill("newer")
    held.let_go()
    expect(page.locator(".bubble")).to_have_count(1)
    expect(page.get_by_label("System message", exact=True)).to_have_value("newer")
    expect(page.locator(".remark")).to_contain_text("had another system message")


def test_edit_again_keeps_what_is_being_written(chromium_page: Page, watch: PageWatch) -> None:
    """The offer comes with a late refusal; who has opened the message again by then has both."""
    watch.expected.append("400")
    page = chromium_page
    wait_over(ask(page, "short one"))
    fault = {"error": {"message": "No.", "type": "invalid_request_error", "code": "no", "param": None}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=400, json=fault))
    field = page.locator(".editor textarea")
    page.get_by_role("button", name="Edit message").click()
    field.fill("first edit")
    field.press("Control+Enter")
    expect(page.get_by_text("Your edit was not sent.")).to_be_visible()
    page.get_by_role("button", name="Edit message").click()
    field.fill("newer")
    page.get_by_role("button", name="Edit again").click()
    expect(field).to_have_value("first edit\n\nnewer")


def test_the_price_of_an_image_follows_the_model(
    chromium_page: Page, chat_server: ServerProcess, watch: PageWatch
) -> None:
    """It may have been asked before the model was there; the one that is loaded may see images smaller."""
    page = chromium_page
    watch.expected.append("ERR_CONNECTION_REFUSED")  # the feed of this test ends before the page does
    state = chat_server.wait_ready()
    state["model"]["supports"]["image"] = True
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"tokens": 100 - 90 * (len(asked) > 1), "rows": 1, "columns": 1})

    page.route("**/api/picture-tokens*", answer)
    with holding() as feed:
        feed.replace(page, "**/api/events")
        reload(page)
        feed.event("state", state)
        expect(page.get_by_test_id("status")).to_contain_text("Ready")
        add(page, png("red"))
        expect(attached(page)).to_contain_text("100 tokens")
        state["model"]["max_image_cells"] = 16
        feed.event("state", state)
        expect(attached(page)).to_contain_text("10 tokens")
        assert len(asked) == 2
