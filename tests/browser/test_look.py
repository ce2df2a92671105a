"""The page under other conditions: on paper, zoomed, with the system's colours, without motion, by touch."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripts import ask, wait_over, wait_until
from tests.browser.test_layout import STICKING_OUT, TOO_SMALL
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

VISIBLE_CONTROLS = """() => [...document.querySelectorAll("button, textarea, input, header, footer, dialog")]
  .filter((e) => e.checkVisibility() && !e.matches(".prose input, .thought-head"))
  .map((e) => e.outerHTML.slice(0, 80))"""
# Of everything that can be scrolled to, what lies outside of its scroller's reach or under the parts that stand still.
OUT_OF_REACH = """() => [...document.querySelectorAll("button, textarea, input, a[href]")]
  .filter((e) => e.checkVisibility({opacityProperty: false, visibilityProperty: true}))
  .filter((e) => {
    e.scrollIntoView({block: "center", behavior: "instant"});
    const box = e.getBoundingClientRect();
    const found = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return found === null || !(e.contains(found) || found.contains(e) || found.parentElement?.contains(e));
  }).map((e) => e.outerHTML.slice(0, 100))"""
# Each visible text that begins before its column or ends behind it, by more than what a slanted letter takes.
TEXT_BESIDE_THE_COLUMN = """() => {
  const column = document.querySelector(".column").getBoundingClientRect();
  const walker = document.createTreeWalker(document.querySelector(".transcript"), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const element = walker.currentNode.parentElement;
    if (box.width === 0 || element.closest(".visually-hidden") !== null) continue;
    if (box.left < column.left - 1 || box.right > column.right + 1) found.push(walker.currentNode.data);
  }
  return found;
}"""
DIFFERS = """([one, other]) => {
  const look = (selector) => {
    const style = getComputedStyle(document.querySelector(selector));
    return [style.backgroundColor, style.borderTopColor, style.borderTopWidth, style.color].join();
  };
  return look(one) !== look(other);
}"""


def test_paper_gets_the_words_and_no_controls(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """All of a long chat over several pages, in dark ink also from the dark theme, with the addresses of links."""
    page = open_page(chat_server.url, color_scheme="dark")
    wait_over(ask(page, "tour"))
    wait_over(ask(page, "long please"))
    page.get_by_role("button", name="Settings", exact=True).click()
    on_screen = page.pdf()
    page.emulate_media(media="print")
    assert page.evaluate(VISIBLE_CONTROLS) == []
    address = "getComputedStyle(document.querySelector('.prose a[href^=https]'), '::after').content"
    assert "https://example.com/a?b=1" in page.evaluate(address)
    inks = page.evaluate("[...document.querySelectorAll('.prose p')].map((e) => getComputedStyle(e).color)")
    assert set(inks) <= {"rgb(28, 32, 35)", "rgb(75, 82, 88)"}  # --ink and --ink-soft of the light theme
    heights = page.evaluate("[document.documentElement.scrollHeight, document.querySelector('.column').offsetHeight]")
    assert heights[0] >= heights[1] > 2 * 800
    assert len(re.findall(rb"/Type\s*/Page\b", on_screen)) > 1


def test_nothing_is_cut_off_at_the_edge_of_the_paper(thinking_page: Page) -> None:
    """No text stands out beside the column, beyond which a browser prints nothing; open thoughts and notes as well."""
    answer = wait_over(ask(thinking_page, "yes?"))
    answer.locator(".thought-head").click()
    stopped = ask(thinking_page, "endless")
    expect(stopped.locator(".thought")).to_contain_text("Step 2 leads")
    thinking_page.get_by_role("button", name="Stop", exact=True).click()
    wait_over(stopped, "stopped")
    thinking_page.emulate_media(media="print")
    assert thinking_page.evaluate(TEXT_BESIDE_THE_COLUMN) == []
    assert "Thought for" in thinking_page.locator(".transcript").inner_text()


def test_paper_and_systems_colours_tell_what_is_done(
    open_page: Callable[..., Page], chat_server: ServerProcess
) -> None:
    """The mark in the box of a task is a background, which both leave out where nothing says otherwise."""
    page = open_page(chat_server.url)
    wait_over(ask(page, "tour"))
    page.emulate_media(media="print")
    boxes = page.locator(".task input")
    assert boxes.evaluate_all("boxes => boxes.map((box) => [box.checked, getComputedStyle(box).printColorAdjust])") == [
        [True, "exact"],
        [False, "exact"],
    ]
    page.emulate_media(media="screen", forced_colors="active")
    done, to_do = (box.screenshot() for box in boxes.all())
    assert done != to_do
    grounds = boxes.evaluate_all("boxes => boxes.map((box) => getComputedStyle(box).backgroundColor)")
    assert len(set(grounds)) == 2


@pytest.mark.parametrize("size", [(640, 400), (320, 256)], ids=["200 %", "400 %"])
def test_zoomed_in_everything_can_be_reached(
    open_page: Callable[..., Page], chat_server: ServerProcess, size: tuple[int, int]
) -> None:
    """1280 x 800 at 200 % (WCAG 1.4.4), 1280 x 1024 at 400 % (1.4.10): nothing sideways, nothing covered, and room
    to read."""
    page = open_page(chat_server.url, viewport={"width": size[0], "height": size[1]})
    wait_over(ask(page, "tour"))
    assert page.locator(".transcript").bounding_box()["height"] > size[1] / 4  # type: ignore[index]
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate(OUT_OF_REACH) == []
    for name in ("Chats", "Settings"):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_focused()
        assert page.evaluate(STICKING_OUT) == []
        page.keyboard.press("Escape")
    page.get_by_role("region", name="Conversation").focus()
    page.keyboard.press("?")
    page.get_by_label("Use single keys").scroll_into_view_if_needed()
    expect(page.get_by_label("Use single keys")).to_be_in_viewport()
    assert page.evaluate(STICKING_OUT) == []


def test_with_the_systems_colours_nothing_is_told_by_a_background_alone(
    open_page: Callable[..., Page], thinking_server: ServerProcess
) -> None:
    """Forced colours: what is chosen, whose words they are and where buttons end can still be seen."""
    page = open_page(thinking_server.url, forced_colors="active")
    wait_over(ask(page, "plain"))
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("High", exact=True).check()
    border = "(e) => parseFloat(getComputedStyle(e).borderTopWidth)"
    for selector in (".bubble", ".send", ".segments"):
        assert page.locator(selector).first.evaluate(border) >= 1, selector
    assert page.evaluate(DIFFERS, ["[value=high] + span", "[value=low] + span"])
    page.get_by_label("Longest answer", exact=True).fill("7")
    on, off = ".setting-default[aria-pressed=true]", ".setting-default[aria-pressed=false]"
    assert page.evaluate(DIFFERS, [on, off])


def test_without_motion_nothing_moves(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """While an answer is written no animation runs on, and the way to the newest is one step."""
    page = open_page(chat_server.url, reduced_motion="reduce")
    answer = ask(page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 12 has")
    lasting = "document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime > 20).length"
    assert page.evaluate(lasting) == 0
    wait_over(answer)
    page.locator(".transcript").evaluate("e => e.scrollTo(0, 0)")
    jump = page.get_by_role("button", name="Jump to newest")
    jump.wait_for()
    distance = """() => {
      document.querySelector(".jump").click();
      const e = document.querySelector(".transcript");
      return e.scrollHeight - e.clientHeight - e.scrollTop;
    }"""
    assert page.evaluate(distance) <= 1
    wait_until(page, "!document.querySelector('.jump')")


def test_progress_jumps_without_motion(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """Bars that grow are made of these two; no rule of their own outdoes the wish."""
    page = open_page(chat_server.url, reduced_motion="reduce")
    slowest = """() => Math.max(...["load-line", "waiting-bar"].map((kind) => {
      const bar = document.createElement("div");
      bar.className = kind;
      const part = document.body.appendChild(bar).appendChild(document.createElement("span"));
      return parseFloat(getComputedStyle(part).transitionDuration);
    }))"""
    assert page.evaluate(slowest) <= 0.001


def test_a_finger_leaves_no_button_lit(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """Touch screens keep :hover on what was tapped last, so every such rule is for pointers that can hover."""
    page = open_page(chat_server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    lit = """() => {
      const found = {inside: 0, outside: []};
      const look = (rules, isMeant) => {
        for (const rule of rules) {
          if (rule.selectorText?.includes(":hover")) isMeant ? found.inside++ : found.outside.push(rule.cssText);
          else look(rule.cssRules ?? [], isMeant || rule.conditionText === "(hover: hover)");
        }
      };
      for (const sheet of document.styleSheets) look(sheet.cssRules, false);
      return found;
    }"""
    found = page.evaluate(lit)
    assert found["outside"] == []
    assert found["inside"] > 10
    button = page.get_by_role("button", name="Chats", exact=True)
    button.tap()
    page.get_by_role("button", name="Close chats").tap()
    assert button.evaluate("(e) => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_sheets_and_lists_fit_a_finger(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """Kept chats, presets and shortcuts on a touch screen: 44 px each way."""
    page = open_page(chat_server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.get_by_label("Message", exact=True).fill("short")
    page.get_by_role("button", name="Send").tap()
    wait_over(page.locator(".from-model"))
    page.get_by_role("button", name="Chats", exact=True).tap()
    page.get_by_label("Save this chat in this browser").check()
    page.get_by_role("button", name="Delete short").tap()
    assert page.evaluate(TOO_SMALL) == []
    page.get_by_role("button", name="Cancel").tap()
    assert page.evaluate(TOO_SMALL) == []
    page.get_by_role("button", name="Close chats").tap()
    page.get_by_role("button", name="Settings", exact=True).tap()
    page.get_by_role("button", name="Save these settings").tap()
    page.get_by_label("Name of the preset").fill("One")
    assert page.evaluate(TOO_SMALL) == []
    page.get_by_role("button", name="Save", exact=True).tap()
    expect(page.get_by_role("button", name="Rename One")).to_be_visible()
    assert page.evaluate(TOO_SMALL) == []
    page.get_by_role("button", name="Close settings").tap()
    page.get_by_role("button", name="Delete from here").last.tap()
    assert page.evaluate(TOO_SMALL) == []
