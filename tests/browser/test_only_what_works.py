"""Offline, without a model, or beside the work of others: the page offers what can work, and says what is its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import composer
from tests.browser.held_stream import holding
from tests.browser.scripts import ask, record_requests, session_id, wait_over
from tests.browser.test_composer import queued, say, status_words
from tests.browser.test_sessions import BREAKABLE
from tests.browser.thinking_script import longest_answer
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser

OFFLINE = "while the server cannot be reached"
DOWN = "while the model is not running"


@contextmanager
def told(page: Page, server: ServerProcess) -> Iterator[Callable[..., None]]:
    """The page believes what the test tells it of the model."""
    state = server.wait_ready()
    with holding() as feed:
        feed.replace(page, "**/api/events")
        page.reload()

        def tell(words: str, **worker: Any) -> None:
            feed.event("state", {**state, "worker": {**state["worker"], **worker}})
            expect(page.get_by_test_id("status")).to_contain_text(words)

        tell("Ready", state="ready")
        yield tell


def assert_dead(button: Locator, reason: str) -> None:
    """The button is there, cannot be used, and says why; a click does nothing."""
    expect(button).to_be_disabled()
    assert reason in (button.get_attribute("title") or "")
    button.click(force=True)


def asking_buttons(page: Page) -> list[Locator]:
    """All that ask something of the model, in a chat with an answer that was cut in its thought."""
    names = ("Continue", "Answer now", "Regenerate")
    return [page.get_by_role("button", name=name, exact=True).last for name in (*names, "Save & send")]


@pytest.mark.parametrize(
    ("words", "worker"),
    [
        ("Model failed", {"state": "failed", "reason": "Its file is broken."}),
        ("Model stopped", {"state": "stopped"}),
        ("Finishing", {"state": "draining"}),
    ],
    ids=["failed", "stopped", "draining"],
)
def test_without_a_model_nothing_is_asked(
    thinking_page: Page, thinking_server: ServerProcess, watch: PageWatch, words: str, worker: dict[str, Any]
) -> None:
    """Each button says why; what needs no model works; when it is back, so are they, and no card is left."""
    page = thinking_page
    watch.expected.append("ERR_CONNECTION_REFUSED")
    longest_answer(page, "14")
    wait_over(ask(page, "yes?"))
    longest_answer(page, "")
    bodies = record_requests(page)
    with told(page, thinking_server) as tell:
        page.get_by_role("button", name="Edit message").click()
        page.get_by_label("Your message").fill("other words")
        tell(words, **worker)
        reason = "while the server shuts down" if worker["state"] == "draining" else DOWN
        for button in asking_buttons(page):
            assert_dead(button, reason)
        composer(page).fill("more")
        assert_dead(page.get_by_role("button", name="Send", exact=True), reason)
        expect(page.get_by_label("Your message")).to_have_value("other words")
        page.get_by_role("button", name="Delete from here").last.click()
        page.get_by_role("button", name="Undo").click()
        tell("Ready", state="ready", reason=None)
        expect(page.locator(".banner")).to_have_count(0)
        for button in asking_buttons(page):
            expect(button).to_be_enabled()
        assert bodies == []


def test_offline_nothing_is_asked(thinking_page: Page, watch: PageWatch) -> None:
    """Neither of a thought that runs nor of a new one; a queued message waits, and says so."""
    page = thinking_page
    watch.expected.append("ERR_")
    page.add_init_script(BREAKABLE)
    page.reload()
    answer = ask(page, "endless")
    expect(answer.locator(".thought")).to_contain_text("Step 2 leads")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "answer-now" in request.url else None)
    page.context.set_offline(True)
    page.evaluate("breakConnections()")
    expect(page.get_by_test_id("status")).to_contain_text("Offline")
    assert_dead(answer.get_by_role("button", name="Answer now"), OFFLINE)
    assert asked == []
    say(page, "plain, queued")
    expect(queued(page)).to_have_count(1)
    page.context.set_offline(False)
    expect(page.get_by_test_id("status")).to_contain_text("Generating")
    answer.get_by_role("button", name="Answer now").click()
    expect(answer.locator(":scope > .prose")).to_contain_text("Step 1 leads")
    page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    expect(status_words(page)).to_contain_text("Not sent, because the answer was stopped.")
    page.context.set_offline(True)
    page.evaluate("breakConnections()")
    expect(page.get_by_role("button", name="Send now")).to_have_count(0)
    for name in ("Continue", "Regenerate", "What the model saw"):
        assert_dead(answer.get_by_role("button", name=name), OFFLINE)
    page.context.set_offline(False)
    page.get_by_role("button", name="Send now").click()
    wait_over(page.locator(".from-model").last)


def test_the_work_of_others_is_not_called_generating(chromium_page: Page, chat_server: ServerProcess) -> None:
    """An empty chat beside it says that the model is busy; its own answer says generating; its own queue, queued."""
    page = chromium_page
    status = page.get_by_test_id("status")
    with chat_server.stream_chat("endless") as other:
        lines = other.iter_lines()  # closes the stream when it is dropped
        assert next(lines)
        expect(status).to_contain_text("Busy with another request")
        answer = ask(page, "endless too")
        expect(answer.locator(".prose")).to_contain_text("on and")
        expect(status).to_contain_text("Generating")
        page.get_by_role("button", name="Stop").click()
        wait_over(answer, "stopped")
        expect(status).to_contain_text("Busy with another request")
        with chat_server.stream_chat("endless", session_id=session_id(page)) as own:
            more = own.iter_lines()
            assert next(more)
            ask(page, "short, in line")
            expect(status).to_contain_text("Queued")
    chat_server.wait_idle()
    expect(status).to_contain_text("Ready")


def test_ones_own_answer_is_never_called_that_of_others(chromium_page: Page) -> None:
    """Also not for a moment at its end, when the server's news of it may be later than the answer."""
    page = chromium_page
    page.evaluate(
        """() => {
          window.seen = [];
          const line = document.querySelector("[data-testid=status]");
          const note = () => window.seen.push(line.innerText);
          new MutationObserver(note).observe(line, {childList: true, characterData: true, subtree: true});
        }"""
    )
    for _ in range(5):
        wait_over(ask(page, "short one"))
    expect(page.get_by_test_id("status")).to_contain_text("Ready")
    seen = page.evaluate("window.seen.join(' | ')")
    assert "Generating" in seen
    assert "Busy" not in seen


