"""The chats of a tab: what was left stays in a list, with all that was written in it, until the user deletes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PageWatch, serving
from tests.browser.files import add, attached, composer
from tests.browser.scripts import CHAT_SCRIPT, LINES, ask, record_requests, session_id, wait_over, wait_until
from tests.browser.test_chat_files import PIXEL, document, give, open_chats
from tests.browser.test_composer import SAVE, queued, say, status_words
from tests.browser.test_drafts import is_save, reload
from tests.browser.test_edits import contents, edit_message, refusal, shown, two_turns
from tests.browser.test_keeping import kept
from tests.browser.test_sessions import RestartableServer, assert_whole, write_script
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


# The storage opens once the test says so.
SLOW_STORAGE = """{
  const said = new Promise((resolve) => (window.answerStorage = resolve));
  const setter = Object.getOwnPropertyDescriptor(IDBRequest.prototype, "onsuccess").set;
  const open = IDBFactory.prototype.open;
  IDBFactory.prototype.open = function (...all) {
    const request = open.apply(this, all);
    const set = (act) => setter.call(request, (event) => said.then(() => act.call(request, event)));
    Object.defineProperty(request, "onsuccess", {set});
    return request;
  };
}"""


@pytest.fixture(scope="module")
def wide_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model answers eight requests at a time. Shared."""
    script = {**CHAT_SCRIPT, "slots": 8, "max_named_sessions": 8}
    with serving(script, tmp_path_factory.mktemp("wide")) as server:
        yield server


@pytest.fixture
def page(open_page: Callable[..., Page], wide_server: ServerProcess) -> Page:
    """Its page, ready to use."""
    page = open_page(wide_server.url)
    page.wait_for_selector(".status.ready")
    return page


def rows(page: Page) -> Locator:
    """The list of chats that were left in this tab; opens the sheet."""
    if page.locator("#chats[open]").count() == 0:
        page.get_by_role("button", name="Chats", exact=True).click()
    return page.get_by_role("region", name="Other chats of this tab").locator(".row")


def titles(page: Page) -> Locator:
    return rows(page).locator(".row-name")


def reopen(page: Page, title: str) -> None:
    """Open a chat of the list."""
    rows(page).locator(".row-main", has_text=title).click()


def save_chat(page: Page, *names: str) -> None:
    """Save the open chat in the browser; these are then the saved ones."""
    rows(page)
    page.get_by_label("Save this chat in this browser").check()
    expect(page.get_by_role("region", name="Saved chats").locator(".row-name")).to_have_text(list(names))


def new_chat(page: Page) -> None:
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".turn")).to_have_count(0)


def test_chats_that_were_left_stay_and_open_again(page: Page) -> None:
    """Also after further questions, in any order, whole; each goes on in its own session."""
    wait_over(ask(page, "short one"))
    first = session_id(page)
    new_chat(page)
    wait_over(ask(page, "hello two"))
    new_chat(page)
    wait_over(ask(page, "short three"))
    expect(titles(page)).to_have_text(["hello two", "short one"])
    expect(rows(page).locator(".row-note").first).to_have_text(re.compile(r"^closed at \d\d:\d\d$"))
    reopen(page, "short one")
    expect(page.locator("#chats h2")).to_be_focused()  # the row that had the focus is gone
    expect(page.locator(".bubble")).to_have_text(["short one"])
    expect(titles(page)).to_have_text(["short three", "hello two"])
    bodies = record_requests(page)
    wait_over(ask(page, "and more"))
    assert bodies[0]["session_id"] == first
    assert [message["content"] for message in bodies[0]["messages"]] == ["short one", "Short answer.", "and more"]
    page.locator(".receipt").last.click()
    expect(page.locator(".receipt-details")).to_contain_text("still held the conversation so far")


