"""What is typed into a setting is what is kept: no key lost, nothing rewritten under the caret."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripts import ALWAYS_SENT, CHAT_SCRIPT, ask, record_requests, wait_over
from tests.browser.thinking_script import text_of
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

# All in one task, before the page has painted the sheet: as quick as a script, or a slow machine, can be.
QUICK_HANDS = """async () => {
  document.querySelector("[aria-controls=settings]").click();
  await new Promise((done) => queueMicrotask(() => queueMicrotask(done)));
  document.querySelector("#setting-max_tokens").focus();
  for (let frame = 0; frame < 5; frame += 1) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
  return document.activeElement.id;
}"""


def test_the_sheet_does_not_take_the_focus_back(chromium_page: Page) -> None:
    """Its title has the focus as soon as it is open, not only after the next paint: keys that were meant for a field
    would go to the title."""
    assert chromium_page.evaluate(QUICK_HANDS) == "setting-max_tokens"
    chromium_page.keyboard.type("64")
    expect(chromium_page.get_by_label("Longest answer", exact=True)).to_have_value("64")


@pytest.mark.parametrize(
    ("label", "key", "typed"),
    [
        ("Min-p", "min_p", "0.05"),
        ("Top-p", "top_p", "0.505"),
        ("Frequency penalty", "frequency_penalty", "-0.05"),
    ],
)
def test_a_number_is_typed_as_it_is_written(chromium_page: Page, label: str, key: str, typed: str) -> None:
    """Each key stays where it was put, also where the number so far is written shorter (0. and 0.50)."""
    bodies = record_requests(chromium_page)
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    field = chromium_page.get_by_label(label, exact=True)
    field.press_sequentially(typed)
    expect(field).to_have_value(typed)
    wait_over(ask(chromium_page, "short"))
    assert {name: value for name, value in bodies[0].items() if name not in ALWAYS_SENT} == {key: float(typed)}


def test_a_field_is_emptied_in_one_step(chromium_page: Page) -> None:
    """Emptied right after the sheet opens, as scripts do it; Max says that it holds, and does the same."""
    bodies = record_requests(chromium_page)
    field = chromium_page.get_by_label("Longest answer", exact=True)
    most = chromium_page.get_by_role("button", name="Max for Longest answer")
    for _ in range(3):
        chromium_page.get_by_role("button", name="Settings", exact=True).click()
        field.fill("64")
        expect(most).to_have_attribute("aria-pressed", "false")
        chromium_page.get_by_role("button", name="Close settings").click()
        chromium_page.get_by_role("button", name="Settings", exact=True).click()
        field.fill("")
        expect(most).to_have_attribute("aria-pressed", "true")
        field.fill("64")
        most.click()
        expect(field).to_have_value("")
        chromium_page.get_by_role("button", name="Close settings").click()
    wait_over(ask(chromium_page, "short"))
    assert set(bodies[0]) == ALWAYS_SENT


def test_the_slider_and_the_field_show_one_value(chromium_page: Page) -> None:
    """What was typed gives way to what the slider says, and what is half typed is no fault yet."""
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    field = chromium_page.get_by_label("Temperature", exact=True)
    slider = chromium_page.get_by_label("Temperature, slider")
    field.press_sequentially("0.50")
    expect(slider).to_have_value("0.5")
    slider.press("ArrowRight")
    expect(field).to_have_value("0.55")
    field.fill("")
    field.press_sequentially("-")
    expect(field).to_have_attribute("aria-invalid", "false")
    field.blur()
    expect(field).to_have_value("")


def test_the_longest_answer_stays_within_the_context(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """The server refuses more than the model's context; the field says so before, also of a value from earlier."""
    page = open_page(scripted_server({**CHAT_SCRIPT, "context_length": 256}).url)
    page.wait_for_selector(".status.ready")
    page.evaluate("localStorage.setItem('muse.sampling', JSON.stringify({max_tokens: 4096}))")
    page.reload()
    page.wait_for_selector(".status.ready")
    page.get_by_role("button", name="Settings", exact=True).click()
    field = page.get_by_label("Longest answer", exact=True)
    fault = page.locator(".setting-help.fault")
    expect(field).to_have_value("4096")
    expect(fault).to_have_text("Must be a whole number from 1 to 256, all that the model’s context holds.")
    field.fill("256")
    expect(fault).to_have_count(0)
    field.fill("257")
    expect(fault).to_have_count(1)
    field.blur()
    expect(field).to_have_value("256")


