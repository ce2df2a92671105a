"""axe-core over the page: every rule it has for WCAG 2.2 A and AA and for good practice.

It runs in a JavaScript world of its own: it sees the page's document, while the page's scripts, its content security
policy and its globals see nothing of it.
"""

from __future__ import annotations

import json
import os
from typing import Any

import attrs
from playwright.sync_api import Page

from bootstrap.layout import layout_from
from bootstrap.stages.npm_tools import NpmTools

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPTIONS: dict[str, Any] = {
    "runOnly": TAGS,
    "preload": False,  # style sheets are not fetched once more
    "resultTypes": ["violations", "incomplete"],
    # The fades over the conversation's edges would make all of its text "cannot be determined".
    "checks": {"color-contrast": {"options": {"ignorePseudo": True}}},
}
SETTLED = """(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  const ends = ({effect}) => effect.getComputedTiming().iterations !== Infinity;
  const ending = () => document.getAnimations().filter(ends);
  await frame();
  await frame();
  // What is inherited follows one step after what it is inherited from.
  for (let steps = 0; steps < 20 && ending().length > 0; steps++) {
    await Promise.allSettled(ending().map(({finished}) => finished));
    await frame();
  }
})()"""
"""Another size or theme is there: laid out, and nothing fades any more."""
RUN = """(async () => {
  const KNOWN = ["nonBmp", "elmPartiallyObscured", "bgOverlap"];
  const part = %s;
  const {violations, incomplete} = await axe.run(part === null ? document : {include: [part]}, %s);
  // It judges no single signs, nothing that is half scrolled away, and no ground that runs from one colour to another.
  const isKnown = ({target, any}) => any.every(({data}) => KNOWN.includes(data?.messageKey))
    || document.querySelector(target[0]).closest("[data-reuse=part]") !== null;
  const uncertain = incomplete.filter(({id}) => id === "color-contrast")
    .map(({id, nodes}) => ({id, nodes: nodes.filter((node) => !isKnown(node))}));
  return [...violations, ...uncertain].flatMap(({id, nodes}) => nodes.map(({html, any, all, none}) =>
    `${id}: ${html.slice(0, 160)} ${[...any, ...all, ...none].map(({message}) => message).join(" ")}`));
})()"""


def axe_script() -> str:
    """axe-core as the set-up of the tests has installed it."""
    return NpmTools(layout_from(os.environ)).axe.read_text("utf-8")


@attrs.define(slots=False)
class Axe:
    """Looks at the states of one page, which must not be reloaded meanwhile. `found` are all faults so far."""

    page: Page
    script: str
    found: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self._session = self.page.context.new_cdp_session(self.page)
        frame = self._session.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
        world = self._session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})
        self._world = world["executionContextId"]
        self._evaluate(self.script)

    def look(self, state: str, part: str | None = None) -> None:
        """Check the page as it is now in both themes and sizes. part: selector of what is new in this state."""
        self._look(f"{state}, wide", part)
        self.page.set_viewport_size({"width": 390, "height": 844})
        self._session.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self._look(f"{state}, phone", part)
        self._session.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
        self.page.set_viewport_size({"width": 1280, "height": 800})

    def _look(self, state: str, part: str | None) -> None:
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.found += [f"{state}, {scheme}: {fault}" for fault in self.faults(part)]

    def faults(self, part: str | None = None) -> list[str]:
        """What is wrong now, in the page or a part of it."""
        self._evaluate(SETTLED)
        return self._evaluate(RUN % (json.dumps(part), json.dumps(OPTIONS)))

    def _evaluate(self, expression: str) -> Any:
        outcome = self._session.send(
            "Runtime.evaluate",
            {"contextId": self._world, "expression": expression, "awaitPromise": True, "returnByValue": True},
        )
        assert "exceptionDetails" not in outcome, outcome["exceptionDetails"]
        return outcome["result"].get("value")
