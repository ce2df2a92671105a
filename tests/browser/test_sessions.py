"""One chat, one session: it survives a reload, a lost connection and a second tab, and says so when it is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import (
    CHAT_SCRIPT,
    LINES,
    ask,
    record_requests,
    session_id,
    wait_over,
)
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


def assert_whole(answer: Locator) -> None:
    """Every line of the answer stands there once, in order."""
    wait_over(answer)
    assert answer.locator(".prose p").all_inner_texts() == LINES


def test_a_reload_in_mid_stream_continues_the_same_answer(chromium_page: Page) -> None:
    """Not a character is lost or repeated, and no second answer is asked for."""
    wait_over(ask(chromium_page, "short one"))
    answer = ask(chromium_page, "many lines")
    expect(answer.locator(".prose")).to_contain_text("Line 5")
    bodies = record_requests(chromium_page)
    chromium_page.reload()
    expect(chromium_page.locator(".bubble")).to_have_text(["short one", "many lines"])
    answer = chromium_page.locator(".from-model").last
    expect(answer).to_have_attribute("data-phase", "writing")
    assert_whole(answer)
    expect(answer.locator(".receipt")).to_be_visible()
    assert bodies == []


def test_a_reload_after_the_end_shows_the_chat_with_its_receipts(chromium_page: Page) -> None:
    """Text, figures and how each answer ended come from the server; the chat goes on in the same session."""
    wait_over(ask(chromium_page, "short one"))
    endless = ask(chromium_page, "endless")
    expect(endless.locator(".prose")).to_contain_text("on and on")
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(endless, "stopped")
    before = chromium_page.locator(".column").first.inner_text()
    known = session_id(chromium_page)
    chromium_page.reload()
    expect(chromium_page.locator(".receipt")).to_have_count(2)
    assert chromium_page.locator(".column").first.inner_text() == before
    expect(chromium_page.locator(".from-model .note p")).to_have_text("Stopped here.")
    chromium_page.locator(".receipt").first.click()
    expect(chromium_page.locator(".receipt-details")).to_contain_text("so all of it was read")
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "hello again"))
    assert bodies[0]["session_id"] == known
    assert len(bodies[0]["messages"]) == 5


def test_a_page_without_a_chat_reloads_quietly(chromium_page: Page) -> None:
    """Nothing was said, so nothing is missed."""
    chromium_page.reload()
    expect(chromium_page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    expect(chromium_page.locator(".remark")).to_have_count(0)


# The browser can be told to open no new connections, but not to break those it has.
BREAKABLE = """
const connect = window.fetch;
const links = [];
window.fetch = async (...request) => {
  const response = await connect(...request);
  const { readable, writable } = new TransformStream();
  const link = new AbortController();
  links.push(link);
  response.body.pipeTo(writable, { signal: link.signal }).catch(() => {});
  return new Response(readable, { status: response.status, headers: response.headers });
};
window.breakConnections = () => links.forEach((link) => link.abort(new TypeError("network error")));
"""


def test_a_lost_connection_is_taken_up_where_it_broke(chromium_page: Page, watch: PageWatch) -> None:
    """A quiet sign while there is none; then the same answer goes on, from its position."""
    watch.expected.append("ERR_INTERNET_DISCONNECTED")
    chromium_page.add_init_script(BREAKABLE)
    chromium_page.reload()
    answer = ask(chromium_page, "many lines")
    expect(answer.locator(".prose")).to_contain_text("Line 5")
    chromium_page.context.set_offline(True)
    chromium_page.evaluate("breakConnections()")
    expect(answer.locator(".waiting")).to_contain_text("reconnecting")
    expect(answer.locator(".prose")).to_contain_text("Line 5")
    with chromium_page.expect_request(lambda request: "/api/replies/" in request.url) as again:
        chromium_page.context.set_offline(False)
    assert not again.value.url.endswith("after=0")
    assert_whole(answer)


def test_stop_ends_a_detached_answer_on_the_server(chromium_page: Page, chat_server: ServerProcess) -> None:
    """A closed connection would not end it: the page cancels it by its id, and the model is free."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and on")
    with chromium_page.expect_response("**/api/cancel") as cancelled:
        chromium_page.get_by_role("button", name="Stop").click()
    assert cancelled.value.json() == {"cancelled": True}
    wait_over(answer, "stopped")
    chat_server.wait_idle()
    session = chat_server.get(f"/v1/sessions/{session_id(chromium_page)}").json()
    assert session["running"] is None
    assert session["messages"][-1]["content"].strip() == answer.locator(".prose").inner_text()


