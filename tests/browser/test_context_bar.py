"""How full the context is, what an answer's receipt says, and how the page tells that the prompt is being read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.scripts import CHAT_SCRIPT, ask, wait_over
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

Start = Callable[..., ServerProcess]
# All that the line under the answer said, each once.
RECORD_WAITING = """window.waits = [];
new MutationObserver(() => {
  const words = document.querySelector(".waiting > span:nth-child(2)")?.textContent;
  if (words && words !== waits.at(-1)) waits.push(words);
}).observe(document.body, {subtree: true, childList: true, characterData: true});"""


def receipt_of(page: Page) -> dict[str, Any]:
    """What the server knows of the newest answer."""
    return page.evaluate(
        """async () => {
          const answer = await fetch(`/v1/sessions/${sessionStorage.getItem("muse.session")}`);
          return (await answer.json()).messages.at(-1).muse_metrics;
        }"""
    )


def meter(page: Page) -> Locator:
    return page.get_by_role("meter", name="Context")


def rows_of(answer: Locator) -> dict[str, str]:
    """The open receipt."""
    rows = answer.locator(".receipt-details dl > div").all()
    return {row.locator("dt").inner_text(): row.locator("dd").inner_text() for row in rows}


def test_the_meter_follows_the_conversation(chromium_page: Page) -> None:
    """Nothing before there is anything to say; then the sum of the newest receipt; nothing again in a new chat."""
    expect(meter(chromium_page)).to_have_count(0)
    height = chromium_page.locator(".composer").bounding_box()
    for text in ("short one", "short two"):
        wait_over(ask(chromium_page, text))
        receipt = receipt_of(chromium_page)
        used = receipt["prompt_tokens"] + receipt["completion_tokens"]
        expect(meter(chromium_page)).to_have_attribute("aria-valuenow", str(used))
        expect(meter(chromium_page)).to_have_attribute("aria-valuemax", "65536")
        expect(meter(chromium_page)).to_have_attribute(
            "aria-valuetext", re.compile(rf"^{used} of 65,536 tokens used\.")
        )
    expect(meter(chromium_page)).to_have_attribute(
        "aria-valuetext", re.compile(r"Template \d+, Earlier turns \d+, This question \d+, Answer 2\. Free 65,\d+\.$")
    )
    assert chromium_page.locator(".composer").bounding_box() == height
    chromium_page.get_by_role("button", name="New chat").click()
    expect(meter(chromium_page)).to_have_count(0)


def test_it_warns_in_words_when_nearly_full(open_page: Callable[..., Page], scripted_server: Start) -> None:
    """Under the composer and in the receipt, for eyes and for screen readers."""
    page = open_page(scripted_server({**CHAT_SCRIPT, "context_length": 160}).url)
    page.wait_for_selector(".status.ready")
    answer = wait_over(ask(page, "short"))
    expect(page.locator(".context-meter")).to_contain_text(re.compile(r"^\d+ of 160 tokens$"))
    answer = wait_over(ask(page, "short " + "w" * 88))
    expect(page.locator(".context-meter")).to_contain_text(re.compile(r"^Context (8[5-9]|9\d) % full$"))
    expect(meter(page)).to_have_attribute("aria-valuetext", re.compile("^Nearly full. "))
    answer.locator(".receipt").click()
    expect(answer.locator(".context-warning")).to_contain_text("Nearly full.")


def test_the_receipt_splits_the_context(thinking_page: Page) -> None:
    """Each share with its name and number; together with what is free they are the whole context."""
    wait_over(ask(thinking_page, "plain"))
    answer = wait_over(ask(thinking_page, "Why?"))
    answer.locator(".receipt").click()
    legend = answer.get_by_role("region", name="Context").get_by_role("listitem").all_inner_texts()
    told = {
        re.sub(r"[\s\d,]+$", "", words): int(re.sub(r"\D", "", re.findall(r"[\d,]+$", words)[0])) for words in legend
    }
    context = receipt_of(thinking_page)["context"]
    assert list(told) == ["Template", "Earlier turns", "This question", "Thinking", "Answer", "Free"]
    assert [told["Thinking"], told["Answer"]] == [context["thinking"], context["answer"]]
    assert sum(told.values()) == context["length"]


def test_the_receipt_says_what_the_model_remembered(chromium_page: Page) -> None:
    """Times, counts, and the reason in the server's words, for a first and for an edited turn."""
    wait_over(ask(chromium_page, "short one"))
    wait_over(ask(chromium_page, "short two"))
    chromium_page.get_by_role("button", name="Edit message").first.click()
    chromium_page.get_by_label("Your message").fill("short but other")
    chromium_page.get_by_role("button", name="Save & send").click()
    expect(chromium_page.locator(".from-model")).to_have_count(1)
    answer = wait_over(chromium_page.locator(".from-model"))
    answer.locator(".receipt").click()
    rows, receipt = rows_of(answer), receipt_of(chromium_page)
    assert receipt["session_reset_reason"] == "rewound"
    assert rows["Memory"] == receipt["session_reset_explanation"]
    reused, new = receipt["reused_prompt_tokens"], receipt["prefilled_prompt_tokens"]
    assert rows["Prompt"] == f"{reused + new} tokens: {reused} reused, {new} new"
    assert {"Reading", "First token", "Answer", "Total"} <= set(rows)


def test_reading_tells_what_is_new_and_how_fast(open_page: Callable[..., Page], scripted_server: Start) -> None:
    """Of the tokens that the model held before only their number is said."""
    script = {**CHAT_SCRIPT, "prefill_us_per_token": 2000, "prefill_batch": 32}
    page = open_page(scripted_server(script).url)
    page.wait_for_selector(".status.ready")
    page.evaluate(RECORD_WAITING)
    wait_over(ask(page, "short " + "w" * 1500))
    assert page.evaluate("waits.some((words) => /^Reading [\\d,]+ of 1,5\\d\\d tokens · \\d+ tokens.s · /.test(words))")
    page.evaluate("waits.length = 0")
    wait_over(ask(page, "short " + "v" * 1000))
    waits = page.evaluate("waits")
    reading = [re.match(r"Reading ([\d,]+) of ([\d,]+) new tokens \(1,5\d\d reused\)(.*)$", words) for words in waits]
    told = [match for match in reading if match]
    assert told
    assert {match[2] for match in told} == {told[0][2]}
    done = [int(match[1].replace(",", "")) for match in told]
    assert done == sorted(done)
    assert any(re.fullmatch(r" · \d+ tokens/s · (a few|about \d+) s(econds)? left", match[3]) for match in told)
