"""What the page shows when the server is not simply ready: loading, failed, gone, back, and faults in answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.held_stream import holding
from tests.browser.scripts import CHAT_SCRIPT, ask, record_requests, wait_over
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def test_a_message_sent_while_the_model_loads_is_answered(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """The page works at once, shows the percentage, and the request waits for the model."""
    server = scripted_server({**CHAT_SCRIPT, "load_ms": 4000, "load_steps": 20}, ready=False)
    page = open_page(server.url)
    expect(page.get_by_test_id("status")).to_contain_text("%")
    expect(page.get_by_role("progressbar", name="Loading the model")).to_be_visible()
    answer = ask(page, "short, while you load")
    expect(answer.locator(".waiting")).to_contain_text("Waiting for the model to load")
    wait_over(answer)
    expect(answer.locator(".prose")).to_have_text("Short answer.")
    expect(page.get_by_test_id("status")).to_contain_text("Ready")


def test_a_model_that_cannot_load_gives_its_reason(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """One card with one sentence, the reason on request; nothing can be sent, and what is written stays."""
    server = scripted_server({"nonsense": True}, ready=False)
    server.wait_state("failed")
    page = open_page(server.url)
    expect(page.get_by_test_id("status")).to_contain_text("Model failed")
    card = page.locator(".banner")
    expect(card).to_contain_text("The model could not be loaded.")
    expect(card).not_to_contain_text("nonsense")
    expect(page.locator(".empty")).not_to_contain_text("You are talking to")
    card.get_by_role("button", name="Details").click()
    expect(card).to_contain_text("nonsense")
    bodies = record_requests(page)
    field = page.get_by_label("Message", exact=True)
    field.fill("anyone there?")
    send = page.get_by_role("button", name="Send")
    expect(send).to_be_disabled()
    expect(send).to_have_attribute("title", "Send: not while the model is not running")
    field.press("Enter")
    expect(field).to_have_value("anyone there?")
    assert bodies == []


def test_a_file_that_is_not_there_is_named_without_error_numbers(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """What and where in words, once."""
    server = ServerProcess(["--engine", "scripted", "--model", str(tmp_path / "gone.json")], home=tmp_path / "home")
    try:
        server.wait_state("failed")
        page = open_page(server.url)
        page.get_by_role("button", name="Details").click()
        expect(page.locator(".failure-details")).to_contain_text("gone.json: No such file or directory")
        assert "Errno" not in page.locator("body").inner_text()
        page.close()
    finally:
        assert server.stop() == 0


def test_another_try_after_the_cause_is_mended(
    open_page: Callable[..., Page],
    scripted_server: Callable[..., ServerProcess],
    tmp_path: Path,
    watch: PageWatch,
) -> None:
    """Try again starts the model anew; the answer that waited for it can then be had, and no card is left."""
    server = scripted_server({"load_ms": 2000, "faults": [{"at": "load", "do": "error_fatal"}]}, ready=False)
    watch.expected.append("503")
    page = open_page(server.url)
    answer = wait_over(ask(page, "short"), "failed")
    expect(answer.get_by_role("group", name="Error")).to_contain_text("The model was not running")
    expect(answer.get_by_role("button", name="Retry")).to_be_disabled()
    expect(answer.get_by_role("button", name="What the model saw")).to_have_count(0)
    expect(page.locator(".banner")).to_have_count(1)
    (script,) = tmp_path.glob("script-*.json")
    script.write_text(json.dumps(CHAT_SCRIPT))
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_test_id("status")).to_contain_text("Ready")
    expect(page.locator(".banner")).to_have_count(0)
    answer.get_by_role("button", name="Retry").click()
    expect(page.locator(".from-model .prose")).to_have_text("Short answer.")


def fulfil_once(page: Page, **answer: Any) -> None:
    """The next completion gets this answer in place of the server's."""
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**answer), times=1)