def test_penalties_are_set_only_where_the_engine_has_them(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess]
) -> None:
    """Else the sheet says why they are not there, and what was set with another engine is neither sent nor lost."""
    script = {**CHAT_SCRIPT, "penalties": False}
    page = open_page(scripted_server(script).url)
    page.wait_for_selector(".status.ready")
    bodies = record_requests(page)
    kept = '{"temperature":0.5,"repeat_penalty":1.2,"presence_penalty":1,"frequency_penalty":1}'
    page.evaluate("kept => localStorage.setItem('muse.sampling', kept)", kept)
    page.reload()
    page.wait_for_selector(".status.ready")
    page.get_by_role("button", name="Settings", exact=True).click()
    expect(page.get_by_role("region", name="Repetition")).to_contain_text("has no penalties")
    expect(page.get_by_label(re.compile("penalty"))).to_have_count(0)
    wait_over(ask(page, "short"))
    assert {name: value for name, value in bodies[0].items() if name not in ALWAYS_SENT} == {"temperature": 0.5}
    assert page.evaluate("localStorage.getItem('muse.sampling')") == kept


def test_thinking_is_set_only_where_the_model_thinks(thinking_page: Page, chromium_page: Page) -> None:
    """Strength and limit go out under their names; a model that does not think has neither, and is sent neither."""
    bodies = record_requests(thinking_page)
    thinking_page.get_by_role("button", name="Settings", exact=True).click()
    stops = thinking_page.get_by_role("radio", name=re.compile("^(Low|Medium|High|Extra high)$"))
    expect(stops).to_have_count(4)
    thinking_page.get_by_label("Low", exact=True).check()
    thinking_page.get_by_label("Longest thinking", exact=True).fill("5")
    answer = wait_over(ask(thinking_page, "hello"))
    assert bodies[0]["chat_template_kwargs"] == {"reasoning_strength": "low", "return_reasoning": True}
    assert bodies[0]["muse"] == {"max_thinking_tokens": 5, "detached": True}
    expect(text_of(answer)).not_to_be_empty()
    system = thinking_page.get_by_label("System message", exact=True)
    system.fill("Reasoning strength: high.")
    sheet = thinking_page.get_by_role("dialog", name="Settings")
    expect(sheet).to_contain_text("a message with both is refused")
    system.fill("")
    expect(sheet).not_to_contain_text("a message with both is refused")
    thinking_page.get_by_role("button", name="Default for Reasoning strength").click()
    thinking_page.get_by_role("button", name="No limit for Longest thinking").click()
    wait_over(ask(thinking_page, "hello"))
    assert bodies[1]["chat_template_kwargs"] == {"return_reasoning": True}
    assert bodies[1]["muse"] == {"detached": True}

    others = record_requests(chromium_page)
    chromium_page.evaluate(
        """localStorage.setItem("muse.sampling", JSON.stringify({reasoning_strength: "low", max_thinking_tokens: 5}))"""
    )
    chromium_page.reload()
    chromium_page.wait_for_selector(".status.ready")
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    expect(chromium_page.get_by_role("heading", name="Thinking")).to_have_count(0)
    wait_over(ask(chromium_page, "short"))
    assert set(others[0]) == ALWAYS_SENT
    assert others[0]["muse"] == {"detached": True}


def test_a_cut_answer_goes_on_under_the_thinking_settings(thinking_page: Page) -> None:
    """The limit goes along with `muse.continue`; the strength is part of the prompt, which stays, and must not."""
    bodies = record_requests(thinking_page)
    thinking_page.get_by_role("button", name="Settings", exact=True).click()
    thinking_page.get_by_label("High", exact=True).check()
    thinking_page.get_by_label("Longest thinking", exact=True).fill("1000")
    thinking_page.get_by_label("Longest answer", exact=True).fill("40")
    answer = wait_over(ask(thinking_page, "hello"))
    thinking_page.get_by_role("button", name="Max for Longest answer").click()
    answer.get_by_role("button", name="Continue").click()
    expect(text_of(answer)).to_contain_text("That is all.")
    assert bodies[1]["chat_template_kwargs"] == {"return_reasoning": True}
    muse = bodies[1]["muse"]
    assert muse.pop("continue")
    assert muse == {"max_thinking_tokens": 1000, "detached": True}
