"""Edit, regenerate, edit an answer, undo: what the page shows and what the server has are the same history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import CHAT_SCRIPT, ask, record_requests, session_id, wait_over
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

TOO_LONG = "short " * 300


@pytest.fixture
def small_server(scripted_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server whose model takes 256 tokens, so that a long prompt is refused."""
    return scripted_server({**CHAT_SCRIPT, "context_length": 256})


def contents(messages: list[dict[str, Any]]) -> list[str]:
    """What each message says."""
    return [message["content"] for message in messages]


def shown(page: Page) -> list[str]:
    """What each turn on the screen says."""
    return page.locator(".bubble, .from-model .prose").all_inner_texts()


def held(page: Page, server: ServerProcess) -> list[str]:
    """What each message of this chat says in the server's memory."""
    return contents(server.get(f"/v1/sessions/{session_id(page)}").json()["messages"])


def told(page: Page, method: str = "PUT") -> AbstractContextManager[Any]:
    """Within it the page tells the server of a changed history; at its end the server has that."""
    return page.expect_response(lambda said: said.request.method == method and "/v1/sessions/" in said.url)


def two_turns(page: Page) -> None:
    """A chat of four messages."""
    wait_over(ask(page, "short one"))
    wait_over(ask(page, "hello there"))


TWO_TURNS = ["short one", "Short answer.", "hello there", "You said something."]


def edit_message(page: Page, number: int, text: str) -> None:
    """Open the editor of the user's message with this index, and save."""
    page.get_by_role("button", name="Edit message").nth(number).click()
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Save & send").click()


def refusal(page: Page) -> Locator:
    """The banner that says why a change was not taken."""
    return page.get_by_role("alert")