def test_unsent_text_files_queue_and_edits_stay_with_their_chat(page: Page) -> None:
    """Whatever is open meanwhile: an empty chat, one with text of its own, a file, a kept chat."""
    two_turns(page)
    add(page, SAVE)
    composer(page).fill("half a thought")
    expect(attached(page)).to_have_count(1)
    page.get_by_role("button", name="Edit message").first.click()
    page.get_by_label("Your message").fill("half an edit")
    new_chat(page)
    expect(composer(page)).to_have_value("")
    composer(page).fill("of an empty chat")
    rows(page)
    give(page, document({"role": "user", "content": "Open?"}, {"role": "assistant", "content": "Yes."}))
    expect(page.locator(".bubble")).to_have_text(["Open?"])
    expect(composer(page)).to_have_value("")
    expect(titles(page)).to_have_text(["of an empty chat", "short one"])
    expect(rows(page).first).to_contain_text("unsent text")
    reopen(page, "short one")
    expect(composer(page)).to_have_value("half a thought")
    expect(attached(page)).to_contain_text("save.py")
    expect(page.get_by_label("Your message")).to_have_value("half an edit")
    reopen(page, "of an empty chat")
    expect(composer(page)).to_have_value("of an empty chat")
    expect(attached(page)).to_have_count(0)


def test_an_answer_goes_on_in_a_chat_that_was_left(page: Page) -> None:
    """The list says so; reopened, it is shown running, and is whole in the end. Its queue waits for the user."""
    answer = ask(page, "many lines")
    expect(answer.locator(".prose")).to_contain_text("Line 2")
    say(page, "short, queued")
    expect(queued(page)).to_have_count(1)
    new_chat(page)
    expect(rows(page)).to_contain_text("answering")
    expect(page.get_by_test_id("status")).to_contain_text("Busy with another request")
    wait_over(ask(page, "short one"))
    reopen(page, "many lines")
    expect(answer).to_have_attribute("data-phase", "writing")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(status_words(page)).to_contain_text("Sent when this answer is done.")
    new_chat(page)
    expect(rows(page).locator(".row-note", has_text="answering")).to_have_count(0)
    reopen(page, "many lines")
    assert_whole(answer)
    expect(status_words(page)).to_contain_text("Not sent, because you left this chat.")
    bodies = record_requests(page)
    page.get_by_role("button", name="Send now").click()
    wait_over(page.locator(".from-model").last)
    assert bodies[0]["messages"][-1]["content"] == "short, queued"


def test_more_answers_than_connections_run_in_the_background(page: Page) -> None:
    """A browser opens six connections to a server: the page keeps working, and no answer has a gap."""
    for number in range(6):
        expect(ask(page, f"many lines {number}").locator(".prose")).to_contain_text("Line 1")
        new_chat(page)
    wait_over(ask(page, "short one"))
    for number in (5, 0, 3):
        reopen(page, f"many lines {number}")
        expect(page.locator(".bubble")).to_have_text([f"many lines {number}"])
        assert_whole(page.locator(".from-model"))


def test_the_list_comes_back_after_a_reload(page: Page) -> None:
    """With its unsent text and its running answer, from the server: the tab stores ids, and no text."""
    wait_over(ask(page, "short one"))
    composer(page).fill("half a thought")
    new_chat(page)
    answer = ask(page, "many lines")
    expect(answer.locator(".prose")).to_contain_text("Line 2")
    new_chat(page)
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("only unsent")
    reload(page)
    expect(composer(page)).to_have_value("only unsent")
    expect(titles(page)).to_have_text(["many lines", "short one"])
    expect(rows(page).first).to_contain_text("answering")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "lines" not in stored
    assert "short" not in stored
    reopen(page, "short one")
    expect(page.locator(".bubble")).to_have_text(["short one"])
    expect(composer(page)).to_have_value("half a thought")
    expect(titles(page)).to_have_text(["only unsent", "many lines"])
    reload(page)
    expect(titles(page)).to_have_text(["only unsent", "many lines"])
    reopen(page, "many lines")
    assert_whole(answer)
    reopen(page, "only unsent")
    expect(composer(page)).to_have_value("only unsent")


def test_a_chat_with_nothing_but_files_comes_back_after_a_reload(page: Page) -> None:
    """They are its title, too."""
    with page.expect_request_finished(is_save("files")):
        add(page, SAVE)
    rows(page)
    give(page, document({"role": "user", "content": "Open?"}, {"role": "assistant", "content": "Yes."}))
    expect(titles(page)).to_have_text(["save.py"])
    reload(page)
    expect(titles(page)).to_have_text(["save.py"])
    reopen(page, "save.py")
    expect(attached(page)).to_contain_text("save.py")
    expect(page.locator(".turn")).to_have_count(0)


