"""Formulas, footnotes, code blocks, the source view and copying, in settled and in growing answers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import serving
from tests.browser.scripts import ask, pieces, wait_over, wait_until
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

FORMULAS = r"""It costs $5 or $10, and $HOME:$PATH is no formula, nor is `\(code\)`. For $ax^2$ and \(b_1\):

\[
x = \frac{a}{b}
\]

$$\sum_i i$$

Broken: \(\nosuchmacro{x}\).

```tex
\(x\) costs $1$
```
"""

FOOTNOTES = """First[^a], second[^b], first again[^a], none[^nobody].

[^b]: Bee.
[^a]: Ay *it*.

    More of it.
"""

FILLER = "".join(f"Paragraph {number} has some words.\n\n" for number in range(2, 80))
LONG_LIST = "Here they are:\n" + "".join(f"- Item {number} is *one* of many.\n" for number in range(1, 120))
LONG_TABLE = "| Row | Word |\n|---|---|\n" + "".join(f"| Row {number} | *one* of many |\n" for number in range(1, 120))
SLOW_FORMULA = r"Start \(a_1 * b * c" + " + d" * 60 + r"\) end."

SCRIPT = {
    "model_id": "scripted-model",
    "answers": [
        {"when": "formulas", "tokens": pieces(FORMULAS), "token_ms": 1},
        {"when": "footnotes", "tokens": pieces(FOOTNOTES), "token_ms": 1},
        {"when": "root", "tokens": [r"\(\sqrt{\pi}\)"]},
        {"when": "slow formula", "tokens": pieces(SLOW_FORMULA), "token_ms": 10},
        {"when": "grow", "tokens": pieces(rf"Paragraph 1 has \(x^2\) in it. [link][r]{FILLER}"), "token_ms": 12},
        {"when": "long list", "tokens": pieces(LONG_LIST), "token_ms": 2},
        {"when": "long table", "tokens": pieces(LONG_TABLE), "token_ms": 2},
        {
            "when": "defined late",
            "tokens": pieces(f"Paragraph 1 has [a link][r].\n\n{FILLER}[r]: https://example.com/\n"),
            "token_ms": 2,
        },
    ],
}


def ink_runs(shot: bytes) -> int:
    """How many runs of rows there are in a picture with something dark in each row."""
    picture = Image.open(io.BytesIO(shot)).convert("L")
    rows = [picture.crop((0, y, picture.width, y + 1)).tobytes() for y in range(picture.height)]
    return [is_inked for is_inked, _ in groupby(min(row) < 128 for row in rows)].count(True)


@pytest.fixture(scope="module")
def rich_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the answers above."""
    with serving(SCRIPT, tmp_path_factory.mktemp("rich")) as server:
        yield server


@pytest.fixture
def page(open_page: Callable[..., Page], rich_server: ServerProcess) -> Page:
    """The page of that server, ready to use; it may use the clipboard."""
    page = open_page(rich_server.url)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.wait_for_selector(".status.ready")
    return page


def copied(page: Page) -> str:
    """What is in the clipboard."""
    return str(page.evaluate("navigator.clipboard.readText()"))


def select_all_of(answer: Locator) -> None:
    """Select the whole text of an answer."""
    answer.locator(".prose").evaluate("prose => getSelection().selectAllChildren(prose)")


def test_formulas_are_set_in_type(page: Page) -> None:
    """As MathML; money, variables and code are none of them, and a broken one shows its source."""
    answer = wait_over(ask(page, "formulas"))
    expect(answer.locator(".formula.is-set")).to_have_count(4)
    expect(answer.locator(".formula-display.is-set mfrac")).to_have_count(1)
    expect(answer.locator("p math msup")).to_have_count(1)
    expect(answer.locator(".formula:not(.is-set)")).to_have_text(r"\(\nosuchmacro{x}\)")
    expect(answer.locator("p").first).to_contain_text(r"$5 or $10, and $HOME:$PATH is no formula, nor is \(code\).")
    namespace = answer.locator("math").first.evaluate("math => math.namespaceURI")
    assert namespace == "http://www.w3.org/1998/Math/MathML"