def test_a_tab_duplicated_during_an_answer_says_where_it_is_written(chromium_page: Page, watch: PageWatch) -> None:
    """Not that there is no answer: it can be asked for here, too."""
    watch.expected.append("a popup")
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    with chromium_page.expect_popup() as copied:
        chromium_page.evaluate("void open(location.href)")
    copy = copied.value.locator(".from-model")
    expect(copy).to_contain_text("being written in the tab that this one is a copy of")
    expect(copy).not_to_contain_text("no answer yet")
    expect(copy.get_by_role("button", name="Send again")).to_be_visible()
    expect(answer).to_have_attribute("data-phase", "writing")
    copied.value.close()


def test_the_details_and_the_prompt_count_alike(thinking_page: Page) -> None:
    """What has the same name has the same number, and the parts of the details are those of the prompt."""
    page = thinking_page
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System message", exact=True).fill("Be kind.")
    page.keyboard.press("Escape")
    wait_over(ask(page, "yes?"))
    answer = wait_over(ask(page, "and why?"))
    answer.locator(".receipt").click()
    details = numbers(answer.locator(".context-legend"))
    prompt_row = answer.locator(".receipt-details dl > div").first.inner_text()
    answer.get_by_role("button", name="What the model saw").click()
    seen = numbers(page.locator(".seen-legend"))
    total = page.locator(".seen-sum").inner_text()
    assert details["Template"] == seen["Template"] > 0
    assert details["System"] == seen["System"] > 0
    assert details["Earlier turns"] + details["This question"] == seen["User"] + seen["Exact tokens of an answer"]
    assert f"{sum(seen[name] for name in seen if not name.startswith('Shaded'))} tokens" in prompt_row
    assert prompt_row.split("\n")[-1].split(":")[0] in total


def numbers(legend: Locator) -> dict[str, int]:
    """Names and numbers of a legend."""
    texts = [entry.strip() for entry in legend.locator("li").all_inner_texts()]
    entries = [re.fullmatch(r"(.*?)\s*([\d,]+)", text, re.DOTALL) for text in texts]
    return {entry[1].strip(): int(entry[2].replace(",", "")) for entry in entries if entry is not None}
