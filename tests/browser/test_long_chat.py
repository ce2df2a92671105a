"""A chat of hundreds of messages: its end is there at once, and the rest behaves as if it had been there, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from muse.bench.browser import FLAGS, chromium_path
from tests.browser.conftest import serving
from tests.browser.scripts import ask, wait_over, wait_until
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

TURNS = 150
SESSION = "page-long-chat"
HOLD = f"""
if (sessionStorage.getItem("muse.session") === null) {{
  sessionStorage.setItem("muse.session", "{SESSION}");
  sessionStorage.setItem("muse.session-started", "yes");
}}
"""


def chat() -> list[dict[str, Any]]:
    """Questions and answers; each answer has a number in bold, a formula and code."""
    messages: list[dict[str, Any]] = []
    for number in range(TURNS):
        messages.append({"role": "user", "content": f"Question {number}"})
        answer = f"Answer **{number}** with $x^2$.\n\n{'Some words. ' * 40}\n\n```js\nlet a = {number};\n```\n"
        messages.append({"role": "assistant", "content": answer})
    return messages


@pytest.fixture(scope="module")
def roomy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose model has room for such a chat."""
    script = {"model_id": "scripted-model", "context_length": 131072, "answers": [{"tokens": ["Short", " answer."]}]}
    with serving(script, tmp_path_factory.mktemp("roomy")) as server:
        yield server


def hold_chat(server: ServerProcess) -> None:
    """Have the server know this chat."""
    assert httpx.put(f"{server.url}/v1/sessions/{SESSION}", json={"messages": chat()}).status_code == 200


@pytest.fixture
def long_page(open_page: Callable[..., Page], roomy_server: ServerProcess) -> Page:
    """The page of a server that holds this chat."""
    hold_chat(roomy_server)
    page = open_page(roomy_server.url)
    page.add_init_script(HOLD)
    page.evaluate(HOLD.replace("=== null", "!== ''"))
    page.reload()
    expect(page.locator(".from-model")).to_have_count(TURNS)
    return page


def distance_to_end(page: Page) -> float:
    """Pixels between what is shown and the end of the conversation."""
    return float(page.locator(".transcript").evaluate("area => area.scrollHeight - area.clientHeight - area.scrollTop"))


def wait_all_rendered(page: Page) -> None:
    """Until every answer is more than plain text."""
    wait_until(page, f"document.querySelectorAll('.from-model strong').length === {TURNS}")


def test_it_opens_at_its_end_and_stays_there(long_page: Page) -> None:
    """Also while the older messages are still being worked on, and when another message is sent."""
    expect(long_page.locator(".from-model strong").last).to_be_in_viewport()
    assert distance_to_end(long_page) <= 1
    wait_all_rendered(long_page)
    assert distance_to_end(long_page) <= 1
    wait_over(ask(long_page, "short"))
    assert distance_to_end(long_page) <= 1
    expect(long_page.locator(".jump")).to_have_count(0)


def test_what_is_being_read_does_not_move(long_page: Page) -> None:
    """Whatever is rendered above and below it."""
    place = long_page.locator(".from-user", has_text="Question 70")
    place.scroll_into_view_if_needed()
    expect(place).to_be_in_viewport()
    wait_all_rendered(long_page)
    expect(place).to_be_in_viewport()
    expect(long_page.locator(".jump")).to_be_visible()
    long_page.locator(".jump").click()
    wait_until(long_page, "document.querySelector('.jump') === null")
    expect(long_page.locator(".from-model strong").last).to_be_in_viewport()


def test_old_turns_can_be_found_and_reached(long_page: Page) -> None:
    """By a search in the page and by keyboard focus, without scrolling there first."""
    wait_all_rendered(long_page)
    assert long_page.evaluate("window.find('Question 40', false, false, true)") is True
    button = long_page.locator(".from-user").nth(5).get_by_role("button", name="Copy message")
    button.focus()
    expect(button).to_be_in_viewport()


def test_a_screen_reader_finds_all_of_it(chromium: Browser, roomy_server: ServerProcess) -> None:
    """The accessibility tree, as the browser keeps it for such a program, has what is not laid out."""
    browser = chromium.browser_type.launch(
        executable_path=chromium_path(), args=[*FLAGS, "--force-renderer-accessibility"]
    )
    try:
        page = browser.new_page()
        hold_chat(roomy_server)
        page.add_init_script(HOLD)
        page.goto(roomy_server.url)
        expect(page.locator(".from-model")).to_have_count(TURNS)
        nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    finally:
        browser.close()
    names = {node.get("name", {}).get("value") for node in nodes}
    assert {"Question 3", "Question 70", "Question 140"} <= names


def test_what_comes_near_is_complete(long_page: Page) -> None:
    """Formulas and colours, at the very top of the chat."""
    long_page.locator(".transcript").evaluate("area => area.scrollTo(0, 0)")
    first = long_page.locator(".from-model").first
    expect(first).to_be_in_viewport()
    expect(first.locator("math msup")).to_have_count(1)
    expect(first.locator(".hl-keyword")).to_have_text("let")


def test_a_reader_at_the_very_top_is_not_pushed_down(
    open_page: Callable[..., Page], roomy_server: ServerProcess
) -> None:
    """What still comes in above goes above what is read there."""
    hold_chat(roomy_server)
    page = open_page(roomy_server.url)
    page.add_init_script(HOLD)
    page.add_init_script("window.idle = []; window.requestIdleCallback = (work) => idle.push(work)")
    page.evaluate(HOLD.replace("=== null", "!== ''"))
    page.reload()
    expect(page.locator(".turn").first).to_be_attached()
    transcript = page.locator(".transcript")
    transcript.evaluate("area => area.scrollTo(0, 0)")
    first = page.locator(".from-user").first
    words = first.locator(".bubble").text_content()
    assert words != "Question 0"
    expect(page.locator(".jump")).to_be_visible()
    before = page.locator(".turn").count()
    page.evaluate("for (const work of idle.splice(0)) work()")
    wait_until(page, f"document.querySelectorAll('.turn').length > {before}")
    place = page.locator(".from-user", has_text=words)
    expect(place).to_be_in_viewport()