def chunk(text: str) -> str:
    """One content chunk on the wire."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'id': 'chatcmpl-x', 'choices': [choice]})}\n\n"


STREAM = {"status": 200, "content_type": "text/event-stream"}
DIED = {"error": {"message": "The model died.", "type": "server_error", "code": "worker_died", "param": None}}
FULL = {"error": {"message": "Too many wait.", "type": "capacity_error", "code": "queue_full", "param": None}}
FAULTS = {
    "plain status": ({"status": 429, "json": FULL, "headers": {"retry-after": "3"}}, "Try again in about 3 s."),
    "error in the stream": (
        {**STREAM, "body": chunk("Half an ") + f"data: {json.dumps(DIED)}\n\ndata: [DONE]\n\n"},
        "The model died.",
    ),
    "not our JSON": ({**STREAM, "body": "data: <html>\n\n"}, "cannot read"),
    "no JSON at all": ({"status": 502, "body": "<h1>Bad gateway</h1>"}, "status 502"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_shows_where_it_happened_and_can_be_retried(chromium_page: Page, watch: PageWatch, name: str) -> None:
    """The words of the error under the answer, what was written before it kept, and Retry gives the answer."""
    response, words = FAULTS[name]
    watch.expected.append("Failed to load resource")
    fulfil_once(chromium_page, **response)
    answer = wait_over(ask(chromium_page, "short"), "failed")
    expect(answer.get_by_role("group", name="Error")).to_contain_text(words)
    if "Half an" in str(response.get("body")):
        expect(answer.locator(".prose")).to_contain_text("Half an")
    answer.get_by_role("button", name="Retry").click()
    answer = wait_over(chromium_page.locator(".from-model").last)
    expect(answer.locator(".prose")).to_have_text("Short answer.")
    expect(chromium_page.locator(".turn")).to_have_count(2)


def test_a_refused_connection_is_said_in_words(chromium_page: Page, watch: PageWatch) -> None:
    """Nothing listens: not a raw network error, but what to look at."""
    watch.expected.append("ERR_CONNECTION_REFUSED")
    chromium_page.route("**/v1/chat/completions", lambda route: route.abort("connectionrefused"))
    answer = wait_over(ask(chromium_page, "short"), "failed")
    expect(answer.get_by_role("group", name="Error")).to_contain_text("The server could not be reached")


def test_a_cut_answer_says_so(chromium_page: Page) -> None:
    """finish_reason length: the reader is told that this is not the end the model chose, and which limit it was."""
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.get_by_label("Longest answer", exact=True).fill("3")
    answer = wait_over(ask(chromium_page, "long please"))
    expect(answer.locator(".note")).to_contain_text("Cut off: the longest answer in the settings is 3 tokens.")
    chromium_page.reload()
    expect(answer.locator(".note")).to_contain_text("Cut off: the longest answer in the settings is 3 tokens.")


def test_a_full_context_says_so(open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]) -> None:
    """What ended the answer is no setting: there is no room to continue, and so no such button."""
    page = open_page(scripted_server({**CHAT_SCRIPT, "context_length": 128}).url)
    answer = wait_over(ask(page, "long please"))
    expect(answer.locator(".note")).to_contain_text("Cut off: the context of 128 tokens is full.")
    expect(answer.get_by_role("button", name="Continue")).to_have_count(0)


def test_a_prompt_that_does_not_fit_is_explained(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess], watch: PageWatch
) -> None:
    """The server's own words with the counts; to ask the same again is of no use, so its message is opened."""
    server = scripted_server({**CHAT_SCRIPT, "context_length": 256})
    watch.expected.append("400")
    page = open_page(server.url)
    answer = wait_over(ask(page, "short " * 100), "failed")
    expect(answer.get_by_role("group", name="Error")).to_contain_text("256")
    expect(answer.get_by_role("button", name="Retry")).to_have_count(0)
    answer.get_by_role("button", name="Edit message").click()
    page.get_by_label("Your message").fill("short")
    page.get_by_role("button", name="Save & send").click()
    wait_over(page.locator(".from-model").last)
    expect(page.locator(".from-model .prose")).to_have_text("Short answer.")


@pytest.mark.parametrize("told", [0, 1])
def test_a_connection_that_fell_silent_is_given_up(
    chromium_page: Page, chat_server: ServerProcess, watch: PageWatch, told: int
) -> None:
    """Not even signs of life for a long while, here made short: nobody is there. The page says so, and tries again."""
    page = chromium_page
    watch.expected.append("ERR_CONNECTION_REFUSED")
    page.add_init_script("""
        const wait = window.setTimeout;
        window.setTimeout = (done, ms, ...more) => wait(done, ms > 30_000 ? 1_000 : ms, ...more);
    """)
    state = chat_server.wait_ready()
    with holding() as feed:
        feed.replace(page, "**/api/events")
        page.reload()
        for _ in range(told):
            feed.event("state", state)
        expect(page.get_by_test_id("status")).to_contain_text("Offline")
        page.unroute("**/api/events")
        expect(page.get_by_test_id("status")).to_contain_text("Ready")


def test_a_hidden_page_lets_go_of_its_connection(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """Browsers open six connections to a server: tabs that nobody sees must not use them up."""
    page = open_page(scripted_server(CHAT_SCRIPT).url)
    expect(page.get_by_test_id("status")).to_contain_text("Ready")
    show = """state => {
        Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/events")):
        page.evaluate(show, "hidden")
    expect(page.get_by_test_id("status")).to_contain_text("Ready")
    with page.expect_request("**/api/events"):
        page.evaluate(show, "visible")
    wait_over(ask(page, "short"))
