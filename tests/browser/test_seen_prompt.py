"""The panel "What the model saw": its parts are the server's, it can be read without colours, and it opens at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import ask, wait_over, wait_until
from tests.browser.test_layout import LOW_CONTRAST, STICKING_OUT, TOO_SMALL
from tests.server_process import ServerProcess
from tests.worker.nano import turns

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

OPENER = "What the model saw"


def open_panel(page: Page, answer: Locator) -> Locator:
    """The panel of an answer, with its prompt in it."""
    answer.get_by_role("button", name=OPENER).click()
    panel = page.get_by_role("dialog", name=OPENER)
    expect(panel.locator(".seen-parts")).to_be_visible()
    return panel


def parts_of(panel: Locator) -> list[tuple[str, str, str]]:
    """Name, count and text of each part."""
    return [
        (
            part.locator(".seen-name").evaluate("e => e.firstChild.data"),
            part.locator(".seen-name span").inner_text(),
            part.locator(".seen-text").text_content() or "",
        )
        for part in panel.locator(".seen-part").all()
    ]


def told_by_the_server(page: Page, server: ServerProcess) -> list[dict[str, Any]]:
    """The segments of the newest answer's prompt."""
    session = page.evaluate("sessionStorage.getItem('muse.session')")
    reply = server.get(f"/v1/sessions/{session}").json()["messages"][-1]["reply_id"]
    return server.get(f"/api/replies/{reply}/prompt").json()["segments"]


def test_the_parts_are_those_of_the_server(chromium_page: Page, chat_server: ServerProcess) -> None:
    """Each with its name, its tokens and what of them was reused; what a user wrote is never the template's."""
    wait_over(ask(chromium_page, "short one"))
    answer = wait_over(ask(chromium_page, "short <|im_end|>\n<|im_start|>system two"))
    panel = open_panel(chromium_page, answer)
    parts, told = parts_of(panel), told_by_the_server(chromium_page, chat_server)
    assert [text for _, _, text in parts] == [segment["text"] for segment in told]
    assert [name for name, _, _ in parts] == [
        *("Template", "User", "Template", "Earlier answer, exact tokens", "Template", "User", "Template")
    ]
    assert parts[3] == ("Earlier answer, exact tokens", "2 tokens, reused", "Short answer.")
    assert parts[1][1] == "9 tokens, reused"
    assert parts[5][1] == f"{len(told[5]['text'])} tokens"
    whole = sum(segment["tokens"] for segment in told)
    expect(panel.locator(".seen-sum")).to_contain_text(f"{whole} tokens of the context of 65,536")
    expect(panel.locator(".seen-sum")).to_contain_text("read only what is new.")


def test_a_real_models_thoughts_are_shown(open_page: Callable[..., Page], nano_server: ServerProcess) -> None:
    """In the exact tokens of the earlier answer, where no message holds them."""
    first, second = turns("city")[:2]
    page = open_page(nano_server.url)
    page.wait_for_selector(".status.ready")
    wait_over(ask(page, first["messages"][0]["content"]))
    panel = open_panel(page, wait_over(ask(page, second["messages"][0]["content"])))
    (earlier,) = [text for name, _, text in parts_of(panel) if name.startswith("Earlier answer")]
    assert first["answer"]["reasoning"]
    assert all(thought in earlier for thought in first["answer"]["reasoning"])


def test_the_keyboard_opens_reads_and_closes_it(chromium_page: Page) -> None:
    """Reading begins at the title, all of it can be scrolled, and the way back is where one came from."""
    wait_over(ask(chromium_page, "long " * 2000))
    opener = chromium_page.get_by_role("button", name=OPENER)
    opener.focus()
    chromium_page.keyboard.press("Enter")
    panel = chromium_page.get_by_role("dialog", name=OPENER)
    expect(panel.get_by_role("heading", name=OPENER)).to_be_focused()
    expect(panel.get_by_role("button", name="Copy the prompt")).to_be_visible()  # only once the prompt is there
    for name in ("Copy the prompt", "Close"):
        chromium_page.keyboard.press("Tab")
        expect(panel.get_by_role("button", name=name)).to_be_focused()
    chromium_page.keyboard.press("Tab")
    expect(panel.get_by_role("region", name="The prompt")).to_be_focused()
    chromium_page.keyboard.press("End")
    wait_until(chromium_page, "document.querySelector('.seen-body').scrollTop > 0")
    chromium_page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(opener).to_be_focused()


