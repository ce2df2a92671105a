"""Hundreds of hostile answers through the page's own renderer, under the server's own security policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.hostile import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

# Renders texts beside each other, whole or in pieces, waits until nothing changes any more, and tells what is there.
RENDER = """
async ({ texts, pieces }) => {
  const { MarkdownView } = await import("/markdown/renderer.js");
  const stage = document.createElement("div");
  document.querySelector(".transcript .column").append(stage);
  let changed = false;
  const observer = new MutationObserver(() => (changed = true));
  observer.observe(stage, { subtree: true, childList: true, characterData: true });
  const shown = texts.map((text) => {
    const element = document.createElement("div");
    element.className = "prose";
    stage.append(element);
    const view = new MarkdownView(element);
    for (let at = 1; at < pieces; at++) view.update(text.slice(0, Math.floor((text.length * at) / pieces)));
    view.finish(text);
    return element;
  });
  for (let quiet = 0; quiet < 3; quiet = changed ? 0 : quiet + 1) {
    changed = false;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  }
  observer.disconnect();
  const told = shown.map((element) => {
    const elements = [...element.querySelectorAll("*")];
    return {
      count: elements.length,
      textLength: element.textContent.length,
      made: [...new Set(elements.flatMap((one) => [one.localName, ...attributesOf(one)]))],
      hrefs: [...element.querySelectorAll("a")].map((link) => link.getAttribute("href")),
      badLinks: element.querySelectorAll("a:not([href^='#'], [rel~=noreferrer])").length,
      styles: [...new Set(elements.map((one) => one.getAttribute("style")).filter((style) => style !== null))],
    };
  });
  stage.remove();
  return {
    told,
    hacked: window.hacked ?? null,
    polluted: Object.keys(Object.prototype).length + Object.keys(Array.prototype).length,
    reports: window.policyReports,
  };

  function attributesOf(one) {
    return one.getAttributeNames().map((name) => `@${name}`);
  }
}
"""
BATCH = 12
"""Texts rendered at a time: each time costs some frames of waiting."""

HTML = (
    "a blockquote br button code del div em h3 h4 h5 h6 hr input li ol p pre section span strong sup table tbody td th "
    "thead tr ul"
)
MATHML = (
    "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle "
    "msub msubsup msup mtable mtd mtext mtr munder munderover none"
)
ATTRIBUTES = (
    "accent accentunder aria-label aria-pressed checked class columnalign depth dir disabled display displaystyle "
    "fence form height href id linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize "
    "movablelimits notation rel role rspace scope scriptlevel separator start stretchy style symmetric tabindex "
    "target type voffset width"
)
ALLOWED = {*HTML.split(), *MATHML.split(), *(f"@{name}" for name in ATTRIBUTES.split())}
SCHEMES = ("http://", "https://", "mailto:", "#note-")
STYLE_WORDS = ("url", "position", "fixed", "import", "expression", "@", "var(")


def faults(text: str, seen: dict[str, Any]) -> list[str]:
    """What is wrong with the rendering of `text`."""
    found = [f"made {name}" for name in seen["made"] if name not in ALLOWED]
    found += [
        f"link to {href}" for href in seen["hrefs"] if not href.startswith(("http://", "https://", "mailto:", "#note-"))
    ]
    found += [f"style {style}" for style in seen["styles"] if any(word in style for word in STYLE_WORDS)]
    found += ["a link that tells where it was followed"] * seen["badLinks"]
    # Bounded by the text, whatever macros, tables or marks it holds.
    if seen["count"] > 8 * len(text) + 100:
        found.append(f"{seen['count']} elements of {len(text)} characters")
    if seen["textLength"] > 12 * len(text) + 200:
        found.append(f"{seen['textLength']} characters shown of {len(text)}")
    return found


def batched(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The texts, `size` at a time."""
    return (texts[at : at + size] for at in range(0, len(texts), size))


def test_there_are_enough_of_them() -> None:
    """And no two are the same."""
    assert len(HOSTILE) == len(set(HOSTILE)) >= 200


@pytest.mark.parametrize("pieces", [1, 9])
def test_hostile_markdown_is_harmless(chromium_page: Page, pieces: int) -> None:
    """Only listed elements, attributes and addresses; no script, dialog, request, report or error (the fixture sees
    these); no more elements and text than the source is worth. Formulas and colours are there before the check."""
    wrong: dict[str, list[str]] = {}
    for texts in batched(("$x$ and\n\n```js\nlet a\n```", *HOSTILE), BATCH):
        try:
            seen = chromium_page.evaluate(RENDER, {"texts": texts, "pieces": pieces})
        except Exception as fault:
            raise AssertionError(f"while rendering one of {texts!r}") from fault
        assert (seen["hacked"], seen["polluted"], seen["reports"]) == (None, 0, []), f"by one of {texts!r}"
        for text, told in zip(texts, seen["told"], strict=True):
            if found := faults(text, told):
                wrong[text[:100]] = found[:5]
    assert wrong == {}, json.dumps(wrong, indent=1)
    assert chromium_page.title() == "Muse Glimmer Playground"
    assert chromium_page.locator(".composer").is_visible()