def test_a_chat_that_is_still_fetched_can_be_left(page: Page) -> None:
    """New chat before the reload has brought it back: it is in the list, and opens whole."""
    wait_over(ask(page, "short one"))
    held_back: list[Route] = []

    def hold(route: Route) -> None:
        held_back.append(route)

    page.route("**/v1/sessions/*", hold, times=1)
    with page.expect_request("**/v1/sessions/*"):
        page.reload()
    expect(page.locator(".restoring")).to_be_visible()
    new_chat(page)
    expect(titles(page)).to_have_text(["short one"])
    held_back[0].continue_()
    reopen(page, "short one")
    expect(page.locator(".bubble")).to_have_text(["short one"])
    assert shown(page) == ["short one", "Short answer."]


def test_a_saved_chat_that_is_left_while_it_is_looked_for_takes_its_unsent_text_along(page: Page) -> None:
    """And the rest of the list is there."""
    wait_over(ask(page, "short one"))
    new_chat(page)
    wait_over(ask(page, "hello two"))
    save_chat(page, "hello two")
    page.keyboard.press("Escape")
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("half a thought")
    page.add_init_script(SLOW_STORAGE)
    page.reload()
    expect(page.locator(".restoring")).to_be_visible()
    new_chat(page)
    page.evaluate("answerStorage()")
    expect(titles(page)).to_have_text(["hello two", "short one"])
    expect(composer(page)).to_have_value("")
    reopen(page, "hello two")
    expect(composer(page)).to_have_value("half a thought")
    expect(page.get_by_label("Save this chat in this browser")).to_be_checked()
    assert contents(kept(page)[0][0]["document"]["messages"]) == ["hello two", "You said something."]


def test_a_chat_that_comes_late_does_not_take_over(page: Page) -> None:
    """The user has opened another one meanwhile."""
    wait_over(ask(page, "short one"))
    late = session_id(page)
    new_chat(page)
    wait_over(ask(page, "hello two"))
    new_chat(page)
    held_back: list[Route] = []

    def hold(route: Route) -> None:
        held_back.append(route)

    page.route(f"**/v1/sessions/{late}", hold, times=1)
    with page.expect_request(f"**/v1/sessions/{late}"):
        reload(page)
    expect(rows(page).nth(1)).to_contain_text("on the server")
    rows(page).nth(1).locator(".row-main").click()
    reopen(page, "hello two")
    expect(page.locator(".bubble")).to_have_text(["hello two"])
    held_back[0].continue_()
    expect(titles(page)).to_have_text(["short one"])
    expect(page.locator(".bubble")).to_have_text(["hello two"])


def test_new_chat_while_a_saved_chat_is_looked_for_leaves_that_alone(page: Page, wide_server: ServerProcess) -> None:
    """In a new tab, whose storage is slow: the new chat is not saved, least of all in place of the saved one."""
    wait_over(ask(page, "short one"))
    save_chat(page, "short one")
    new = page.context.new_page()
    page.close()
    new.add_init_script(SLOW_STORAGE)
    new.goto(wide_server.url)
    expect(new.locator(".restoring")).to_be_visible()
    composer(new).fill("half a thought")
    new_chat(new)
    new.evaluate("answerStorage()")
    expect(titles(new)).to_have_text(["half a thought"])
    wait_over(ask(new, "hello two"))
    expect(new.get_by_label("Save this chat in this browser")).not_to_be_checked()
    assert [chat["title"] for chat in kept(new)[0]] == ["short one"]
    assert contents(kept(new)[0][0]["document"]["messages"]) == ["short one", "Short answer."]
    new.close()


def test_a_copy_of_the_tab_has_none_of_its_list(page: Page, watch: PageWatch) -> None:
    """The chats are the other tab's; the open one is shown, as ever."""
    watch.expected.append("a popup")
    wait_over(ask(page, "short one"))
    new_chat(page)
    wait_over(ask(page, "hello two"))
    with page.expect_popup() as copied:
        page.evaluate("void open(location.href)")
    copy = copied.value
    expect(copy.locator(".bubble")).to_have_text("hello two")
    expect(rows(copy)).to_have_count(0)
    expect(titles(page)).to_have_text(["short one"])
    copy.close()


