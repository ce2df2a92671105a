"""`muse bench page`: is the page quick while a long answer arrives, and how fast does a long chat open?

In real Chromium, from the browser's own entries. While an answer of 30,000 tokens arrives at 250 tokens a second,
keys are pressed in the composer: *event timing* gives the time from each key to the next paint (in steps of 8 ms; what
took under 16 ms has no entry and counts as 16), *long tasks* all work of the main thread that took over 50 ms. The
baseline is the same typing into the same page before anything is asked. Once the answer is complete, the JavaScript
heap is measured after a forced garbage collection, beside that of the empty page and of the same chat after a reload. A
chat of 400 messages is opened several times; its time is counted from the start of the navigation to the frame in which
the last message has been painted, beside the same of an empty page: first in a profile that has never seen the page,
then by a reload in the same, which has the page's files. Playwright follows each request of the page, and that time is
in it. Budgets: design section 11.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from muse.bench.browser import chromium_path, collected_heap_mb, running_chromium
from muse.bench.client import Connection
from muse.bench.page_script import CHAT_ENDING, TOKENS_PER_S, long_chat, page_script
from muse.bench.server import BenchServer, bench_server
from muse.bench.table import percentile, table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TYPING_P75_MS: Final = 100.0
LONG_TASK_MS: Final = 50.0
OPENING_MS: Final = 300.0
HEAP_GROWTH: Final = 1.5
"""Heap after an answer has arrived, as a multiple of that after a reload."""
HEAP_ABOVE_EMPTY_MB: Final = 12.0
"""For 30,000 tokens."""
SHORTEST_ENTRY_MS: Final = 16.0
KEY_PAUSE_S: Final = 0.1
BASELINE_KEYS: Final = 40
ANSWER_PATIENCE_S: Final = 2.0
SESSION: Final = "bench-long-chat"

_OBSERVE: Final = """
window.bench = { longTasks: [], keys: {} };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.bench.longTasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => {
  for (const { interactionId, duration } of list.getEntries()) {
    if (interactionId) window.bench.keys[interactionId] = Math.max(window.bench.keys[interactionId] ?? 0, duration);
  }
}).observe({ type: "event", durationThreshold: 16, buffered: true });
"""

# When the page shows the end of what it is to show: noted behind the frame in which that is so.
_NOTE_OPENED: Final = """
window.openedAt = null;
const look = () => {
  const end = [...document.querySelectorAll(".turn")].at(-1)?.querySelector(".prose")?.textContent ?? "";
  if (end.includes("ENDING") && document.querySelector(".composer")) {
    requestAnimationFrame(() => setTimeout(() => (window.openedAt = performance.now())));
  } else requestAnimationFrame(look);
};
look();
"""

_HOLD_CHAT: Final = f"""
sessionStorage.setItem("muse.session", "{SESSION}");
sessionStorage.setItem("muse.session-started", "yes");
"""


def _taken(page: Page, keys: int) -> tuple[list[float], list[float]]:
    """Times of the keys pressed, and of the long tasks, since the last call; ms."""
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 100)))")
    seen: dict[str, Any] = page.evaluate(
        "(() => { const seen = window.bench; window.bench = { longTasks: [], keys: {} }; return seen; })()"
    )
    entries = [float(duration) for duration in seen["keys"].values()]
    # Each press is one interaction; those without an entry were quicker than the shortest that has one.
    quick = [SHORTEST_ENTRY_MS] * max(0, keys - len(entries))
    return entries + quick, [float(duration) for duration in seen["longTasks"]]


def _typing(page: Page, keys: Iterator[str], until: float | None, count: int | None) -> int:
    pressed = 0
    while (count is None or pressed < count) and (until is None or time.monotonic() < until):
        page.keyboard.press(next(keys))
        pressed += 1
        time.sleep(KEY_PAUSE_S)
        if count is None and page.locator(".from-model[data-phase=done]").count() > 0:
            break
    return pressed


def _keys() -> Iterator[str]:
    while True:
        yield from ("w", "o", "r", "d", "s", "Space")


def _measure_answer(browser: Browser, url: str, tokens: int) -> dict[str, Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(_OBSERVE)
    page.goto(url)
    page.wait_for_selector(".status.ready")
    composer = page.get_by_label("Message", exact=True)
    composer.focus()
    keys = _keys()
    _taken(page, 0)
    pressed = _typing(page, keys, None, BASELINE_KEYS)
    idle, _ = _taken(page, pressed)
    heap = {"empty page": collected_heap_mb(page)}
    _taken(page, 0)  # the collection was a long task
    composer.fill("Tell me everything.")
    composer.press("Enter")
    page.wait_for_selector(".from-model .prose")
    _taken(page, 0)
    start = time.monotonic()
    pressed = _typing(page, keys, start + ANSWER_PATIENCE_S * tokens / TOKENS_PER_S, None)
    busy, long_tasks = _taken(page, pressed)
    seconds = time.monotonic() - start
    is_whole = page.locator(".from-model[data-phase=done]").count() > 0
    if not is_whole:
        raise RuntimeError(f"the page had not shown the whole answer {seconds:.0f} s after its first word")
    height = page.evaluate("document.querySelector('.transcript').scrollHeight")
    heap["with the answer"] = collected_heap_mb(page)
    page.reload()
    page.wait_for_selector(".from-model[data-phase=done] .blocks > *")
    heap["with the answer, after a reload"] = collected_heap_mb(page)
    page.close()
    return {"idle": idle, "busy": busy, "long": long_tasks, "rate": tokens / seconds, "height": height, "heap": heap}


def _measure_opening(browser: Browser, url: str, turns: int) -> dict[str, float]:
    """Milliseconds until the page shows its end: the `first` time in a fresh profile, and by a `reload`."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        if turns:
            page.add_init_script(_HOLD_CHAT)
        page.add_init_script(_NOTE_OPENED.replace("ENDING", CHAT_ENDING if turns else ""))
        page.goto(url)
        first = _opened(page)
        page.reload()
        return {"first": first, "reload": _opened(page)}
    finally:
        context.close()


