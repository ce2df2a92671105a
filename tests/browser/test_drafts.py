"""What is being written survives a reload, in the server's memory and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import add, attached, composer
from tests.browser.scripts import ask, record_requests, session_id, wait_over
from tests.browser.test_composer import SAVE, SAVED, begin_endless, queue_with_a_file, queued, say, status_words
from tests.browser.test_pictures import QUESTION, png
from tests.browser.test_sessions import RestartableServer, write_script
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


def is_save(part: str) -> Callable[[Request], bool]:
    return lambda request: request.method == "PUT" and f"/api/drafts/{part}" in request.url


def reload(page: Page) -> None:
    page.reload()
    page.wait_for_selector(".composer")


def test_text_and_files_survive_a_reload(chromium_page: Page, chat_server: ServerProcess) -> None:
    """Before anything was sent, and at once after a key; nothing of it is in the browser's storage. Sent or emptied,
    they do not come back."""
    add(chromium_page, SAVE)
    expect(attached(chromium_page)).to_have_count(1)
    composer(chromium_page).fill("half a thought")
    reload(chromium_page)
    expect(composer(chromium_page)).to_have_value("half a thought")
    expect(attached(chromium_page)).to_contain_text("save.py")
    stored = chromium_page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "thought" not in stored
    assert "fence" not in stored
    composer(chromium_page).fill("")
    reload(chromium_page)
    expect(attached(chromium_page)).to_contain_text("save.py")
    expect(composer(chromium_page)).to_have_value("")
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short one"))
    assert bodies[0]["messages"][0]["content"] == f"{SAVED}\n\nshort one"
    chat_server.wait_idle()
    reload(chromium_page)
    expect(chromium_page.locator(".receipt")).to_be_visible()
    expect(composer(chromium_page)).to_have_value("")
    expect(attached(chromium_page)).to_have_count(0)


def test_a_draft_belongs_to_its_chat(chromium_page: Page, chat_server: ServerProcess, watch: PageWatch) -> None:
    """Neither a new tab nor the copy of a tab has it; it stays with the chat when that is left."""
    watch.expected.append("a popup")
    wait_over(ask(chromium_page, "short one"))
    known = session_id(chromium_page)
    with chromium_page.expect_request_finished(is_save("text")):
        composer(chromium_page).fill("mine")
    with chromium_page.expect_popup() as copied:
        chromium_page.evaluate("void open(location.href)")
    copy = copied.value
    expect(copy.locator(".bubble")).to_have_text("short one")
    expect(composer(copy)).to_have_value("")
    wait_over(ask(copy, "hello from the copy"))
    reload(chromium_page)
    expect(composer(chromium_page)).to_have_value("mine")
    chromium_page.get_by_role("button", name="New chat").click()
    expect(composer(chromium_page)).to_have_value("")
    assert chat_server.get(f"/api/drafts/text/{known}").json()["content"]["text"] == "mine"


def test_a_draft_outlives_the_chat_it_was_written_in(chromium_page: Page) -> None:
    """All turns deleted: the chat has another id from then on, under which the server gets the draft anew."""
    wait_over(ask(chromium_page, "short one"))
    with chromium_page.expect_response(lambda said: is_save("text")(said.request)):
        composer(chromium_page).fill("half a thought")
    with chromium_page.expect_response(lambda said: is_save("text")(said.request)):
        chromium_page.get_by_role("button", name="Delete from here").first.click()
    reload(chromium_page)
    expect(composer(chromium_page)).to_have_value("half a thought")


def test_pictures_survive_a_reload(open_page: Callable[..., Page], seeing_server: ServerProcess) -> None:
    """The same bytes, with name, size and price; the model sees them."""
    page = open_page(seeing_server.url)
    page.wait_for_selector(".status.ready")
    with page.expect_request_finished(is_save("files")):
        add(page, png("red"))
    reload(page)
    expect(attached(page)).to_contain_text("red.png")
    expect(attached(page)).to_contain_text("56 × 84")
    expect(attached(page)).to_contain_text("8 tokens")
    answer = wait_over(ask(page, QUESTION))
    expect(answer.locator(".prose")).to_contain_text("red")


def test_what_the_server_does_not_keep_is_named(
    open_page: Callable[..., Page],
    seeing_server: ServerProcess,
) -> None:
    """A file that is too large for it is not sent there, and missed after the reload; the others are there."""
    runtime = seeing_server.get("/api/runtime").json()
    runtime["limits"]["draft_bytes"] = 60 * 1024 + 2000
    page = open_page(seeing_server.url)
    page.route("**/api/runtime", lambda route: route.fulfill(json=runtime))
    page.reload()
    page.wait_for_selector(".status.ready")
    long = b"line\n" * 1000
    add(page, png("red"), {"name": "long.txt", "mimeType": "text/plain", "buffer": long}, SAVE)
    with page.expect_request_finished(is_save("files")):
        expect(attached(page)).to_have_count(3)
    reload(page)
    expect(attached(page).locator(".attachment-name")).to_have_text(["red.png", "save.py"])
    expect(page.locator(".remark")).to_contain_text("Too large to be kept while the page was reloaded: long.txt.")


def test_the_queue_survives_a_reload(chromium_page: Page) -> None:
    """While the answer goes on it waits for its end, as before; after it has ended it waits for the user."""
    bodies = record_requests(chromium_page)
    answer = queue_with_a_file(chromium_page)
    reload(chromium_page)
    expect(queued(chromium_page)).to_have_text("short one save.py")
    expect(status_words(chromium_page)).to_contain_text("Sent when this answer is done.")
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    wait_over(chromium_page.locator(".from-model").last)
    assert bodies[-1]["messages"][-1]["content"] == f"{SAVED}\n\nshort one"
    answer = begin_endless(chromium_page)
    say(chromium_page, "the last")
    expect(queued(chromium_page)).to_have_count(1)
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    reload(chromium_page)
    expect(status_words(chromium_page)).to_contain_text("Not sent, because the answer was stopped.")
    chromium_page.get_by_role("button", name="Send now").click()
    wait_over(chromium_page.locator(".from-model").nth(3))
    assert bodies[-1]["messages"][-1]["content"] == "the last"


def test_an_answer_that_ended_without_the_page_sends_nothing(chromium_page: Page, chat_server: ServerProcess) -> None:
    """Whoever comes back finds the queued message, unsent, and is told why."""
    answer = ask(chromium_page, "lines")
    expect(answer.locator(".prose")).to_contain_text("Line 2")
    say(chromium_page, "the last")
    expect(queued(chromium_page)).to_have_count(1)
    chromium_page.goto("about:blank")
    chat_server.wait_idle()
    chromium_page.goto(chat_server.url)
    expect(status_words(chromium_page)).to_contain_text("Not sent, because the page was left")
    bodies = record_requests(chromium_page)
    chromium_page.get_by_role("button", name="Send now").click()
    wait_over(chromium_page.locator(".from-model").nth(1))
    assert bodies[0]["messages"][-1]["content"] == "the last"


def test_a_restarted_server_gets_the_draft_again(
    open_page: Callable[..., Page], tmp_path: Path, watch: PageWatch
) -> None:
    """It has forgotten everything; the page that is still open tells it."""
    watch.expected += ["ERR_", "404"]
    server = RestartableServer(tmp_path, write_script(tmp_path))
    page = open_page(server.url)
    with page.expect_request_finished(is_save("text")):
        composer(page).fill("kept")
    server.kill()
    expect(page.get_by_test_id("status")).to_contain_text("Offline")
    with page.expect_request_finished(is_save("text")) as saved:
        server.start()
    body: dict[str, Any] = json.loads(saved.value.post_data or "{}")
    assert body["content"]["text"] == "kept"
    reload(page)
    expect(composer(page)).to_have_value("kept")
    page.close()
    server.now.stop()


def test_what_is_typed_while_the_draft_comes_back_is_kept(chromium_page: Page) -> None:
    """Behind what was there before."""
    with chromium_page.expect_request_finished(is_save("text")):
        composer(chromium_page).fill("before")
    held: list[Callable[[], None]] = []
    chromium_page.route("**/api/drafts/text/*", lambda route: held.append(route.continue_), times=1)
    with chromium_page.expect_request("**/api/drafts/text/*"):
        reload(chromium_page)
    composer(chromium_page).fill("after")
    held[0]()
    expect(composer(chromium_page)).to_have_value("before\n\nafter")


def test_a_page_that_writes_nothing_saves_nothing(chromium_page: Page) -> None:
    """No request for an empty draft, at the start or for a message that was sent at once."""
    saves: list[str] = []
    chromium_page.on("request", lambda request: saves.append(request.url) if is_save("")(request) else None)
    reload(chromium_page)
    chromium_page.wait_for_selector(".status.ready")
    wait_over(ask(chromium_page, "tour"))
    reload(chromium_page)
    expect(chromium_page.locator(".receipt")).to_be_visible()
    assert saves == []