def test_a_chat_is_deleted_only_when_asked_for(page: Page) -> None:
    """The question can be left; once deleted, it is in no list and at no server, also after a reload."""
    wait_over(ask(page, "short one"))
    new_chat(page)
    expect(page.get_by_role("button", name="Reopen the previous chat")).to_be_visible()
    delete = rows(page).get_by_role("button", name="Delete short one")
    delete.click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(delete).to_be_focused()
    expect(titles(page)).to_have_text(["short one"])
    delete.click()
    with page.expect_response(lambda said: said.request.method == "DELETE"):
        page.get_by_role("button", name="Delete", exact=True).click()
    expect(rows(page)).to_have_count(0)
    expect(page.get_by_role("button", name="Reopen the previous chat")).to_have_count(0)
    reload(page)
    expect(rows(page)).to_have_count(0)


def test_a_left_chat_is_saved_with_the_answer_that_ended_in_it(page: Page) -> None:
    """From the list; the saved copy is written again when the answer ends, and opening it opens the chat of the tab."""
    answer = ask(page, "many lines")
    expect(answer.locator(".prose")).to_contain_text("Line 2")
    new_chat(page)
    rows(page).get_by_role("button", name="Save many lines").click()
    expect(rows(page)).to_contain_text("saved")
    saved = page.get_by_role("region", name="Saved chats").locator(".row-main")
    expect(saved).to_have_count(1)
    expect(rows(page)).not_to_contain_text("answering")
    wait_until(page, "document.querySelector('#chats .row-note')")
    (chat,) = kept(page)[0]
    assert chat["document"]["messages"][1]["content"] == "\n\n".join(LINES)
    assert chat["document"]["messages"][1]["state"] == "done"
    saved.click()
    assert_whole(answer)
    expect(rows(page)).to_have_count(0)
    expect(page.get_by_label("Save this chat in this browser")).to_be_checked()
    new_chat(page)
    rows(page).get_by_role("button", name="Delete many lines").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(rows(page)).to_have_count(0)
    expect(saved).to_have_count(1)


def test_what_another_tab_adds_to_a_saved_chat_stays(page: Page, wide_server: ServerProcess, watch: PageWatch) -> None:
    """The tab that had left the chat keeps its own version in its list, and the saved chat opens as it is by then."""
    wait_over(ask(page, "short one"))
    save_chat(page, "short one")
    new_chat(page)
    expect(rows(page)).to_contain_text("saved")
    other = page.context.new_page()
    watch.follow(other)
    other.goto(wide_server.url)
    expect(other.locator(".bubble")).to_have_text(["short one"])
    wait_over(ask(other, "hello two"))
    other.close()
    expect(rows(page)).not_to_contain_text("saved")
    reopen(page, "short one")
    assert shown(page) == ["short one", "Short answer."]
    expect(page.get_by_label("Save this chat in this browser")).not_to_be_checked()
    page.get_by_role("region", name="Saved chats").locator(".row-main").click()
    expect(page.locator(".bubble")).to_have_text(["short one", "hello two"])
    expect(page.get_by_label("Save this chat in this browser")).to_be_checked()
    (chat,) = kept(page)[0]
    assert contents(chat["document"]["messages"])[::2] == ["short one", "hello two"]