def test_an_edit_drops_the_later_turns_and_asks_again(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The request has the shortened history on the same session; page and server then have the same."""
    bodies = record_requests(chromium_page)
    two_turns(chromium_page)
    edit_message(chromium_page, 0, "tell me something")
    wait_over(chromium_page.locator(".from-model"))
    assert contents(bodies[-1]["messages"]) == ["tell me something"]
    assert bodies[-1]["session_id"] == bodies[0]["session_id"]
    assert shown(chromium_page) == ["tell me something", "You said something."]
    assert held(chromium_page, chat_server) == shown(chromium_page)


def test_an_edit_that_is_refused_changes_nothing(
    open_page: Callable[..., Page], small_server: ServerProcess, watch: PageWatch
) -> None:
    """The old history is back in full, on the page and on the server; the reason and the edited text are there."""
    watch.expected.append("400")
    page = open_page(small_server.url)
    two_turns(page)
    edit_message(page, 0, TOO_LONG)
    expect(refusal(page)).to_contain_text("The chat is as it was")
    expect(refusal(page)).to_contain_text("256")
    assert shown(page) == TWO_TURNS
    assert held(page, small_server) == TWO_TURNS
    page.get_by_role("button", name="Edit again").click()
    expect(page.get_by_label("Your message")).to_have_value(TOO_LONG)
    page.get_by_label("Your message").fill("short enough")
    page.get_by_role("button", name="Save & send").click()
    wait_over(page.locator(".from-model"))
    assert shown(page) == ["short enough", "Short answer."]
    expect(refusal(page)).to_have_count(0)


def test_an_edit_without_a_connection_changes_nothing(chromium_page: Page, watch: PageWatch) -> None:
    """Nothing reaches the server: the old history is back, and what follows works on it."""
    watch.expected.append("ERR_CONNECTION_REFUSED")
    two_turns(chromium_page)
    chromium_page.route("**/v1/chat/completions", lambda route: route.abort("connectionrefused"), times=1)
    edit_message(chromium_page, 1, "lost words")
    expect(refusal(chromium_page)).to_contain_text("cannot be reached")
    assert shown(chromium_page) == TWO_TURNS
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short again"))
    assert contents(bodies[0]["messages"]) == [*TWO_TURNS, "short again"]
    expect(refusal(chromium_page)).to_have_count(0)


def test_an_edit_is_pending_until_the_model_has_taken_it(chromium_page: Page) -> None:
    """Shown at once; stopped before the model took it, the old history is back, and a late start is cancelled."""
    two_turns(chromium_page)
    held_back: list[Route] = []

    def hold(route: Route) -> None:
        held_back.append(route)

    chromium_page.route("**/v1/chat/completions", hold, times=1)
    edit_message(chromium_page, 0, "endless words")
    expect(chromium_page.locator(".pending .bubble")).to_have_text("endless words")
    expect(chromium_page.locator(".turn")).to_have_count(2)
    chromium_page.get_by_role("button", name="Stop").click()
    expect(refusal(chromium_page)).to_contain_text("stopped before the model had taken it")
    assert shown(chromium_page) == TWO_TURNS
    refusal(chromium_page).get_by_role("button", name="Dismiss").click()
    expect(refusal(chromium_page)).to_have_count(0)
    with chromium_page.expect_response("**/api/cancel") as cancelled:
        held_back[0].continue_()
    assert cancelled.value.json() == {"cancelled": True}
    assert shown(chromium_page) == TWO_TURNS


def test_escape_and_cancel_leave_a_message_as_it_was(chromium_page: Page) -> None:
    """By keyboard alone; the focus goes back to the button that opened the editor."""
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short one"))
    edit = chromium_page.get_by_role("button", name="Edit message")
    for leave in (
        lambda: chromium_page.keyboard.press("Escape"),
        lambda: chromium_page.get_by_role("button", name="Cancel").press("Enter"),
    ):
        edit.press("Enter")
        expect(chromium_page.get_by_label("Your message")).to_be_focused()
        chromium_page.keyboard.type("thrown away")
        leave()
        expect(edit).to_be_focused()
        expect(chromium_page.locator(".bubble")).to_have_text("short one")
    assert len(bodies) == 1


def test_an_empty_edit_is_not_taken(chromium_page: Page) -> None:
    """Neither a message nor an answer can become blank."""
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short one"))
    for button, label, save in (("Edit message", "Your message", "Save & send"), ("Edit answer", "The answer", "Save")):
        chromium_page.get_by_role("button", name=button).click()
        field = chromium_page.get_by_label(label)
        field.fill(" \n ")
        expect(chromium_page.get_by_role("button", name=save)).to_have_attribute("aria-disabled", "true")
        field.press("Control+Enter")
        expect(field).to_be_visible()
        field.press("Escape")
    assert shown(chromium_page) == ["short one", "Short answer."]
    assert len(bodies) == 1


def test_nothing_can_be_changed_while_an_answer_is_written(chromium_page: Page) -> None:
    """The buttons stay in their places and say why; an open editor keeps its text."""
    wait_over(ask(chromium_page, "short one"))
    chromium_page.get_by_role("button", name="Edit message").click()
    chromium_page.get_by_label("Your message").fill("kept")
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    for name in ("Edit message", "Edit answer", "Regenerate"):
        button = chromium_page.get_by_role("button", name=name).first
        expect(button).to_have_attribute("aria-disabled", "true")
        assert "while an answer is being written" in (button.get_attribute("title") or "")
        button.click(force=True)
    chromium_page.get_by_role("button", name="Save & send").click(force=True)
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    expect(chromium_page.get_by_role("textbox")).to_have_count(2)
    expect(chromium_page.get_by_label("Your message")).to_have_value("kept")
    chromium_page.get_by_role("button", name="Save & send").click()
    expect(chromium_page.locator(".bubble")).to_have_text("kept")
    wait_over(chromium_page.locator(".from-model"))


def test_regenerate_replaces_an_answer_and_drops_the_later_turns(
    chromium_page: Page, chat_server: ServerProcess
) -> None:
    """The same question goes out once more, on the same session."""
    bodies = record_requests(chromium_page)
    two_turns(chromium_page)
    chromium_page.get_by_role("button", name="Regenerate").first.click()
    expect(chromium_page.locator(".turn")).to_have_count(2)
    wait_over(chromium_page.locator(".from-model"))
    assert contents(bodies[-1]["messages"]) == ["short one"]
    assert len({body["session_id"] for body in bodies}) == 1
    assert held(chromium_page, chat_server) == shown(chromium_page) == ["short one", "Short answer."]


def test_what_an_answer_replaced_can_be_brought_back(chromium_page: Page, chat_server: ServerProcess) -> None:
    """After a regenerate that ended and one that was stopped; said aloud, and true of the server, too."""
    two_turns(chromium_page)
    chromium_page.get_by_role("button", name="Regenerate").first.click()
    undo = chromium_page.get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    announced = chromium_page.get_by_test_id("announce-answer")
    expect(announced).to_contain_text("Answer finished.")
    expect(announced).to_contain_text("This can be undone.")
    with told(chromium_page):
        undo.click()
    assert held(chromium_page, chat_server) == shown(chromium_page) == TWO_TURNS
    expect(chromium_page.locator(".receipt")).to_have_count(2)
    edit_message(chromium_page, 0, "endless")
    expect(chromium_page.locator(".from-model .prose")).to_contain_text("on and")
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(chromium_page.locator(".from-model"), "stopped")
    with told(chromium_page):
        undo.click()
    assert held(chromium_page, chat_server) == shown(chromium_page) == TWO_TURNS
    wait_over(ask(chromium_page, "short again"))
    expect(undo).to_have_count(0)


def test_a_regenerate_that_is_refused_keeps_the_answer(chromium_page: Page, watch: PageWatch) -> None:
    """All turns are back with the server's words, and another try works."""
    watch.expected.append("503")
    two_turns(chromium_page)
    down = {"error": {"message": "No model.", "type": "server_error", "code": "model_unavailable", "param": None}}
    chromium_page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=down), times=1)
    chromium_page.get_by_role("button", name="Regenerate").first.click()
    expect(refusal(chromium_page)).to_contain_text("No model.")
    assert shown(chromium_page) == TWO_TURNS
    refusal(chromium_page).get_by_role("button", name="Try again").click()
    expect(chromium_page.locator(".turn")).to_have_count(2)
    wait_over(chromium_page.locator(".from-model"))


