"""Answers as models write them in any script: what the page must show, while it is written and when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import serving
from tests.browser.files import composer
from tests.browser.scripts import ask, pieces, wait_over
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser

SCRIPTS = r"""**注意：**请看 age(1~3), height(80~100) ~~gone~~

见https://example.com/d。谢谢（https://example.com/e）

| Formula | z |
|---|---|
| $\ln|x|$ | last |
"""
ALERTS = "".join(
    f"> [!{kind}]\n> About *{kind.lower()}*.\n\n" for kind in ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
)
SLOW_ALERT = ["> ", "[", "!", "NO", "TE", "]", "\n", "> ", "Words", " that", *[" go on"] * 60, "."]
NUMBERS = "98. a\n99. b\n100. c\n\n***\n\n1000. d\n\n***\n\n- e\n\n  123456789. f\n\n***\n\n999999999. g\n1. h\n"
WORDS = {"long word": 32_000, "shorter word": 4_000}

SCRIPT = {
    "model_id": "scripted-model",
    "answers": [
        {"when": "scripts", "tokens": pieces(SCRIPTS), "token_ms": 1},
        {"when": "slow alert", "tokens": SLOW_ALERT, "token_ms": 20},
        {"when": "alerts", "tokens": pieces(ALERTS), "token_ms": 1},
        {"when": "numbers", "tokens": pieces(NUMBERS), "token_ms": 1},
        *({"when": name, "tokens": ["x" * 1000] * (length // 1000)} for name, length in WORDS.items()),
        {"tokens": ["Short."]},
    ],
}


@pytest.fixture(scope="module")
def text_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the answers above."""
    with serving(SCRIPT, tmp_path_factory.mktemp("text")) as server:
        yield server


@pytest.fixture
def page(open_page: Callable[..., Page], text_server: ServerProcess) -> Page:
    """The page of that server, ready to use."""
    page = open_page(text_server.url)
    page.wait_for_selector(".status.ready")
    return page


def test_answers_in_other_scripts_and_with_formulas(page: Page) -> None:
    """Bold before CJK, tildes that mean "to", addresses without the marks behind them, both cells of a row."""
    prose = wait_over(ask(page, "scripts")).locator(".prose")
    expect(prose.locator("strong")).to_have_text("注意：")
    expect(prose.locator("p").first).to_have_text("注意：请看 age(1~3), height(80~100) gone")
    expect(prose.locator("del")).to_have_text("gone")
    assert prose.locator("a").evaluate_all("(all) => all.map((a) => a.href)") == [
        "https://example.com/d",
        "https://example.com/e",
    ]
    expect(prose.locator("tbody td")).to_have_count(2)
    expect(prose.locator("tbody td").first.locator("math")).to_have_count(1)
    expect(prose.locator("tbody td").last).to_have_text("last")


def test_alerts_have_titles(page: Page) -> None:
    """Each kind its own; for screen readers a note."""
    prose = wait_over(ask(page, "alerts")).locator(".prose")
    expect(prose.get_by_role("note")).to_have_text(
        [
            "NoteAbout note.",
            "TipAbout tip.",
            "ImportantAbout important.",
            "WarningAbout warning.",
            "CautionAbout caution.",
        ]
    )
    expect(prose).not_to_contain_text("[!")


def test_the_mark_of_an_alert_is_never_seen(page: Page) -> None:
    """Not while it is half written, either."""
    page.evaluate(
        """() => {
          window.seen = new Set();
          const look = () => {
            const texts = [...document.querySelectorAll(".prose")].map((prose) => prose.innerText);
            for (const text of texts) if (text.includes("[")) window.seen.add(text);
          };
          new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    answer = ask(page, "slow alert")
    expect(answer.get_by_role("note")).to_contain_text("Words that")
    wait_over(answer)
    assert page.evaluate("[...window.seen]") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_list_numbers_are_whole(page: Page, width: int) -> None:
    """There is room for the longest beside its text, and the text still has most of the width."""
    page.set_viewport_size({"width": width, "height": 800})
    prose = wait_over(ask(page, "numbers")).locator(".prose")
    lists = prose.locator("ol")
    expect(lists).to_have_count(4)
    rooms = lists.evaluate_all(
        """(lists) => lists.map((list) => {
          const last = list.start + list.children.length - 1;
          const probe = document.createElement("span");
          probe.style.fontVariantNumeric = "tabular-nums";
          probe.textContent = `${last}. `;
          probe.style.whiteSpace = "pre";
          list.children[0].append(probe);
          const needed = probe.getBoundingClientRect().width;
          probe.remove();
          const room = list.children[0].getBoundingClientRect().left - list.getBoundingClientRect().left;
          return [room >= needed, room < needed + 24];
        })"""
    )
    assert rooms == [[True, True]] * 4


LAYOUT_MS = """(element) => {
  const times = [];
  for (let round = 0; round < 5; round++) {
    element.style.width = `${300 + round}px`;
    const begun = performance.now();
    element.offsetHeight;
    times.push(performance.now() - begun);
  }
  return Math.min(...times);
}"""


@pytest.mark.parametrize("place", ["answer", "message", "composer", "source"])
def test_the_layout_of_a_word_grows_with_its_length(page: Page, place: str) -> None:
    """Not with its square: eight times as long takes less than 24 times as long."""
    times: list[float] = []
    for name, length in WORDS.items():
        if place in ("answer", "source"):
            answer = wait_over(ask(page, name))
            if place == "source":
                answer.get_by_role("button", name="Source text").click()
            element = answer.locator(".source" if place == "source" else ".prose p")
        elif place == "message":
            wait_over(ask(page, "x" * length))
            if (unfold := page.get_by_role("button", name="Show all")).count():
                unfold.last.click()
            element = page.locator(".bubble").last
        else:
            element = composer(page)
            element.fill("x" * length)
        times.append(element.evaluate(LAYOUT_MS))
    assert times[0] < 24 * max(times[1], 0.2), times