def _opened(page: Page) -> float:
    page.wait_for_selector(".status.ready")
    opened: float = page.evaluate(
        "new Promise((resolve) => { const look = () => window.openedAt === null ? setTimeout(look, 20)"
        " : resolve(window.openedAt); look(); })"
    )
    return opened


def _in_browser(port: int, tokens: int, messages: int, rounds: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/"
    path = chromium_path()
    if path is None:
        raise RuntimeError("no Chromium found; install one or set MUSE_TEST_CHROMIUM to its path")
    with running_chromium(path) as browser:
        _measure_opening(browser, url, 0)  # warms the browser's caches of code; discarded
        empty: list[dict[str, float]] = []
        full: list[dict[str, float]] = []
        for _ in range(rounds):
            empty.append(_measure_opening(browser, url, 0))
            full.append(_measure_opening(browser, url, messages))
        return {"answer": _measure_answer(browser, url, tokens), "empty": empty, "full": full}


async def _put_chat(server: BenchServer, messages: int) -> None:
    async with Connection(port=server.port) as connection:
        status, body = await connection.request("PUT", f"/v1/sessions/{SESSION}", {"messages": long_chat(messages)})
    if status != 200:
        raise RuntimeError(f"the chat was not taken: {status} {body[:300]!r}")


async def measure_page(*, tokens: int, messages: int, rounds: int) -> tuple[str, bool]:
    """The tables, and whether the budgets hold. Raises RuntimeError without a browser."""
    with tempfile.TemporaryDirectory(prefix="muse-bench-") as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(page_script(tokens)))
        async with bench_server(["--engine", "scripted", "--model", str(script)]) as server:
            await _put_chat(server, messages)
            found = await trio.to_thread.run_sync(_in_browser, server.port, tokens, messages, rounds)
    return _report(found, tokens, messages)


def _report(found: dict[str, Any], tokens: int, messages: int) -> tuple[str, bool]:
    answer = found["answer"]
    typing = [
        [
            name,
            *(f"{percentile(times, share):.0f}" for share in (0.5, 0.75, 0.99)),
            f"{max(times):.0f}",
            str(len(times)),
        ]
        for name, times in (("nothing arrives", answer["idle"]), ("the answer arrives", answer["busy"]))
    ]
    opened = {
        f"{what}, {how}": [one[how] for one in found[name]]
        for how in ("first", "reload")
        for name, what in (("empty", "empty page"), ("full", f"{messages} messages"))
    }
    opening = [
        [name, f"{statistics.median(times):.0f}", f"{min(times):.0f}", f"{max(times):.0f}"]
        for name, times in opened.items()
    ]
    p75 = percentile(answer["busy"], 0.75)
    late, longest = answer["long"], max(answer["long"], default=0.0)
    empty, grown, reloaded = answer["heap"].values()
    growth, above = grown / reloaded, grown - empty
    to_open = {how: statistics.median([one[how] for one in found["full"]]) for how in ("first", "reload")}
    verdicts = [
        (f"typing p75 {p75:.0f} ms, budget {TYPING_P75_MS:.0f}", p75 <= TYPING_P75_MS),
        (f"{len(late)} tasks over {LONG_TASK_MS:.0f} ms while it arrived (longest {longest:.0f}), budget 0", not late),
        (f"heap {growth:.2f} times that after a reload, budget {HEAP_GROWTH}", growth <= HEAP_GROWTH),
        (f"heap {above:.1f} MB above the empty page, budget {HEAP_ABOVE_EMPTY_MB:.0f}", above <= HEAP_ABOVE_EMPTY_MB),
        *(
            (f"{messages} messages open ({how}) in {time_ms:.0f} ms, budget {OPENING_MS:.0f}", time_ms <= OPENING_MS)
            for how, time_ms in to_open.items()
        ),
    ]
    text = table(["key to paint, ms, while", "p50", "p75", "p99", "max", "keys"], typing)
    text += f"\nanswer of {tokens} tokens, shown at {answer['rate']:.0f} tokens/s, {answer['height']} px high\n\n"
    text += table(
        ["heap after a forced collection", "MB"], [[name, f"{mb:.1f}"] for name, mb in answer["heap"].items()]
    )
    text += "\n\n"
    text += table(["to the last message painted, ms", "median", "min", "max"], opening)
    text += "".join(f"\n{words}: {'holds' if fine else 'BROKEN'}" for words, fine in verdicts)
    return text, all(fine for _, fine in verdicts)
