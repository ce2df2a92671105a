"""The page over this engine, in a real browser: it says what runs, shows a picture, and the model sees it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import chromium, open_page, watch
from tests.browser.test_pictures import page, test_a_picture_is_seen_shown_and_sent_with_every_turn

__all__ = ["chromium", "open_page", "page", "test_a_picture_is_seen_shown_and_sent_with_every_turn", "watch"]

pytestmark = pytest.mark.browser


def test_it_says_what_runs(page: Page) -> None:
    """Engine and backend."""
    page.get_by_role("button", name="Settings").click()
    expect(page.locator("body")).to_contain_text("executorch")
    expect(page.locator("body")).to_contain_text("XNNPACK")
