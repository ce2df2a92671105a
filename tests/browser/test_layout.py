"""The page on small and large screens: nothing runs off sideways, targets fit a finger, scrolling is the reader's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.scripts import CHAT_SCRIPT, ask, wait_over, wait_until
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

SIZES = [(320, 568), (390, 844), (768, 1024), (1280, 800), (2560, 1440)]
DISTANCE_TO_END = """(() => {
  const transcript = document.querySelector(".transcript");
  return transcript.scrollHeight - transcript.clientHeight - transcript.scrollTop;
})()"""
# What sticks out to the right of the window, apart from what scrolls inside a frame of its own.
STICKING_OUT = """() => {
  const inFrame = (e) => e.closest("pre, .table-frame, .visually-hidden") !== null;
  return [...document.querySelectorAll("#app *")]
    .filter((e) => e.checkVisibility() && !inFrame(e) && e.getBoundingClientRect().right > innerWidth + 0.5)
    .map((e) => `${e.tagName}.${e.className}`);
}"""


MUST_BE_REACHED = """New chat|Chats|Settings|Conversation|Edit message|Copy code|Table|Copy answer|Edit answer
Regenerate|Message|Add files|Close settings
System message|Temperature|Temperature, slider|Seed|System""".replace("\n", "|").split("|")
TOO_SMALL = """() => [...document.querySelectorAll("button, input:not([disabled]), textarea")]
  .filter((e) => e.checkVisibility())
  .map((e) => e.closest("label.check") ?? e)
  .map((e) => [e.getAttribute("aria-label") ?? (e.id || e.textContent), e.getBoundingClientRect()])
  .filter(([, box]) => box.height < 44 || box.width < 44)
  .map(([name, box]) => `${name} ${box.width} x ${box.height}`)"""


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nothing_runs_off_sideways(
    open_page: Callable[..., Page], chat_server: ServerProcess, size: tuple[int, int]
) -> None:
    """With a table, code, a long word and open settings, at each width."""
    page = open_page(chat_server.url, viewport={"width": size[0], "height": size[1]})
    wait_over(ask(page, "tour " + "x" * 400))
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("button", name="Add a stop string").click()
    assert page.evaluate(STICKING_OUT) == []


def test_only_the_parts_of_the_page_scroll(chromium_page: Page) -> None:
    """A long chat and a long sheet, scrolled to their ends, leave the page itself where it is."""
    wait_over(ask(chromium_page, "long please"))
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.get_by_role("heading", name="The model").evaluate("e => e.scrollIntoView()")
    chromium_page.get_by_role("button", name="Copy message").evaluate("e => e.scrollIntoView()")
    assert chromium_page.evaluate("[scrollY, document.documentElement.scrollHeight - innerHeight]") == [0, 0]


def test_targets_fit_a_finger(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """On a touch screen every button and field is at least 44 px high, or as wide as a line of text."""
    page = open_page(
        chat_server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, device_scale_factor=2
    )
    page.get_by_label("Message", exact=True).fill("tour")
    page.get_by_role("button", name="Send").click()
    wait_over(page.locator(".from-model").last)
    assert page.evaluate(TOO_SMALL) == []
    page.get_by_role("button", name="Settings", exact=True).tap()
    page.get_by_role("button", name="Add a stop string").tap()
    assert page.evaluate(TOO_SMALL) == []


def test_the_view_follows_only_at_the_end(chromium_page: Page) -> None:
    """Following by itself; a reader who scrolls up is left alone and offered the way back."""
    answer = ask(chromium_page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 22 has")
    wait_until(chromium_page, f"{DISTANCE_TO_END} < 40")
    chromium_page.locator(".transcript").hover()
    chromium_page.mouse.wheel(0, -300)
    jump = chromium_page.get_by_role("button", name="Jump to newest")
    expect(jump).to_be_visible()
    top = chromium_page.evaluate("document.querySelector('.transcript').scrollTop")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 40 has")
    assert abs(chromium_page.evaluate("document.querySelector('.transcript').scrollTop") - top) <= 1
    jump.click()
    wait_over(answer)
    wait_until(chromium_page, f"{DISTANCE_TO_END} < 40")
    expect(jump).to_have_count(0)


def test_a_selection_is_not_scrolled_away_while_it_is_made(chromium_page: Page) -> None:
    """As long as the button is down the text stands still, and the way to the newest is offered."""
    answer = ask(chromium_page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 22 has")
    wait_until(chromium_page, f"{DISTANCE_TO_END} < 40")
    chromium_page.mouse.move(500, 300)  # in the answer, wherever that has got to
    chromium_page.mouse.down()
    wait_until(chromium_page, "document.querySelector('.from-model:active')")
    top = chromium_page.evaluate("document.querySelector('.transcript').scrollTop")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 40 has")
    assert abs(chromium_page.evaluate("document.querySelector('.transcript').scrollTop") - top) <= 1
    chromium_page.mouse.up()
    expect(chromium_page.get_by_role("button", name="Jump to newest")).to_be_visible()
    wait_over(answer)


def test_everything_can_be_reached_and_named_by_keyboard(chromium_page: Page) -> None:
    """Tab visits every control, each with a name and a visible focus; the sheet closes by Escape."""
    wait_over(ask(chromium_page, "tour"))
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.locator("body").press("Tab")
    seen: dict[str, str] = {}
    describe = """() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      const label = e.labels?.[0]?.textContent ?? "";
      const name = (e.getAttribute("aria-label") ?? (label || e.textContent || e.title)).trim();
      const ring = style.outlineStyle !== "none" || e.matches(".composer textarea, .segments input");
      return [name, ring, e === document.body];
    }"""
    for _ in range(60):
        name, has_ring, is_body = chromium_page.evaluate(describe)
        if not is_body:
            assert name, chromium_page.evaluate("document.activeElement.outerHTML")
            assert has_ring, name
            seen[name] = ""
        chromium_page.keyboard.press("Tab")
    missed = [name for name in MUST_BE_REACHED if name not in seen]
    assert missed == [], list(seen)
    chromium_page.get_by_label("Temperature", exact=True).focus()
    chromium_page.keyboard.press("Escape")
    expect(chromium_page.get_by_role("heading", name="Settings")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_page: Callable[..., Page], chat_server: ServerProcess, scheme: str) -> None:
    """Every visible text has at least 4.5:1 against the ground it stands on."""
    page = open_page(chat_server.url, color_scheme=scheme)
    page.wait_for_selector(".status.ready")
    wait_over(ask(page, "tour"))
    page.locator(".hl-keyword").first.wait_for()
    page.locator(".receipt").click()
    page.get_by_role("button", name="Settings", exact=True).click()
    assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_editing_fits_a_phone(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess], watch: PageWatch, scheme: str
) -> None:
    """The editor, an edited answer and a refused edit: nothing sticks out, targets fit, all can be read."""
    watch.expected.append("400")
    server = scripted_server({**CHAT_SCRIPT, "context_length": 256})
    page = open_page(
        server.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, color_scheme=scheme
    )

    def check() -> None:
        assert [page.evaluate(rule) for rule in (STICKING_OUT, TOO_SMALL, LOW_CONTRAST)] == [[], [], []]

    page.get_by_label("Message", exact=True).fill("short")
    page.get_by_role("button", name="Send").tap()
    wait_over(page.locator(".from-model"))
    page.get_by_role("button", name="Edit message").tap()
    check()
    page.get_by_label("Your message").fill("short " * 300)
    page.get_by_role("button", name="Save & send").tap()
    expect(page.get_by_role("alert")).to_be_visible()
    check()
    page.get_by_role("button", name="Dismiss").tap()
    page.get_by_role("button", name="Edit answer").tap()
    page.get_by_label("The answer").fill("Other words.")
    check()
    page.get_by_role("button", name="Save").tap()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    check()


LOW_CONTRAST = """() => {
  const paint = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (e) => {
    for (; e !== null; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const walker = document.createTreeWalker(document.querySelector("#app"), NodeFilter.SHOW_TEXT);
  const low = [];
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const isShown = e.checkVisibility({opacityProperty: true}) && !e.closest(".visually-hidden");
    if (!walker.currentNode.data.trim() || !isShown) continue;
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${e.className} ${walker.currentNode.data.slice(0, 30)}`);
  }
  return low;
}"""