def test_what_another_tab_adds_while_this_one_is_away_stays(page: Page, wide_server: ServerProcess) -> None:
    """The list comes back with what the server has, saved no more where that is an older version; others stay saved."""
    parts = [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": "Look"}]
    open_chats(page)
    give(page, document({"role": "user", "content": parts}, {"role": "assistant", "content": "Seen."}))
    save_chat(page, "Look")
    new_chat(page)
    wait_over(ask(page, "short one"))
    save_chat(page, "short one", "Look")
    new_chat(page)
    page.goto("about:blank")
    other = page.context.new_page()
    other.goto(wide_server.url)
    expect(other.locator(".bubble")).to_have_text(["short one"])
    wait_over(ask(other, "hello two"))
    other.close()
    page.goto(wide_server.url)
    expect(titles(page)).to_have_text(["short one", "Look"])
    expect(rows(page).nth(0)).not_to_contain_text("saved")
    expect(rows(page).nth(1)).not_to_contain_text("on the server")
    expect(rows(page).nth(1)).to_contain_text("saved")
    saved = page.get_by_role("region", name="Saved chats").locator(".row-main", has_text="short one")
    saved.click()
    expect(page.locator(".bubble")).to_have_text(["short one", "hello two"])
    reopen(page, "short one")
    expect(page.locator(".bubble")).to_have_text(["short one"])
    expect(saved).to_contain_text("4 turns")


def test_a_left_chat_that_was_saved_says_so(page: Page) -> None:
    """At once, in its row: it can be saved no more; once its saved copy is deleted, it can."""
    wait_over(ask(page, "short one"))
    new_chat(page)
    save = rows(page).get_by_role("button", name="Save short one")
    save.click()
    expect(rows(page)).to_contain_text("saved")
    expect(save).to_have_count(0)
    page.get_by_role("region", name="Saved chats").get_by_role("button", name="Delete short one").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(save).to_be_visible()
    expect(titles(page)).to_have_text(["short one"])


def test_a_restarted_server_is_told_of_the_list(
    open_page: Callable[..., Page], tmp_path: Path, watch: PageWatch
) -> None:
    """With what is unsent in it: a reload after the restart finds all of it."""
    watch.expected += ["ERR_", "404"]
    server = RestartableServer(tmp_path, write_script(tmp_path))
    page = open_page(server.url)
    wait_over(ask(page, "short one"))
    composer(page).fill("half a thought")
    new_chat(page)
    server.kill()
    expect(page.get_by_test_id("status")).to_contain_text("Offline")
    with page.expect_response(lambda said: is_save("text")(said.request)):
        server.start()
    reload(page)
    expect(titles(page)).to_have_text(["short one"])
    reopen(page, "short one")
    assert shown(page) == ["short one", "Short answer."]
    expect(composer(page)).to_have_value("half a thought")
    page.close()
    server.now.stop()


def test_what_another_try_replaced_is_listed_once_it_cannot_be_undone(page: Page) -> None:
    """The user's own later messages went with it. What was deleted on purpose is not listed."""
    two_turns(page)
    page.get_by_role("button", name="Regenerate").first.click()
    wait_over(page.locator(".from-model"))
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    expect(rows(page)).to_have_count(0)
    wait_over(ask(page, "short again"))
    expect(titles(page)).to_have_text(["short one (earlier version)"])
    page.get_by_role("button", name="Delete from here").nth(2).click()
    wait_over(ask(page, "short third"))
    expect(titles(page)).to_have_text(["short one (earlier version)"])
    reload(page)
    reopen(page, "short one")
    expect(page.locator(".from-model")).to_have_count(2)
    assert shown(page) == ["short one", "Short answer.", "hello there", "You said something."]


def test_an_open_edit_stays_with_the_message_that_an_earlier_edit_replaced(page: Page, watch: PageWatch) -> None:
    """As long as that can be undone, and in the earlier version from then on; the browser asks before it goes."""
    watch.expected.append("a dialog")
    two_turns(page)
    page.get_by_role("button", name="Edit message").nth(1).click()
    page.get_by_label("Your message").fill("half an edit")
    page.get_by_role("button", name="Edit message").first.click()
    page.get_by_label("Your message").first.fill("short edited")
    page.get_by_role("button", name="Save & send").first.click()
    wait_over(page.locator(".from-model"))
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    wait_over(ask(page, "short again"))
    reopen(page, "short one")
    expect(page.get_by_label("Your message")).to_have_value("half an edit")
    assert shown(page)[:2] == ["short one", "Short answer."]


def test_a_chat_that_was_left_can_still_be_undone(page: Page) -> None:
    """What another try replaces, also where it was left and opened again while it ran."""
    two_turns(page)
    edit_message(page, 0, "many lines")
    expect(page.locator(".from-model .prose")).to_contain_text("Line 2")
    new_chat(page)
    reopen(page, "many lines")
    assert_whole(page.locator(".from-model"))
    new_chat(page)
    reopen(page, "many lines")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".from-model")).to_have_count(2)
    assert shown(page) == ["short one", "Short answer.", "hello there", "You said something."]


def test_a_chat_whose_turns_were_all_deleted_can_still_be_undone(page: Page) -> None:
    """Also after another one was open."""
    wait_over(ask(page, "short one"))
    page.get_by_role("button", name="Delete from here").first.click()
    expect(page.locator(".turn")).to_have_count(0)
    open_chats(page)
    give(page, document({"role": "user", "content": "Open?"}, {"role": "assistant", "content": "Yes."}))
    reopen(page, "short one")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".bubble")).to_have_text(["short one"])
    assert shown(page) == ["short one", "Short answer."]