@pytest.mark.parametrize("words", ["Waiting for the first word", "Queued"])
def test_stop_in_the_queue_ends_the_answer_too(chromium_page: Page, chat_server: ServerProcess, words: str) -> None:
    """Before its id is known: it ends at once for the reader, and on the server as soon as its turn comes."""
    with chat_server.stream_chat("endless", session_id=session_id(chromium_page)) as other:
        lines = other.iter_lines()  # closes the stream when it is dropped
        assert next(lines)
        answer = ask(chromium_page, "endless too")
        expect(answer.locator(".waiting")).to_contain_text(words)
        chromium_page.get_by_role("button", name="Stop").click()
        wait_over(answer, "stopped")
        expect(answer.locator(".note")).to_have_text("Stopped before the first word.")
    chat_server.wait_idle()


def test_a_reload_in_the_queue_keeps_the_message(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The server shows what waits; its answer comes to the page that was loaded anew."""
    with chat_server.stream_chat("endless", session_id=session_id(chromium_page)) as other:
        lines = other.iter_lines()  # closes the stream when it is dropped
        assert next(lines)
        expect(ask(chromium_page, "short one").locator(".waiting")).to_be_visible()
        chat_server.wait_until(lambda state: state["requests"]["queued"] == 1)
        chromium_page.reload()
        expect(chromium_page.locator(".bubble")).to_have_text(["short one"])
        answer = chromium_page.locator(".from-model").last
        expect(answer.locator(".waiting")).to_be_visible()
        other.close()
    wait_over(answer)
    expect(answer.locator(".receipt")).to_be_visible()


def delete_first_left(page: Page) -> None:
    """Delete the chat that was left last, from the list of this tab's chats."""
    page.get_by_role("button", name="Chats", exact=True).click()
    page.get_by_role("region", name="Other chats of this tab").get_by_title("Delete").first.click()
    page.get_by_role("button", name="Delete", exact=True).click()


def test_deleting_a_chat_closes_its_session(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The server forgets it, unsent text and all, and ends its answer; New chat alone does neither."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    chromium_page.get_by_label("Message", exact=True).fill("unsent")
    old = session_id(chromium_page)
    with chromium_page.expect_response(lambda said: f"/api/drafts/text/{old}" in said.url):
        chromium_page.get_by_role("button", name="New chat").click()
    assert session_id(chromium_page) != old
    assert chat_server.get(f"/v1/sessions/{old}").json()["running"] is not None
    assert chat_server.get(f"/api/drafts/text/{old}").json()["content"]["text"] == "unsent"
    with chromium_page.expect_response(lambda response: response.request.method == "DELETE") as closed:
        delete_first_left(chromium_page)
    assert closed.value.json() == {"closed": True, "session_id": old}
    assert chat_server.get(f"/v1/sessions/{old}").status_code == 404
    assert chat_server.get(f"/api/drafts/text/{old}").json()["content"] is None
    chat_server.wait_idle()


def test_a_session_that_cannot_be_closed_is_reset(chromium_page: Page, watch: PageWatch) -> None:
    """Where a server knows no DELETE; a failure of both bothers nobody."""
    watch.expected.append("405")
    wait_over(ask(chromium_page, "short one"))
    old = session_id(chromium_page)
    chromium_page.route(
        "**/v1/sessions/*",
        lambda route: route.fulfill(status=405, body="") if route.request.method == "DELETE" else route.continue_(),
    )
    chromium_page.get_by_role("button", name="New chat").click()
    with chromium_page.expect_response("**/reset") as reset:
        delete_first_left(chromium_page)
    assert reset.value.json() == {"reset": True, "session_id": old}
    expect(chromium_page.locator(".banner, .remark")).to_have_count(0)


def test_two_tabs_are_two_chats(chromium_page: Page, chat_server: ServerProcess, watch: PageWatch) -> None:
    """A new tab is empty. A copy of a tab shows the same chat, but goes its own way under an id of its own."""
    watch.expected.append("a popup")
    wait_over(ask(chromium_page, "short one"))
    fresh = chromium_page.context.new_page()
    fresh.goto(chat_server.url)
    expect(fresh.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    with chromium_page.expect_popup() as copied:
        chromium_page.evaluate("void open(location.href)")
    copy = copied.value
    expect(copy.locator(".bubble")).to_have_text("short one")
    wait_over(ask(copy, "hello from the copy"))
    ids = {session_id(page) for page in (chromium_page, fresh, copy)}
    assert len(ids) == 3
    chromium_page.reload()
    expect(chromium_page.locator(".turn")).to_have_count(2)


class RestartableServer:
    """A server that can be killed and started again on the same port."""

    def __init__(self, folder: Path, script: Path) -> None:
        self._arguments = ["--engine", "scripted", "--model", str(script)]
        self._home = folder / "home"
        self.now = ServerProcess(self._arguments, home=self._home)
        self.now.wait_ready()
        self.url = self.now.url

    def kill(self) -> None:
        """End it without a word."""
        self.now.stop(signal.SIGKILL)

    def start(self) -> None:
        """The next one, on the same address."""
        self.now = ServerProcess([*self._arguments, "--port", self.url.rpartition(":")[2]], home=self._home)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[RestartableServer]:
    """A server of its own for a test that kills it."""
    server = RestartableServer(tmp_path, write_script(tmp_path))
    yield server
    server.now.stop()


def write_script(folder: Path) -> Path:
    """The script file of the chat answers."""
    path = folder / "script.json"
    path.write_text(json.dumps(CHAT_SCRIPT))
    return path


def test_a_restart_under_an_open_page_interrupts_and_loses_nothing(
    open_page: Callable[..., Page], restartable: RestartableServer, watch: PageWatch
) -> None:
    """The page keeps what it shows, says what is forgotten, tells the new server, and sends all of it again."""
    watch.expected += ["ERR_", "404"]
    page = open_page(restartable.url)
    wait_over(ask(page, "short one"))
    answer = ask(page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and on")
    restartable.kill()
    expect(answer.locator(".waiting")).to_contain_text("reconnecting")
    expect(page.get_by_test_id("status")).to_contain_text("Offline")
    expect(page.locator(".banner")).to_contain_text("reconnects by itself")
    restartable.start()
    wait_over(answer, "interrupted")
    expect(answer.get_by_role("group", name="Interrupted")).to_contain_text(
        "Interrupted here. The server was restarted"
    )
    expect(answer.locator(".prose")).to_contain_text("on and on")
    expect(page.locator(".remark")).to_contain_text("Server restarted")
    expect(page.get_by_test_id("status")).to_contain_text("Ready")
    expect(page.locator(".banner")).to_have_count(0)
    answer.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("has forgotten this answer")
    wait_over(answer, "interrupted")
    page.reload()  # the new server was told of the chat
    expect(page.locator(".bubble")).to_have_text(["short one", "endless"])
    expect(page.locator(".from-model").first).to_contain_text("Short answer.")
    expect(answer.locator(".prose")).to_contain_text("on and on")
    expect(answer).to_contain_text("The server was restarted")
    answer.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("none over a restart")
    bodies = record_requests(page)
    answer.get_by_role("button", name="Retry").click()
    answer = page.locator(".from-model").last
    expect(answer.locator(".prose")).to_contain_text("on and on")
    assert [message["content"] for message in bodies[0]["messages"]] == ["short one", "Short answer.", "endless"]
    expect(page.locator(".remark")).to_have_count(0)
    page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")


def test_a_page_that_was_away_during_a_restart_says_that_the_chat_is_gone(
    open_page: Callable[..., Page], restartable: RestartableServer, watch: PageWatch
) -> None:
    """A new, empty chat with a quiet remark that can be dismissed, and no second time."""
    watch.expected += ["ERR_", "404"]
    page = open_page(restartable.url)
    wait_over(ask(page, "short one"))
    old = session_id(page)
    page.goto("about:blank")  # a page that is open would tell the new server
    restartable.kill()
    restartable.start()
    page.goto(restartable.url)
    expect(page.locator(".remark")).to_contain_text("the server no longer has it")
    assert session_id(page) != old
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".remark")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    expect(page.locator(".remark")).to_have_count(0)