def test_what_is_copied_of_formulas_is_their_source(page: Page) -> None:
    """The whole message, a selection over several, a selection inside one, and code."""
    answer = wait_over(ask(page, "formulas"))
    expect(answer.locator(".formula.is-set")).to_have_count(4)
    answer.get_by_role("button", name="Copy answer").click()
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert copied(page) == FORMULAS
    select_all_of(answer)
    page.keyboard.press("Control+c")
    text = copied(page)
    for source in ("$ax^2$", r"\(b_1\)", "\\[\nx = \\frac{a}{b}\n\\]\n", r"$$\sum_i i$$"):
        assert source in text
    assert "Wrap" not in text
    answer.locator(".formula.is-set").first.evaluate("formula => getSelection().selectAllChildren(formula)")
    page.keyboard.press("Control+c")
    assert copied(page) == "$ax^2$"
    answer.get_by_role("button", name="Copy code").click()
    expect(answer.locator(".code-copy")).to_have_text("Copied")
    assert copied(page) == r"\(x\) costs $1$"


def test_a_growing_formula_is_its_source_until_it_is_closed(page: Page) -> None:
    """No emphasis flashes up inside it."""
    answer = ask(page, "slow formula")
    expect(answer.locator(".prose")).to_contain_text(r"Start \(a_1 * b * c + d + d")
    expect(answer.locator(".prose em, .prose math")).to_have_count(0)
    wait_over(answer)
    expect(answer.locator(".formula.is-set")).to_have_count(1)
    expect(answer.locator(".prose")).to_contain_text("end.")


def test_footnotes_lead_there_and_back(page: Page) -> None:
    """Numbered in the order of their marks; a mark without a footnote stays text; two messages do not share ids."""
    wait_over(ask(page, "footnotes"))
    answer = wait_over(ask(page, "footnotes"))
    expect(answer.locator(".footnotes li")).to_have_count(2)
    expect(answer.locator(".footnotes li").first).to_contain_text("Ay it.")
    expect(answer.locator(".footnotes li").first).to_contain_text("More of it.")
    assert answer.locator(".note-mark").all_inner_texts() == ["1", "2", "1", "[^nobody]"]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))
    address = page.url
    answer.get_by_role("link", name="Footnote 1").nth(1).click()
    expect(answer.locator(".footnotes li").first).to_be_focused()
    answer.get_by_role("link", name="Back to mark 2 of footnote 1").click()
    expect(answer.get_by_role("link", name="Footnote 1").nth(1)).to_be_focused()
    assert page.url == address


def test_wrapping_is_one_choice_for_all_code(page: Page) -> None:
    """It holds for blocks that come later, and can be taken back."""
    first = wait_over(ask(page, "formulas"))
    first.get_by_role("button", name="Wrap long lines").click()
    second = wait_over(ask(page, "formulas"))
    for answer in (first, second):
        expect(answer.get_by_role("button", name="Wrap long lines")).to_have_attribute("aria-pressed", "true")
        assert answer.locator("pre").evaluate("pre => getComputedStyle(pre).whiteSpace") == "pre-wrap"
    second.get_by_role("button", name="Wrap long lines").click()
    expect(first.get_by_role("button", name="Wrap long lines")).to_have_attribute("aria-pressed", "false")
    assert first.locator("pre").evaluate("pre => getComputedStyle(pre).whiteSpace") == "pre"


def test_the_source_can_be_shown_in_place_of_the_answer(page: Page) -> None:
    """Exactly as it was written, and back."""
    answer = wait_over(ask(page, "formulas"))
    toggle = answer.get_by_role("button", name="Source text")
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    assert answer.locator(".source").evaluate("source => source.textContent") == FORMULAS
    expect(answer.locator("math, .code-block")).to_have_count(0)
    toggle.click()
    expect(answer.locator(".formula.is-set")).to_have_count(4)
    expect(answer.locator(".source")).to_have_count(0)


def test_the_source_can_be_watched_as_it_grows(page: Page) -> None:
    """Switched on in mid-answer it goes on growing, and stays on at the end."""
    answer = ask(page, "grow")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 3 has")
    answer.get_by_role("button", name="Source text").click()
    expect(answer.locator(".source")).to_contain_text(r"Paragraph 1 has \(x^2\) in it.")
    wait_over(answer)
    expect(answer.locator(".source")).to_contain_text("Paragraph 79 has")
    expect(answer.get_by_role("button", name="Source text")).to_have_attribute("aria-pressed", "true")


