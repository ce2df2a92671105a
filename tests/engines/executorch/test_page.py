"""The page over this engine, in a real browser: what runs, thoughts, a picture that the model sees, the prompt."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import chromium, open_page, watch
from tests.browser.test_pictures import page, test_a_picture_is_seen_shown_and_sent_with_every_turn
from tests.browser.test_seen_prompt import test_a_real_models_thoughts_are_shown
from tests.browser.test_thinking import test_a_real_model_thinks_and_answers
from tests.server_process import ServerProcess

__all__ = [
    "chromium",
    "open_page",
    "page",
    "test_a_picture_is_seen_shown_and_sent_with_every_turn",
    "test_a_real_model_thinks_and_answers",
    "test_a_real_models_thoughts_are_shown",
    "watch",
]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def nano_server(seeing_server: ServerProcess) -> ServerProcess:
    """One for all of them."""
    return seeing_server


def test_the_settings_tell_what_runs(page: Page) -> None:
    """Engine, backend, files, and the draft inside the artifact."""
    page.get_by_role("button", name="Settings", exact=True).click()
    facts = page.get_by_role("region", name="The model")
    for term, words in (
        ("Engine", "executorch executorch 1."),
        ("Files", "model.pte"),
        ("Runs on", "XNNPACK (CPU)"),
        ("Context", "4,096 tokens"),
        ("Draft", "3 tokens"),
    ):
        expect(facts.locator("div", has=page.get_by_text(term, exact=True)).locator("dd")).to_contain_text(words)
