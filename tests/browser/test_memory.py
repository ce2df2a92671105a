"""Memory of the page: what came piece by piece holds about as much as what came in one piece.

Engines cut texts without copying them, so a piece that is kept of a growing text keeps one version of it each.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from muse.bench.browser import collected_heap_mb
from muse.bench.page import HEAP_GROWTH

pytestmark = pytest.mark.browser

LENGTH = 80_000
NOISE_MB = 1.0
"""What compiled code that comes and goes adds; versions of these texts that are kept would be 6 MB."""
SHAPES = {
    "paragraphs": "Paragraph {n} has *some* words, and then it comes to its end.\n\n",
    "loose list": "{n}. item with **bold** words and some more of them\n\n",
    "table": "| row {n} of this table | **bold** words |\n",
    "quote": "> line {n} with *slant*, and some more words\n>\n",
    "code": "    value = compute({n})  # what comes of it\n",
    "footnotes": "Words with a mark[^{n}] and more.\n\n[^{n}]: Note {n} says something.\n\n",
    "links": "See [the place][r{n}], which has a name.\n\n[r{n}]: https://example.com/{n}\n\n",
}
HEADS = {"table": "| a | b |\n|---|---|\n", "code": "```python\n"}
# Shows the text as an answer does, in so many updates, and keeps what that leaves.
SHOW = """async ({text, view, updates}) => {
  const views = {...await import("/markdown/renderer.js"), ...await import("/markdown/source_view.js")};
  const element = document.createElement("div");
  const shown = new views[view](element);
  const size = Math.ceil(text.length / updates);
  let soFar = "";
  for (let at = 0; at < text.length; at += size) {
    soFar += text.slice(at, at + size);
    shown.update(soFar);
  }
  shown.finish(soFar);
  window.kept = {shown, element, soFar};
}"""
FORGET = "window.kept = null"


def heap_of(page: Page, text: str, view: str, updates: int) -> float:
    """What a text holds that was shown in so many updates; MB."""
    empty = collected_heap_mb(page)
    page.evaluate(SHOW, {"text": text, "view": view, "updates": updates})
    held = collected_heap_mb(page) - empty
    page.evaluate(FORGET)
    return held


@pytest.mark.parametrize("view", ["MarkdownView", "SourceView"])
def test_a_text_that_grew_holds_what_it_would_in_one_piece(chromium_page: Page, view: str) -> None:
    """In each kind of block; the first round is left out, for it loads and compiles the code."""
    heap_of(chromium_page, "".join(SHAPES.values()), view, 20)
    for name, entry in SHAPES.items():
        entries = (entry.format(n=number) for number in range(LENGTH // len(entry)))
        text = HEADS.get(name, "") + "".join(entries)
        # Where only Blink holds it, the text in one piece is not in this heap.
        whole = max(0.0, heap_of(chromium_page, text, view, 1)) + len(text) / 1e6
        assert heap_of(chromium_page, text, view, 150) <= HEAP_GROWTH * whole + NOISE_MB, name
