"""Hands that have nothing but a keyboard: they find everything by Tab and the arrows, and notice when the focus is lost
or cannot be seen."""

from __future__ import annotations

import attrs
from playwright.sync_api import Locator, Page, expect

MOST_STOPS = 80
"""More than any state of the walks has between two places."""
SCROLL_FRAMES = 60
"""More than a scroll to the focus takes."""
WHAT_IS_WRONG = """() => {
  const element = document.activeElement;
  const said = (words) => `${words}: ${element.outerHTML.slice(0, 160)}`;
  if (element === document.body) return said("nothing has the focus");
  // Titles take the focus so that reading begins there: nothing can be done with them.
  if (element.matches("h2")) return null;
  // What shows the focus for those that are not seen themselves, or have no frame.
  const frame = element.matches(".segments input") ? element.nextSibling
    : element.matches(".composer textarea") ? element.closest(".composer") : element;
  const {outlineStyle, outlineWidth, boxShadow, backgroundColor} = getComputedStyle(frame);
  const hasOutline = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  const hasRing = element.matches("textarea") && boxShadow.includes("0px 0px 0px 3px");
  const hasGround = element.matches(".footnotes li") && backgroundColor !== "rgba(0, 0, 0, 0)";
  if (!hasOutline && !hasRing && !hasGround) return said("the focus is not shown");
  if (!frame.checkVisibility({opacityProperty: true, visibilityProperty: true})) return said("it is not seen");
  const {left, top, right, bottom} = frame.getBoundingClientRect();
  const within = (from, to, share) => Math.max(from, 0) + (to - Math.max(from, 0)) * share;
  const isSeen = [0.05, 0.5, 0.95].some((share) => {
    const y = within(top, Math.min(bottom, innerHeight), 0.5);
    const found = document.elementFromPoint(within(left, Math.min(right, innerWidth), share), y);
    return found !== null && (found === element || frame.contains(found) || found.contains(frame));
  });
  const middle = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
  const place = [left, top, right, bottom].map(Math.round).join(", ");
  return isSeen ? null : said(`it is covered by ${middle?.className ?? "the edge"} at ${place}`);
}"""
STOP = f"(target) => [target === document.activeElement, ({WHAT_IS_WRONG})()]"
NEXT_FRAME = "() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"


@attrs.define(slots=False)
class Hands:
    """Hands on the keyboard of one page."""

    page: Page

    def press(self, *keys: str) -> None:
        """Press keys one after the other. Afterwards something has the focus, and it can be seen."""
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate(NEXT_FRAME)  # some things take the focus with the next frame
        self.look()

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.page.keyboard.type(text)

    def look(self) -> None:
        """The focus is somewhere, and can be seen."""
        wrong = self.page.evaluate(WHAT_IS_WRONG)
        assert wrong is None, wrong

    def go(self, target: Locator, key: str = "Tab") -> None:
        """Press the key until the target has the focus, which can be seen at each stop."""
        for _ in range(MOST_STOPS):
            self.page.keyboard.press(key)
            is_there, wrong = target.evaluate(STOP)
            for _ in range(SCROLL_FRAMES):  # what is far away is scrolled to, and laid out on the way
                if wrong is None or not wrong.startswith("it is covered"):
                    break
                self.page.evaluate(NEXT_FRAME)
                is_there, wrong = target.evaluate(STOP)
            assert wrong is None or wrong.startswith("nothing"), wrong  # between the end of the page and its beginning
            if is_there:
                return
        raise AssertionError(f"{key} does not lead to {target}")

    def back(self, target: Locator) -> None:
        """Go there with Shift and Tab."""
        self.go(target, "Shift+Tab")

    def use(self, target: Locator, key: str = "Enter") -> None:
        """Go there with Tab and press a key."""
        self.go(target)
        self.press(key)

    def use_before(self, target: Locator, key: str = "Enter") -> None:
        """Go there with Shift and Tab and press a key."""
        self.back(target)
        self.press(key)

    def is_on(self, target: Locator) -> None:
        """The target has the focus, or gets it, and it can be seen."""
        expect(target).to_be_focused()
        self.look()
