"""Hundreds of hostile answers through the page's own renderer, under the server's own security policy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.hostile import HOSTILE

pytestmark = pytest.mark.browser

# Renders a text whole and in pieces, waits until nothing changes any more, and tells what there is then.
RENDER = """
async ({ text, pieces }) => {
  const { MarkdownView } = await import("/markdown/renderer.js");
  const { element, frame } = window.stage ??= makeStage();
  element.replaceChildren();
  const view = new MarkdownView(element);
  for (let at = 1; at < pieces; at++) view.update(text.slice(0, Math.floor((text.length * at) / pieces)));
  view.finish(text);
  let frames = 0;
  for (let quiet = 0; quiet < 3; frames++) quiet = (await frame()) ? 0 : quiet + 1;
  const elements = [...element.querySelectorAll("*")];
  return {
    frames,
    count: elements.length,
    textLength: element.textContent.length,
    made: [...new Set(elements.flatMap((one) => [one.localName, ...attributesOf(one)]))],
    hrefs: [...element.querySelectorAll("a")].map((link) => link.getAttribute("href")),
    badLinks: element.querySelectorAll("a:not([href^='#'], [rel~=noreferrer])").length,
    styles: [...new Set(elements.map((one) => one.getAttribute("style")).filter((style) => style !== null))],
    hacked: window.hacked ?? null,
    polluted: Object.keys(Object.prototype).length + Object.keys(Array.prototype).length,
    title: document.title,
    reports: window.policyReports,
  };

  function attributesOf(one) {
    return one.getAttributeNames().map((name) => `@${name}`);
  }

  function makeStage() {
    const element = document.createElement("div");
    element.className = "prose";
    document.querySelector(".transcript .column").append(element);
    let changed = false;
    const observer = new MutationObserver(() => (changed = true));
    observer.observe(element, { subtree: true, childList: true, characterData: true });
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(() => {
      resolve(changed);
      changed = false;
    })));
    return { element, frame };
  }
}
"""

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
    if seen["hacked"] is not None or seen["polluted"] != 0:
        found.append("a script ran")
    return found + [f"policy: {report}" for report in seen["reports"]]


def test_there_are_enough_of_them() -> None:
    """And no two are the same."""
    assert len(HOSTILE) == len(set(HOSTILE)) >= 200


@pytest.mark.parametrize("pieces", [1, 9])
def test_hostile_markdown_is_harmless(chromium_page: Page, pieces: int) -> None:
    """Only listed elements, attributes and addresses; no script, dialog, request, report or error (the fixture sees
    these); no more elements and text than the source is worth. Formulas and colours are there before the check."""
    wrong: dict[str, list[str]] = {}
    for text in ("$x$ and\n\n```js\nlet a\n```", *HOSTILE):
        try:
            seen = chromium_page.evaluate(RENDER, {"text": text, "pieces": pieces})
        except Exception as fault:
            raise AssertionError(f"while rendering {text[:100]!r} ({len(text)} characters)") from fault
        if found := faults(text, seen):
            wrong[text[:100]] = found[:5]
    assert wrong == {}, json.dumps(wrong, indent=1)
    assert chromium_page.title() == "Muse Glimmer Playground"
    assert chromium_page.locator(".composer").is_visible()