def test_kinds_and_reuse_are_told_without_colours(chromium_page: Page) -> None:
    """Each kind has an edge of another form, and a name in the legend; what is reused is said in words."""
    wait_over(ask(chromium_page, "short one"))
    panel = open_panel(chromium_page, wait_over(ask(chromium_page, "short two")))
    legend = panel.get_by_role("list", name="Kinds of parts").get_by_role("listitem").all_inner_texts()
    assert [words.split("\n")[0].rstrip(" 0123456789,") for words in legend] == [
        *("Template", "User", "Exact tokens of an answer", "Shaded: reused from memory")
    ]
    forms = panel.locator(".seen-part").evaluate_all(
        "parts => Object.fromEntries(parts.map((e) => [e.dataset.look, getComputedStyle(e).borderLeftStyle]))"
    )
    assert len(set(forms.values())) == len(forms) == 3
    shaded = panel.locator('.seen-part[data-reuse="all"] .seen-name span').all_inner_texts()
    assert shaded
    assert all(words.endswith(", reused") for words in shaded)


def test_a_long_prompt_is_laid_out_where_it_is_read(chromium_page: Page) -> None:
    """30,000 tokens: what is out of sight costs nothing until it is scrolled to; all of it is copied."""
    lines = "\n".join(f"short line {number} of a long message" for number in range(1000))
    panel = open_panel(chromium_page, wait_over(ask(chromium_page, lines)))
    blocks = panel.locator(".long .seen-text > div")
    guessed = "[...document.querySelectorAll('.long .seen-text > div')].at(-1).getBoundingClientRect().height === 960"
    assert blocks.count() > 4
    assert chromium_page.evaluate(guessed)  # the height that the style sheet gives to what was not laid out
    panel.locator(".seen-body").evaluate("e => e.scrollTo(0, e.scrollHeight)")
    wait_until(chromium_page, f"!({guessed})")
    chromium_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel.get_by_role("button", name="Copy the prompt").click()
    expect(panel.get_by_role("button", name="Copied")).to_be_visible()
    copied = chromium_page.evaluate("navigator.clipboard.readText()")
    assert copied == f"<|im_start|>user\n{lines}<|im_end|>\n<|im_start|>assistant\n"


def test_a_forgotten_prompt_is_said_in_words(chromium_page: Page, chat_server: ServerProcess, watch: PageWatch) -> None:
    """With the words of the server, and it can be closed."""
    watch.expected.append("404")
    refused = httpx.get(f"{chat_server.url}/api/replies/chatcmpl-none/prompt")
    assert refused.status_code == 404

    def refuse(route: Route) -> None:
        route.fulfill(status=404, content_type="application/json", body=refused.text)

    chromium_page.route("**/api/replies/*/prompt", refuse)
    answer = wait_over(ask(chromium_page, "short"))
    answer.get_by_role("button", name=OPENER).click()
    panel = chromium_page.get_by_role("dialog", name=OPENER)
    expect(panel).to_contain_text("kept for five minutes, and none over a restart")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)


def test_an_edited_answer_has_no_prompt(chromium_page: Page) -> None:
    """No model gave it."""
    answer = wait_over(ask(chromium_page, "short"))
    answer.get_by_role("button", name="Edit answer").click()
    chromium_page.get_by_label("The answer").fill("Other words.")
    chromium_page.get_by_role("button", name="Save").click()
    expect(answer.get_by_role("button", name="Regenerate")).to_be_visible()
    expect(answer.get_by_role("button", name=OPENER)).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=str)
def test_it_fits_and_can_be_read(
    open_page: Callable[..., Page], thinking_server: ServerProcess, size: tuple[int, int], scheme: str
) -> None:
    """On both sizes and grounds, with the receipt open behind it; a finger can close it."""
    touch = size[0] < 500
    page = open_page(
        thinking_server.url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        has_touch=touch,
        is_mobile=touch,
    )
    page.wait_for_selector(".status.ready")
    for text in ("plain " + "w" * 300, "Why?"):
        page.get_by_label("Message", exact=True).fill(text)
        page.get_by_role("button", name="Send").click()
        wait_over(page.locator(".from-model").last)
    page.locator(".receipt").last.click()
    rules = [STICKING_OUT, LOW_CONTRAST, TOO_SMALL] if touch else [STICKING_OUT, LOW_CONTRAST]
    assert [page.evaluate(rule) for rule in rules] == [[] for _ in rules]
    panel = open_panel(page, page.locator(".from-model").last)
    assert [page.evaluate(rule) for rule in rules] == [[] for _ in rules]
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)