def test_an_edited_answer_holds_at_once_and_can_be_undone(chromium_page: Page, chat_server: ServerProcess) -> None:
    """Its figures and the later turns go; undo brings them back; the next request carries the edited words."""
    bodies = record_requests(chromium_page)
    two_turns(chromium_page)

    def change() -> None:
        chromium_page.get_by_role("button", name="Edit answer").first.click()
        chromium_page.get_by_label("The answer").fill("My own *words*.")
        chromium_page.get_by_role("button", name="Save", exact=True).click()
        expect(chromium_page.locator(".prose em")).to_have_text("words")

    with chromium_page.expect_response(
        lambda response: response.request.method == "PUT" and "/v1/sessions/" in response.url
    ):
        change()
    assert shown(chromium_page) == ["short one", "My own words."]
    expect(chromium_page.locator(".receipt")).to_have_count(0)
    assert len(bodies) == 2
    assert held(chromium_page, chat_server) == ["short one", "My own *words*."]
    chromium_page.get_by_role("button", name="Undo").press("Enter")
    expect(chromium_page.get_by_label("Message", exact=True)).to_be_focused()
    assert shown(chromium_page) == TWO_TURNS
    expect(chromium_page.locator(".receipt")).to_have_count(2)
    change()
    wait_over(ask(chromium_page, "hello again"))
    expect(chromium_page.get_by_role("button", name="Undo")).to_have_count(0)
    expected = ["short one", "My own *words*.", "hello again"]
    assert contents(bodies[-1]["messages"]) == expected
    assert held(chromium_page, chat_server) == [*expected, "You said something."]


def test_a_tail_is_deleted_and_brought_back(chromium_page: Page, chat_server: ServerProcess) -> None:
    """From a question on, by keyboard: page and server have the rest; Undo brings all back, receipts included."""
    bodies = record_requests(chromium_page)
    two_turns(chromium_page)
    with told(chromium_page):
        chromium_page.get_by_role("button", name="Delete from here").nth(2).press("Enter")
    undo = chromium_page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    expect(chromium_page.locator(".remark")).to_contain_text("2 turns deleted.")
    expect(chromium_page.get_by_test_id("announce-answer")).to_have_text("2 turns deleted. This can be undone.")
    assert shown(chromium_page) == TWO_TURNS[:2]
    assert held(chromium_page, chat_server) == TWO_TURNS[:2]
    with told(chromium_page):
        undo.press("Enter")
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    assert shown(chromium_page) == TWO_TURNS
    expect(chromium_page.locator(".receipt")).to_have_count(2)
    assert held(chromium_page, chat_server) == TWO_TURNS
    chromium_page.get_by_role("button", name="Delete from here").nth(2).click()
    wait_over(ask(chromium_page, "something else"))
    assert contents(bodies[-1]["messages"]) == [*TWO_TURNS[:2], "something else"]
    expect(undo).to_have_count(0)


def test_a_question_without_its_answer_can_be_asked_again(chromium_page: Page) -> None:
    """After its answer was deleted, and no empty answer is sent to the model."""
    bodies = record_requests(chromium_page)
    two_turns(chromium_page)
    chromium_page.get_by_role("button", name="Delete from here").nth(1).click()
    last = chromium_page.locator(".from-model")
    expect(last).to_have_count(1)
    expect(last).to_contain_text("Its answer was deleted.")
    expect(last.get_by_role("button", name="Delete from here")).to_have_count(0)
    last.get_by_role("button", name="Send again").click()
    wait_over(last)
    assert contents(bodies[-1]["messages"]) == ["short one"]
    assert shown(chromium_page) == TWO_TURNS[:2]


def test_all_is_deleted_and_nothing_comes_back_by_a_reload(chromium_page: Page, chat_server: ServerProcess) -> None:
    """From the first turn on nothing is left, also at the server; undone, a reload finds all again."""
    two_turns(chromium_page)
    before = session_id(chromium_page)
    with told(chromium_page, "DELETE"):
        chromium_page.get_by_role("button", name="Delete from here").first.click()
    expect(chromium_page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    assert chat_server.get(f"/v1/sessions/{before}").status_code == 404
    with told(chromium_page):
        chromium_page.get_by_role("button", name="Undo").click()
    assert held(chromium_page, chat_server) == TWO_TURNS
    chromium_page.reload()
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    assert shown(chromium_page) == TWO_TURNS
    chromium_page.get_by_role("button", name="Delete from here").first.click()
    chromium_page.reload()
    expect(chromium_page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    expect(chromium_page.locator(".remark")).to_have_count(0)