def test_an_answer_that_is_refused_in_a_chat_that_was_left_is_over_when_that_opens(
    page: Page, watch: PageWatch
) -> None:
    """Also where more answers are awaited than are read at a time."""
    watch.expected.append("400")
    for number in range(2):
        expect(ask(page, f"many lines {number}").locator(".prose")).to_contain_text("Line 1")
        new_chat(page)
    held_back: list[Route] = []

    def hold(route: Route) -> None:
        held_back.append(route)

    page.route("**/v1/chat/completions", hold, times=1)
    with page.expect_request("**/v1/chat/completions"):
        ask(page, "short three")
    new_chat(page)
    fault = {"error": {"message": "No.", "type": "invalid_request_error", "code": "no", "param": None}}
    held_back[0].fulfill(status=400, json=fault)
    expect(rows(page).first).not_to_contain_text("answering")
    reopen(page, "short three")
    expect(page.locator(".from-model")).to_contain_text("No.")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_refused_edit_is_there_when_the_message_is_opened_again(page: Page, watch: PageWatch) -> None:
    """Also where the offer was dismissed, or went with the next message."""
    watch.expected.append("400")
    wait_over(ask(page, "short one"))
    fault = {"error": {"message": "No.", "type": "invalid_request_error", "code": "no", "param": None}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=400, json=fault), times=1)
    edit_message(page, 0, "a long edit")
    refusal(page).get_by_role("button", name="Dismiss").click()
    wait_over(ask(page, "short two"))
    page.get_by_role("button", name="Edit message").first.click()
    expect(page.get_by_label("Your message")).to_have_value("a long edit")


def test_a_suggestion_keeps_what_was_written(page: Page) -> None:
    """It comes behind it."""
    composer(page).fill("my words")
    page.get_by_role("button", name="Compare tea").click()
    expect(composer(page)).to_have_value("my words\n\nCompare tea, coffee and mate in a table")


def test_a_system_message_is_not_lost(page: Page) -> None:
    """One that a preset replaces can be had back; one in an empty chat stays with it when another is opened."""
    page.get_by_role("button", name="Settings", exact=True).click()
    field = page.get_by_label("System message", exact=True)
    field.fill("of the preset")
    page.get_by_role("button", name="Save these settings").click()
    page.get_by_label("Name of the preset").fill("One")
    page.get_by_label("With the system message").check()
    page.get_by_role("button", name="Save", exact=True).click()
    field.fill("my own")
    page.get_by_title("Use these settings").click()
    expect(field).to_have_value("of the preset")
    page.get_by_role("button", name="Undo").click()
    expect(field).to_have_value("my own")
    rows(page)
    give(page, document({"role": "user", "content": "Open?"}, {"role": "assistant", "content": "Yes."}))
    expect(titles(page)).to_have_text(["my own"])
    reopen(page, "my own")
    page.get_by_role("button", name="Settings", exact=True).click()
    expect(field).to_have_value("my own")


def test_a_system_message_survives_a_reload_before_it_was_sent(page: Page) -> None:
    """In a chat without a message, and one that was changed since the last one."""
    field = page.get_by_label("System message", exact=True)
    for words in ("first words", "other words"):
        page.get_by_role("button", name="Settings", exact=True).click()
        field.fill(words)
        page.keyboard.press("Escape")
        reload(page)
        page.get_by_role("button", name="Settings", exact=True).click()
        expect(field).to_have_value(words)
        page.keyboard.press("Escape")
        wait_over(ask(page, "short one"))


def test_the_browser_asks_before_an_edit_goes_with_the_page(page: Page, watch: PageWatch) -> None:
    """An edit is nowhere but in the page; one that changes nothing holds nobody up."""
    watch.expected.append("a dialog")
    wait_over(ask(page, "short one"))
    page.get_by_role("button", name="Edit message").click()
    field = page.get_by_label("Your message")
    field.fill("half an edit")
    with page.expect_event("dialog") as asked:  # the watch says no to it
        page.evaluate("location.reload()")
    assert asked.value.type == "beforeunload"
    expect(field).to_have_value("half an edit")
    new_chat(page)
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    reopen(page, "short one")
    field.fill("short one")
    reload(page)
    expect(page.locator(".bubble")).to_have_text(["short one"])
