"""What a model thinks: open while it does, folded by its answer, the reader's own choice first, and never sent back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.scripts import ALWAYS_SENT, ask, record_requests, session_id, wait_over, wait_until
from tests.browser.test_layout import LOW_CONTRAST, STICKING_OUT, TOO_SMALL
from tests.browser.thinking_script import ANSWER, head_of, longest_answer, text_of
from tests.server_process import ServerProcess
from tests.worker.nano import turns

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

THOUGHT_FOR = re.compile(r"^Thought for (under 1|\d+) s · [\d,]+ tokens$")
# Each state of the newest answer's disclosure that was on the screen, in order.
RECORD_HEADS = """window.heads = [];
new MutationObserver(() => {
  const head = [...document.querySelectorAll(".thought-head")].at(-1);
  const state = head && `${head.ariaExpanded} ${head.textContent.split(" ")[0]}`;
  if (state && state !== heads.at(-1)) heads.push(state);
}).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});"""


def think_endlessly(page: Page) -> Locator:
    """An answer in mid-thought, with more of it than the window holds."""
    answer = ask(page, "endless")
    expect(answer.locator(".thought")).to_contain_text("Step 20 leads")
    return answer


def answer_now(answer: Locator) -> None:
    """Wait until the answer has begun."""
    # Not by a click, which would scroll the button into view, and who scrolls is reading.
    answer.get_by_role("button", name="Answer now").evaluate("button => button.click()")
    expect(text_of(answer)).to_contain_text("Step 1 leads")


def scroll_top(page: Page) -> float:
    """How far the conversation is scrolled."""
    return page.evaluate("document.querySelector('.transcript').scrollTop")


@pytest.mark.parametrize("name", ["hello", "sum"])
def test_a_real_model_thinks_and_answers(open_page: Callable[..., Page], nano_server: ServerProcess, name: str) -> None:
    """Thought and answer as memorised, folded at the end; a reload brings both back; the next request has the answer
    alone."""
    (known,) = turns(name)
    page = open_page(nano_server.url)
    page.wait_for_selector(".status.ready")
    bodies = record_requests(page)
    page.evaluate(RECORD_HEADS)
    answer = wait_over(ask(page, known["messages"][0]["content"]))
    # On a slow machine all of it may come at once.
    assert page.evaluate("heads") in (["true Thinking…", "false Thought"], ["false Thought"])
    for _ in ("at once", "after a reload"):
        expect(text_of(answer)).to_have_text(known["answer"]["message"]["content"])
        expect(answer.locator(".thought .prose")).to_have_count(0)
        expect(head_of(answer)).to_have_text(THOUGHT_FOR)
        head_of(answer).click()
        expect(answer.locator(".thought .prose")).to_have_text(known["answer"]["reasoning"][0])
        page.reload()
        expect(page.locator(".from-model")).to_have_count(1)
    wait_over(ask(page, "Thank you!"))
    assert set(bodies[-1]) == ALWAYS_SENT
    assert [set(message) for message in bodies[-1]["messages"]] == [{"role", "content"}] * 3
    assert bodies[-1]["messages"][1]["content"] == known["answer"]["message"]["content"]


def test_a_thought_is_open_while_it_is_thought(thinking_page: Page) -> None:
    """Its words as Markdown, a way to end it, and all of it again after a reload; the answer folds it."""
    answer = ask(thinking_page, "endless, please")
    head = head_of(answer)
    expect(head).to_have_attribute("aria-expanded", "true")
    body = thinking_page.locator(f"#{head.get_attribute('aria-controls')}")
    expect(body.locator("p").nth(5)).to_have_text("Step 6 leads to the next one.")
    expect(head).to_have_text("Thinking…")
    expect(answer.locator(".waiting")).to_contain_text("Thinking")
    thinking_page.reload()
    answer = thinking_page.locator(".from-model").last
    expect(head_of(answer)).to_have_text("Thinking…")
    expect(answer.locator(".thought p").first).to_have_text("Step 1 leads to the next one.")
    expect(answer.locator(".thought p").nth(9)).to_have_text("Step 10 leads to the next one.")
    answer_now(answer)
    expect(head_of(answer)).to_have_attribute("aria-expanded", "false")
    expect(head_of(answer)).to_have_text(THOUGHT_FOR)
    expect(thinking_page.get_by_role("button", name="Answer now")).to_have_count(0)
    expect(answer).to_have_attribute("data-phase", "writing")


@pytest.mark.parametrize("clicks", [1, 2], ids=["closed", "opened again"])
def test_what_the_reader_chose_stays(thinking_page: Page, clicks: int) -> None:
    """By keyboard: while more is thought, and when the answer begins."""
    answer = think_endlessly(thinking_page)
    head = head_of(answer)
    chosen = "false" if clicks == 1 else "true"
    for _ in range(clicks):
        head.press("Enter")
    expect(head).to_have_attribute("aria-expanded", chosen)
    expect(head).to_be_focused()
    answer_now(answer)
    expect(head).to_have_text(THOUGHT_FOR)
    expect(head).to_have_attribute("aria-expanded", chosen)


def test_a_thought_that_is_being_read_is_not_folded_away(thinking_page: Page) -> None:
    """The reader has scrolled back in it: nothing on the screen moves when the answer begins."""
    answer = think_endlessly(thinking_page)
    thinking_page.locator(".transcript").hover()
    thinking_page.mouse.wheel(0, -200)
    expect(thinking_page.get_by_role("button", name="Jump to newest")).to_be_visible()
    place = scroll_top(thinking_page)
    answer_now(answer)
    expect(head_of(answer)).to_have_text(THOUGHT_FOR)
    expect(head_of(answer)).to_have_attribute("aria-expanded", "true")
    assert scroll_top(thinking_page) == place


def test_a_selection_in_a_thought_survives_its_end(thinking_page: Page, thinking_server: ServerProcess) -> None:
    """What is marked, to be copied perhaps, stays marked and in sight."""
    answer = think_endlessly(thinking_page)
    answer.locator(".thought p").nth(15).select_text()
    # Not by the button: a click takes a selection away.
    running = thinking_server.get(f"/v1/sessions/{session_id(thinking_page)}").json()["running"]
    assert thinking_server.post(f"/api/replies/{running}/answer-now", {}).json() == {"answering": True}
    expect(text_of(answer)).to_contain_text("Step 1 leads")
    expect(head_of(answer)).to_have_text(THOUGHT_FOR)
    assert thinking_page.evaluate("getSelection().toString()").startswith("Step 16 leads")


def test_opening_a_thought_moves_nothing_above_it(thinking_page: Page) -> None:
    """At the end of the conversation, where new text is followed; and it can be closed from deep inside."""
    wait_over(ask(thinking_page, "long thought"))
    answer = wait_over(ask(thinking_page, "long thought once more"))
    head = head_of(answer)
    top = "head => Math.round(head.getBoundingClientRect().top)"
    place = head.evaluate(top)
    head.click()
    expect(answer.locator(".thought p")).to_have_count(60)
    assert head.evaluate(top) == place
    answer.locator(".thought p").nth(40).scroll_into_view_if_needed()
    held = head.evaluate(top)
    head.click()
    expect(answer.locator(".thought p")).to_have_count(0)
    expect(text_of(answer)).to_be_in_viewport()
    assert head.evaluate(top) >= held


def test_copy_and_edit_leave_the_thought_out(thinking_page: Page) -> None:
    """The copied text is the answer's; an edited answer has no thought, and undo brings it back."""
    thinking_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = wait_over(ask(thinking_page, "yes?"))
    head_of(answer).click()
    answer.get_by_role("button", name="Copy answer").click()
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert thinking_page.evaluate("navigator.clipboard.readText()") == ANSWER
    answer.get_by_role("button", name="Edit answer").click()
    expect(thinking_page.get_by_label("The answer")).to_have_value(ANSWER)
    thinking_page.get_by_label("The answer").fill("No.")
    thinking_page.get_by_role("button", name="Save", exact=True).click()
    expect(thinking_page.locator(".thought")).to_have_count(0)
    thinking_page.get_by_role("button", name="Undo").click()
    expect(head_of(thinking_page.locator(".from-model"))).to_have_attribute("aria-expanded", "true")


