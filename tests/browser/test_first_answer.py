"""The main path of the page: a message goes out, the answer grows on the screen, its figures follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from muse.settings import BUILT_IN_MODEL
from tests.browser.scripts import ALWAYS_SENT, ask, record_requests, wait_over, wait_until
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


@pytest.mark.model
def test_the_built_in_model_answers_on_the_page(open_page: Callable[..., Page], muse_server: ServerProcess) -> None:
    """With the real engine: text arrives, and speed and time to the first token stand under it."""
    page = open_page(muse_server.url)
    page.wait_for_selector(".status.ready")
    answer = wait_over(ask(page, "Name three colours."))
    assert len(answer.locator(".prose").inner_text()) > 3
    receipt = answer.locator(".receipt").inner_text()
    assert "tokens/s" in receipt
    assert "first token after" in receipt


@pytest.mark.model
def test_the_settings_tell_what_runs(open_page: Callable[..., Page], muse_server: ServerProcess) -> None:
    """Each fact of the model that the server gives, in words; none that it does not have."""
    page = open_page(muse_server.url)
    page.wait_for_selector(".status.ready")
    page.get_by_role("button", name="Settings", exact=True).click()
    facts = page.get_by_role("region", name="The model")
    model = muse_server.get("/api/runtime").json()["model"]
    for term, words in (
        ("Engine", f"{model['engine']} {model['engine_version']}"),
        ("Files", f"{BUILT_IN_MODEL} (98 MB)"),
        ("Runs on", f"{model['backend']}, {model['device']}"),
        ("Loaded in", "s"),
        ("Context", "tokens"),
    ):
        expect(facts.locator("div", has=page.get_by_text(term, exact=True)).locator("dd")).to_contain_text(words)
    expect(facts.get_by_text("Draft", exact=True)).to_have_count(0)


def test_text_shows_while_the_answer_is_still_written(chromium_page: Page) -> None:
    """The words so far are on the screen before the end, and the status says that it generates."""
    answer = ask(chromium_page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 3 has")
    assert answer.get_attribute("data-phase") == "writing"
    expect(chromium_page.get_by_test_id("status")).to_contain_text("Generating")
    wait_over(answer)
    expect(answer.locator(".prose p")).to_have_count(60)
    expect(chromium_page.get_by_test_id("status")).to_contain_text("Ready")


def test_requests_carry_role_and_content_only(chromium_page: Page) -> None:
    """Two turns: the second sends the first answer back exactly, under the same session id, detached."""
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short one"))
    wait_over(ask(chromium_page, "and again"))
    assert bodies[1]["messages"] == [
        {"role": "user", "content": "short one"},
        {"role": "assistant", "content": "Short answer."},
        {"role": "user", "content": "and again"},
    ]
    assert set(bodies[1]) == ALWAYS_SENT
    assert bodies[1]["muse"] == {"detached": True}
    assert bodies[1]["chat_template_kwargs"] == {"return_reasoning": True}
    assert bodies[0]["session_id"] == bodies[1]["session_id"]


def test_the_receipt_opens_into_details(chromium_page: Page) -> None:
    """Reused and new prompt tokens and the whole time are one click away."""
    wait_over(ask(chromium_page, "short one"))
    answer = wait_over(ask(chromium_page, "short two"))
    answer.locator(".receipt").click()
    details = answer.locator(".receipt-details").inner_text()
    assert "reused" in details
    assert "new" in details
    assert "Total" in details


def test_new_chat_takes_a_new_session_and_can_be_undone(chromium_page: Page) -> None:
    """The screen empties, the session id changes, and the chat just left can be brought back."""
    bodies = record_requests(chromium_page)
    wait_over(ask(chromium_page, "short one"))
    chromium_page.get_by_role("button", name="New chat").click()
    expect(chromium_page.locator(".turn")).to_have_count(0)
    chromium_page.get_by_role("button", name="Reopen the previous chat").click()
    expect(chromium_page.locator(".turn")).to_have_count(2)
    chromium_page.get_by_role("button", name="New chat").click()
    wait_over(ask(chromium_page, "short two"))
    assert bodies[0]["session_id"] != bodies[1]["session_id"]
    assert [message["content"] for message in bodies[1]["messages"]] == ["short two"]


def test_a_finished_answer_is_announced_once(chromium_page: Page) -> None:
    """The live region changes to one announcement per answer, not with each token."""
    chromium_page.evaluate(
        """() => {
          window.announced = [];
          const region = document.querySelector("[data-testid=announce-answer]");
          new MutationObserver(() => region.textContent && window.announced.push(region.textContent))
            .observe(region, {childList: true, characterData: true, subtree: true});
        }"""
    )
    wait_over(ask(chromium_page, "tour"))
    wait_over(ask(chromium_page, "short one"))
    wait_until(chromium_page, "window.announced.length >= 2")
    first, second = chromium_page.evaluate("window.announced")
    assert first.startswith("Answer finished. A bold start")
    assert second == "Answer finished. Short answer."
