"""What hands do without meaning it, and what the page then does not do: double clicks, drops onto dialogs, a crowded
start."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.files import add, attached, composer, hand_over
from tests.browser.held_stream import holding
from tests.browser.scripts import CHAT_SCRIPT, ask, wait_over, wait_until
from tests.browser.test_edits import TWO_TURNS, edit_message, shown, two_turns
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

FILM: FilePayload = {"name": "film.mp4", "mimeType": "video/mp4", "buffer": bytes([0, 1, 2])}


def notes(name: str = "notes.txt") -> FilePayload:
    """A small text file."""
    return {"name": name, "mimeType": "text/plain", "buffer": b"A line.\n"}


def test_a_double_click_on_send_does_not_stop_the_answer(chromium_page: Page) -> None:
    """Stop stands where Send stood; a click of its own still stops."""
    composer(chromium_page).fill("endless")
    chromium_page.get_by_role("button", name="Send").dblclick()
    answer = chromium_page.locator(".from-model")
    expect(answer.locator(".prose")).to_contain_text("on and on and")
    stop = chromium_page.get_by_role("button", name="Stop")
    expect(stop).to_be_enabled()
    stop.click()
    wait_over(answer, "stopped")


def test_a_file_dropped_onto_a_dialog_goes_nowhere(chromium_page: Page) -> None:
    """Nobody would see where it ends; the browser does not open it either."""
    wait_over(ask(chromium_page, "short"))
    chromium_page.get_by_role("button", name="What the model saw").click()
    panel = chromium_page.get_by_role("dialog", name="What the model saw")
    expect(panel).to_be_visible()
    hand_over(panel, "dragover", [notes()])
    hand_over(panel, "drop", [notes()])
    chromium_page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    hand_over(chromium_page.locator(".transcript"), "drop", [notes("second.txt")])
    expect(attached(chromium_page)).to_have_count(1)
    expect(attached(chromium_page)).to_contain_text("second.txt")


def test_words_about_refused_files_go_with_the_message(chromium_page: Page) -> None:
    """They are about what is being written; once that is sent, they are in the way."""
    add(chromium_page, FILM)
    refused = chromium_page.locator(".refused-files")
    expect(refused).to_contain_text("film.mp4 was not added")
    wait_over(ask(chromium_page, "short"))
    expect(refused).to_have_count(0)


def test_the_start_of_an_empty_chat_stays_in_view(chromium_page: Page) -> None:
    """Also when what stands above the composer takes much of the height."""
    chromium_page.set_viewport_size({"width": 1280, "height": 700})
    add(chromium_page, notes(), FILM)
    expect(chromium_page.locator(".refused-files")).to_be_visible()
    composer(chromium_page).fill("line\n" * 4)
    wait_until(chromium_page, "document.querySelector('.dock').offsetHeight > 300")
    expect(chromium_page.get_by_role("heading", name="What is on your mind?")).to_be_in_viewport(ratio=1)
    expect(chromium_page.locator(".jump")).to_have_count(0)


def test_many_files_leave_the_buttons_in_the_window(chromium_page: Page) -> None:
    """They scroll in a part of their own."""
    add(chromium_page, *(notes(f"notes-{number}.txt") for number in range(30)))
    expect(attached(chromium_page)).to_have_count(30)
    expect(chromium_page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
    expect(attached(chromium_page).last).not_to_be_in_viewport()
    attached(chromium_page).last.get_by_role("button", name="Remove notes-29.txt").click()
    expect(attached(chromium_page)).to_have_count(29)


def test_a_message_says_at_once_that_the_model_is_not_there_yet(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """Before the server's own words about it come, two seconds later."""
    server = scripted_server({**CHAT_SCRIPT, "load_ms": 600_000, "load_steps": 20}, ready=False)
    page = open_page(server.url)
    expect(page.get_by_test_id("status")).to_contain_text("Loading")
    page.route("**/v1/chat/completions", lambda route: None)  # never answered: only the page speaks
    answer = ask(page, "short")
    expect(answer.locator(".waiting")).to_contain_text("Waiting for the model to load")


def test_a_tab_in_the_background_says_that_an_answer_is_there(chromium_page: Page) -> None:
    """In its title, without a word of it; gone as soon as somebody looks."""
    show = """state => {
        Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    wait_over(ask(chromium_page, "short"))
    assert chromium_page.title() == "Muse Glimmer Playground"
    answer = ask(chromium_page, "lines")
    expect(answer.locator(".prose")).to_contain_text("Line 2")
    chromium_page.evaluate(show, "hidden")
    expect(chromium_page).to_have_title("Answer ready · Muse Glimmer Playground")
    chromium_page.evaluate(show, "visible")
    expect(chromium_page).to_have_title("Muse Glimmer Playground")


def test_an_answer_to_nothing_cannot_be_had_again(chromium_page: Page, tmp_path: Path) -> None:
    """A chat from a file may begin with an answer: there is no question to ask again."""
    said = [("assistant", "I begin."), ("user", "short"), ("assistant", "And end.")]
    messages = [{"role": role, "content": content} for role, content in said]
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"format": "muse-chat", "version": 1, "messages": messages}))
    chromium_page.get_by_role("button", name="Chats", exact=True).click()
    chromium_page.get_by_label("Chat file").set_input_files(str(file))
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    again = chromium_page.get_by_role("button", name="Regenerate")
    expect(again).to_have_count(1)
    again.click()
    wait_over(chromium_page.locator(".from-model").last)
    expect(chromium_page.locator(".turn")).to_have_count(3)


def test_an_edit_stopped_at_the_moment_it_is_taken_is_stopped(chromium_page: Page) -> None:
    """Stop was first, the model's first word came nevertheless: the chat is as it was before the edit."""
    two_turns(chromium_page)
    with holding("Muse-Reply-Id: chatcmpl-held\r\n") as answering:
        answering.replace(chromium_page, "**/v1/chat/completions")
        edit_message(chromium_page, 0, "short edited")
        answering.sign(phase="queued", position=2)
        expect(chromium_page.locator(".waiting")).to_contain_text("Queued, 2nd")
        with chromium_page.expect_request("**/api/cancel"):
            chromium_page.get_by_role("button", name="Stop", exact=True).click()
        delta = {"role": "assistant", "content": "Too late."}
        answering.event("message", {"id": "chatcmpl-held", "choices": [{"index": 0, "delta": delta}]})
        expect(chromium_page.get_by_role("alert")).to_contain_text("Your edit was not sent")
    assert shown(chromium_page) == TWO_TURNS