def test_a_thought_is_not_announced(thinking_page: Page) -> None:
    """One announcement an answer, with the answer's words; one that was cut in its thought says that."""
    thinking_page.evaluate(
        """() => {
          window.announced = [];
          const region = document.querySelector("[data-testid=announce-answer]");
          new MutationObserver(() => region.textContent && window.announced.push(region.textContent))
            .observe(region, {childList: true, characterData: true, subtree: true});
        }"""
    )
    wait_over(ask(thinking_page, "yes?"))
    longest_answer(thinking_page, "12")
    wait_over(ask(thinking_page, "yes?"))
    wait_until(thinking_page, "window.announced.length >= 2")
    first, second = thinking_page.evaluate("window.announced")
    assert first.startswith("Answer finished. Yes, because it is so")
    assert second == "Cut off while thinking; there is no answer yet."


def test_a_model_that_does_not_think_shows_none(thinking_page: Page) -> None:
    """No empty disclosure, no figures of thinking."""
    answer = wait_over(ask(thinking_page, "plain"))
    expect(text_of(answer)).to_have_text("No thought.")
    expect(answer.locator(".thought")).to_have_count(0)
    answer.locator(".receipt").click()
    expect(answer.locator(".receipt-details")).not_to_contain_text("Thinking")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_thinking_fits_a_phone(open_page: Callable[..., Page], thinking_server: ServerProcess, scheme: str) -> None:
    """In mid-thought, cut off and opened: nothing sticks out, targets fit a finger, all can be read."""
    page = open_page(
        thinking_server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, color_scheme=scheme
    )

    def check() -> None:
        assert [page.evaluate(rule) for rule in (STICKING_OUT, TOO_SMALL, LOW_CONTRAST)] == [[], [], []]

    def send(text: str) -> Locator:
        page.get_by_label("Message", exact=True).fill(text)
        page.get_by_role("button", name="Send").tap()
        return page.locator(".from-model").last

    answer = send("endless")
    # Late enough that the next tap is no second one of a double tap.
    expect(answer.locator(".thought")).to_contain_text("Step 20 leads")
    check()
    page.get_by_role("button", name="Stop").tap()
    wait_over(answer, "stopped")
    check()
    page.get_by_role("button", name="New chat").tap()
    longest_answer(page, "30")
    wait_over(send("yes?"))
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    check()
    page.get_by_role("button", name="New chat").tap()
    longest_answer(page, "")
    answer = wait_over(send("yes?"))
    head_of(answer).tap()
    answer.locator(".receipt").tap()
    expect(answer.locator(".receipt-details")).to_be_visible()
    check()
