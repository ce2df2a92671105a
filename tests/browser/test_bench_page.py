"""`muse bench page` on a small scale: it measures what it says, in the real browser."""

from __future__ import annotations

import re

import pytest
import trio
from playwright.sync_api import Browser

from muse.bench.page import measure_page
from muse.bench.page_script import page_script

pytestmark = pytest.mark.thorough


def test_the_script_has_as_many_tokens_as_asked_for() -> None:
    [answer] = page_script(1234)["answers"]
    assert len(answer["tokens"]) == 1234
    assert answer["token_ms"] == 4


def test_a_small_measurement_counts_keys_tokens_and_messages(chromium: Browser) -> None:
    del chromium  # says what is missing where there is no browser

    async def measure() -> tuple[str, bool]:
        return await measure_page(tokens=300, messages=20, rounds=1)

    text, fine = trio.run(measure)
    lines = text.splitlines()
    keys = [int(line.split()[-1]) for line in lines if re.match(r"(nothing|the answer) arrives ", line)]
    assert keys[0] == 40
    assert keys[1] > 0
    assert any(line.startswith("answer of 300 tokens, shown at ") for line in lines)
    heaps = [
        float(line.split()[-1]) for line in lines if re.match(r"(empty page|with the answer(, .*)?) +\d+\.\d$", line)
    ]
    assert len(heaps) == 3
    assert min(heaps) > 0
    opened = [
        line.rsplit(maxsplit=3)[0] for line in lines if re.match(r"(empty page|20 messages), .* \d+ +\d+ +\d+$", line)
    ]
    assert opened == ["empty page, first", "20 messages, first", "empty page, reload", "20 messages, reload"]
    verdicts = [line.rsplit(": ", 1)[1] for line in lines if line.endswith((": holds", ": BROKEN"))]
    assert len(verdicts) == 6
    assert fine == (verdicts == ["holds"] * 6)