def test_a_selection_over_settled_and_growing_text_survives(page: Page) -> None:
    """From the first, settled paragraph into the one that grows; copying gives what was selected then."""
    answer = ask(page, "grow")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 4 has")
    selected = page.evaluate(
        """() => {
          const blocks = document.querySelectorAll(".prose p");
          const [first, last] = [blocks[0].firstChild, blocks[blocks.length - 1].firstChild];
          getSelection().setBaseAndExtent(first, 0, last, 4);
          window.blocksThen = blocks.length;
          return String(getSelection());
        }"""
    )
    wait_until(page, "document.querySelectorAll('.prose p').length > window.blocksThen + 5")
    assert page.evaluate("String(getSelection())") == selected
    page.keyboard.press("Control+c")
    assert copied(page).startswith(r"Paragraph 1 has \(x^2\) in it.")
    wait_over(answer)
    assert page.evaluate("String(getSelection())") == selected


def test_a_link_defined_late_touches_nothing_else(page: Page) -> None:
    """The end of such an answer makes the link; every other paragraph, and what is selected there, stays."""
    answer = ask(page, "defined late")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 4 has")
    page.evaluate(
        """() => {
          const second = document.querySelectorAll(".prose p")[1];
          second.marked = true;
          getSelection().selectAllChildren(second);
        }"""
    )
    wait_over(answer)
    expect(answer.get_by_role("link", name="a link")).to_have_attribute("href", "https://example.com/")
    assert page.evaluate("document.querySelectorAll('.prose p')[1].marked") is True
    assert page.evaluate("String(getSelection()).trim()") == "Paragraph 2 has some words."


@pytest.mark.parametrize(
    ("question", "entry", "words"), [("long list", "li", "Item"), ("long table", "tbody tr", "Row")]
)
def test_finished_entries_are_never_touched_again(page: Page, question: str, entry: str, words: str) -> None:
    """Of a growing list or table; what is selected there stays, and the end is as in one piece."""
    answer = ask(page, question)
    expect(answer.locator(entry).nth(4)).to_contain_text(f"{words} 5")
    page.evaluate(
        """(entry) => {
          const first = document.querySelector(`.prose ${entry}`);
          getSelection().selectAllChildren(first);
          window.touched = 0;
          const options = { subtree: true, childList: true, characterData: true, attributes: true };
          new MutationObserver((changes) => (window.touched += changes.length)).observe(first, options);
        }""",
        entry,
    )
    wait_over(answer)
    expect(answer.locator(entry)).to_have_count(119)
    assert page.evaluate("window.touched") == 0
    assert f"{words} 1" in page.evaluate("String(getSelection())")
    grown = answer.locator(".prose").inner_html()
    toggle = answer.get_by_role("button", name="Source text")
    toggle.click()
    expect(answer.locator(entry)).to_have_count(0)
    toggle.click()
    expect(answer.locator(entry)).to_have_count(119)
    assert answer.locator(".prose").inner_html() == grown


@pytest.mark.parametrize("scale", [1, 2])
def test_the_bar_of_a_root_is_apart_from_what_is_under_it(
    open_page: Callable[..., Page], rich_server: ServerProcess, scale: int
) -> None:
    """On the screen, where lines are rounded to pixels: a bar, a gap, a letter."""
    page = open_page(rich_server.url, device_scale_factor=scale, color_scheme="light")
    page.wait_for_selector(".status.ready")
    answer = wait_over(ask(page, "root"))
    wait_until(page, "document.fonts.check('16px \"STIX Two Math\"')")  # its letters are of another size
    letter, root = answer.locator("msqrt mi").bounding_box(), answer.locator("msqrt").bounding_box()
    assert letter is not None
    assert root is not None
    inside = {"x": letter["x"] + 1, "width": letter["width"] - 2, "y": root["y"] - 1, "height": root["height"]}
    assert ink_runs(page.screenshot(clip=inside)) == 2  # type: ignore[arg-type]
