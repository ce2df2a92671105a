"""What the user can do: stop, ask again, edit, copy, settings, theme."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.held_stream import holding
from tests.browser.scripts import ALWAYS_SENT, ask, record_requests, wait_over
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


def wait_running(server: ServerProcess, count: int) -> None:
    """Wait until the server works on so many requests."""
    server.wait_state("busy" if count else "ready")


def test_stop_keeps_the_text_and_frees_the_model(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The answer is marked as stopped, its figures arrive, and the engine is idle."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and on")
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    expect(answer.locator(".note p")).to_have_text("Stopped here.")
    expect(answer.locator(".prose")).to_contain_text("on and on")
    expect(answer.locator(".receipt")).to_be_visible()
    wait_running(chat_server, 0)


def test_stop_does_not_wait_for_a_stream_that_hangs(chromium_page: Page) -> None:
    """The text that is there stays, and the next message can be sent."""
    page = chromium_page
    with holding("Muse-Reply-Id: chatcmpl-held\r\n") as answering:
        answering.replace(page, "**/v1/chat/completions")
        answer = ask(page, "anything")
        answering.event("message", {"id": "chatcmpl-held", "choices": [{"index": 0, "delta": {"content": "Half a"}}]})
        expect(answer.locator(".prose")).to_have_text("Half a")
        page.get_by_role("button", name="Stop", exact=True).click()
        wait_over(answer, "stopped")
    page.unroute("**/v1/chat/completions")
    expect(answer.locator(".prose")).to_have_text("Half a")
    wait_over(ask(page, "short"))


def test_escape_stops_too(chromium_page: Page) -> None:
    """From the composer, without the mouse; the next message can be typed meanwhile and is kept."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    field = chromium_page.get_by_label("Message", exact=True)
    field.fill("the next one")
    field.press("Escape")
    wait_over(answer, "stopped")
    expect(field).to_have_value("the next one")


def test_copy_answer_gives_the_source_text(chromium_page: Page) -> None:
    """Markdown as the model wrote it, not what the page made of it."""
    chromium_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = wait_over(ask(chromium_page, "tour"))
    answer.get_by_role("button", name="Copy answer").click()
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert chromium_page.evaluate("navigator.clipboard.readText()").startswith("A **bold** start")


def test_shift_enter_and_composition_do_not_send(chromium_page: Page) -> None:
    """Shift+Enter breaks the line; an Enter that confirms an input method's word is not ours."""
    bodies = record_requests(chromium_page)
    field = chromium_page.get_by_label("Message", exact=True)
    field.fill("one")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    field.evaluate(
        """field => field.dispatchEvent(new KeyboardEvent("keydown",
             {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))"""
    )
    expect(field).to_have_value("one\ntwo")
    assert bodies == []


def open_settings(page: Page) -> None:
    """Open the sheet."""
    page.get_by_role("button", name="Settings", exact=True).click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()


def test_settings_go_with_the_request(chromium_page: Page) -> None:
    """Each changed field is sent under its name; after a reset none is."""
    bodies = record_requests(chromium_page)
    open_settings(chromium_page)
    chromium_page.get_by_label("System message").fill("Be kind.")
    for label, value in {
        "Temperature": "0.7",
        "Top-p": "0.9",
        "Top-k": "40",
        "Min-p": "0.05",
        "Repeat penalty": "1.1",
        "Presence penalty": "0.5",
        "Frequency penalty": "-0.2",
        "Longest answer": "64",
        "Seed": "7",
    }.items():
        chromium_page.get_by_label(label, exact=True).fill(value)
    chromium_page.get_by_role("button", name="Add a stop string").click()
    chromium_page.get_by_label("Stop string 1", exact=True).fill("\\nEND")
    wait_over(ask(chromium_page, "short"))
    chromium_page.get_by_role("button", name="Reset to the model’s defaults").click()
    wait_over(ask(chromium_page, "short"))
    first, second = bodies
    assert first["messages"][0] == {"role": "system", "content": "Be kind."}
    sent = {key: value for key, value in first.items() if key not in ALWAYS_SENT}
    assert sent == {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.2,
        "max_tokens": 64,
        "seed": 7,
        "stop": ["\nEND"],
    }
    assert set(second) == ALWAYS_SENT


def test_the_sheet_over_the_page_closes_by_escape_and_beside_it(
    open_page: Callable[..., Page], chat_server: ServerProcess
) -> None:
    """On a narrow screen it is modal; closing gives the focus back to the button that opened it."""
    page = open_page(chat_server.url, viewport={"width": 768, "height": 1024})
    for leave in (lambda: page.keyboard.press("Escape"), lambda: page.mouse.click(40, 500)):
        open_settings(page)
        leave()
        expect(page.get_by_role("heading", name="Settings")).to_have_count(0)
        expect(page.get_by_role("button", name="Settings", exact=True)).to_be_focused()


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Temperature", "2.5"),
        ("Top-p", "0"),
        ("Top-k", "1.5"),
        ("Seed", "-1"),
        ("Min-p", "1e9"),
        ("Repeat penalty", "0"),
        ("Presence penalty", "-2.5"),
    ],
)
def test_a_value_out_of_range_is_explained_and_not_taken(chromium_page: Page, label: str, value: str) -> None:
    """The field says what it takes, and goes back to what holds when it is left."""
    bodies = record_requests(chromium_page)
    open_settings(chromium_page)
    field = chromium_page.get_by_label(label, exact=True)
    field.fill(value)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(chromium_page.locator(".setting-help.fault")).to_contain_text("from")
    field.blur()
    expect(field).to_have_value("")
    wait_over(ask(chromium_page, "short"))
    assert set(bodies[0]) == ALWAYS_SENT


def test_sampling_outlives_a_reload_and_chat_text_does_not(chromium_page: Page) -> None:
    """Numbers are kept by the browser; messages and the system message are nowhere in its storage: they come
    back from the memory of the server."""
    open_settings(chromium_page)
    chromium_page.get_by_label("Temperature", exact=True).fill("0.3")
    chromium_page.get_by_label("System message").fill("secret instruction")
    wait_over(ask(chromium_page, "short and secret question"))
    stored = chromium_page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert "secret" not in stored
    chromium_page.reload()
    open_settings(chromium_page)
    expect(chromium_page.get_by_label("Temperature", exact=True)).to_have_value("0.3")
    expect(chromium_page.get_by_label("System message")).to_have_value("secret instruction")
    expect(chromium_page.locator(".bubble")).to_have_text("short and secret question")


def test_theme_is_applied_kept_and_there_before_the_first_paint(
    open_page: Callable[..., Page], chat_server: ServerProcess
) -> None:
    """Dark over a light system; after a reload the attribute is set before the body exists."""
    page = open_page(chat_server.url, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    open_settings(page)
    page.get_by_label("Dark", exact=True).check()
    dark = page.evaluate(ground)
    assert dark != light
    page.add_init_script(
        """new MutationObserver(() => {
             if (document.body) window.themeAtBody ??= document.documentElement.dataset.theme;
           }).observe(document, {childList: true, subtree: true});"""
    )
    page.reload()
    page.wait_for_selector(".composer")
    assert page.evaluate("window.themeAtBody") == "dark"
    assert page.evaluate(ground) == dark
    open_settings(page)
    page.get_by_label("System", exact=True).check()
    assert page.evaluate(ground) == light
