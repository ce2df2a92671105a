"""What an answer's Markdown becomes on the screen: the right elements for honest text, plain text for the rest."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripts import ask, wait_over, wait_until

pytestmark = pytest.mark.browser


def test_markdown_becomes_elements(chromium_page: Page) -> None:
    """Emphasis, headings, lists, tasks, table, code, quote and links, each as its own kind of element."""
    prose = wait_over(ask(chromium_page, "tour")).locator(".prose")
    for selector, text in {
        "strong": "bold",
        "em": "slant",
        "p code": "code",
        "del": "gone",
        "h3": "Steps",
        "ol > li > ul > li": "nested",
        "blockquote": "A quote.",
        "th": "Name",
        "td.align-right": "1",
    }.items():
        expect(prose.locator(selector).first).to_contain_text(text)
    expect(prose.locator("li.task input")).to_have_count(2)
    expect(prose.locator("li.task input:checked")).to_have_count(1)
    expect(prose.locator("td br")).to_have_count(1)
    link = prose.get_by_role("link", name="the site")
    assert link.get_attribute("href") == "https://example.com/a?b=1"
    assert link.get_attribute("rel") == "noreferrer noopener"
    assert link.get_attribute("target") == "_blank"
    assert prose.get_by_role("link", name="someone@example.com").get_attribute("href") == "mailto:someone@example.com"


def test_pictures_are_named_but_not_fetched(chromium_page: Page) -> None:
    """No img element: the watch over requests would also see a fetch."""
    prose = wait_over(ask(chromium_page, "tour")).locator(".prose")
    expect(prose.locator(".image-name")).to_have_text("Image: a picture")
    expect(prose.locator("img")).to_have_count(0)


def test_code_has_a_label_colours_and_a_copy_button(chromium_page: Page) -> None:
    """Copying gives the source text exactly."""
    chromium_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = wait_over(ask(chromium_page, "tour")).locator(".code-block")
    expect(block.locator(".code-language")).to_have_text("Python")
    expect(block.locator(".hl-keyword").first).to_have_text("def")
    block.get_by_role("button", name="Copy code").click()
    expect(block.locator(".code-copy")).to_have_text("Copied")
    copied = chromium_page.evaluate("navigator.clipboard.readText()")
    assert copied == "def double(x: int) -> int:\n    return x * 2  # twice"


def test_hostile_markdown_stays_text(chromium_page: Page) -> None:
    """No script runs, nothing is fetched, no dangerous element or address exists; the text itself is shown."""
    prose = wait_over(ask(chromium_page, "hostile")).locator(".prose")
    expect(prose).to_contain_text("<script>window.hacked = 1</script>")
    assert chromium_page.evaluate("window.hacked") is None
    expect(prose.locator("script, img, iframe, style, form, svg, object, embed, base, meta, link")).to_have_count(0)
    names = prose.evaluate("prose => [...prose.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())")
    assert [name for name in names if name.startswith("on")] == []
    links = prose.locator("a").evaluate_all("found => found.map(a => a.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert chromium_page.locator(".composer").is_visible()


def test_settled_blocks_are_never_touched_again(chromium_page: Page) -> None:
    """A selection in an early paragraph, and one in the paragraph that grows, survive the rest of the answer."""
    answer = ask(chromium_page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 2 has")
    chromium_page.evaluate(
        """() => {
          const first = document.querySelector(".prose p");
          first.marked = true;
          getSelection().setBaseAndExtent(first.firstChild, 0, first.firstChild, 11);
        }"""
    )
    wait_over(answer)
    assert chromium_page.evaluate("document.querySelector('.prose p').marked") is True
    assert chromium_page.evaluate("String(getSelection())") == "Paragraph 1"


def test_a_selection_in_growing_text_survives(chromium_page: Page) -> None:
    """Text that grows is appended to its node, so what is selected in it stays selected."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and on and")
    chromium_page.evaluate(
        """() => {
          const text = document.querySelector(".prose p").firstChild;
          window.lengthThen = text.length;
          getSelection().setBaseAndExtent(text, 0, text, 6);
        }"""
    )
    wait_until(chromium_page, "document.querySelector('.prose p').firstChild.length > window.lengthThen + 40")
    assert chromium_page.evaluate("String(getSelection())") == "on and"
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
