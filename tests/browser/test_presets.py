"""Settings under names: what is saved comes back, what is deleted can be undone, nothing else is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripts import ALWAYS_SENT, ask, record_requests, wait_over

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def open_settings(page: Page) -> None:
    """Open the sheet."""
    page.get_by_role("button", name="Settings", exact=True).click()


def save(page: Page, name: str) -> None:
    """Save the settings as a preset."""
    page.get_by_role("button", name="Save these settings").click()
    page.get_by_label("Name of the preset").fill(name)
    page.get_by_role("button", name="Save", exact=True).click()


def stored(page: Page) -> list[dict[str, Any]]:
    """The presets in the browser's storage."""
    return json.loads(page.evaluate("localStorage.getItem('muse.presets') ?? '[]'"))


def test_a_preset_brings_its_settings_back(chromium_page: Page) -> None:
    """Also after a reload; the row says which one is in use."""
    bodies = record_requests(chromium_page)
    open_settings(chromium_page)
    chromium_page.get_by_label("Temperature", exact=True).fill("0.2")
    chromium_page.get_by_role("button", name="Add a stop string").click()
    chromium_page.get_by_label("Stop string 1", exact=True).fill("END")
    save(chromium_page, "  Careful ")
    expect(chromium_page.locator(".row-note")).to_have_text("in use")
    chromium_page.get_by_role("button", name="Reset to the model’s defaults").click()
    expect(chromium_page.locator(".row-note")).to_have_count(0)
    chromium_page.reload()
    open_settings(chromium_page)
    chromium_page.get_by_role("button", name="Careful", exact=True).click()
    expect(chromium_page.get_by_label("Temperature", exact=True)).to_have_value("0.2")
    wait_over(ask(chromium_page, "short"))
    sent = {key: value for key, value in bodies[0].items() if key not in ALWAYS_SENT}
    assert sent == {"temperature": 0.2, "stop": ["END"]}


def test_the_system_message_is_kept_only_when_asked_for(chromium_page: Page) -> None:
    """The box is off at first; a preset without it leaves the system message alone."""
    open_settings(chromium_page)
    system = chromium_page.get_by_label("System message", exact=True)
    system.fill("secret words")
    save(chromium_page, "Without")
    expect(chromium_page.get_by_role("button", name="Without", exact=False).first).to_be_visible()
    assert "secret" not in json.dumps(stored(chromium_page))
    chromium_page.get_by_role("button", name="Save these settings").click()
    chromium_page.get_by_label("Name of the preset").fill("With")
    chromium_page.get_by_label("With the system message").check()
    chromium_page.get_by_role("button", name="Save", exact=True).click()
    rows = chromium_page.locator(".row-main")
    expect(rows).to_have_text(["Withwith system message, in use", "Withoutin use"])
    system.fill("other words")
    rows.nth(1).click()
    expect(system).to_have_value("other words")
    rows.nth(0).click()
    expect(system).to_have_value("secret words")


def test_presets_are_renamed_deleted_and_brought_back(chromium_page: Page) -> None:
    """By keyboard: each step leaves the focus where one goes on."""
    open_settings(chromium_page)
    save(chromium_page, "One")
    save(chromium_page, "Two")
    chromium_page.get_by_role("button", name="Rename One").press("Enter")
    field = chromium_page.get_by_label("New name")
    expect(field).to_be_focused()
    field.fill("Two")
    field.press("Enter")
    expect(chromium_page.locator("#name-fault")).to_have_text("There is one of that name already.")
    field.fill("Three")
    field.press("Enter")
    expect(chromium_page.get_by_role("button", name="Save these settings")).to_be_focused()
    assert [preset["name"] for preset in stored(chromium_page)] == ["Three", "Two"]
    chromium_page.get_by_role("button", name="Delete Two").press("Enter")
    undo = chromium_page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    assert [preset["name"] for preset in stored(chromium_page)] == ["Three"]
    undo.press("Enter")
    expect(chromium_page.get_by_role("button", name="Delete Two")).to_be_visible()
    assert [preset["name"] for preset in stored(chromium_page)] == ["Three", "Two"]


def test_escape_closes_the_name_and_not_the_sheet(chromium_page: Page) -> None:
    """Nothing is saved."""
    open_settings(chromium_page)
    chromium_page.get_by_role("button", name="Save these settings").click()
    chromium_page.get_by_label("Name of the preset").press("Escape")
    expect(chromium_page.get_by_label("Name of the preset")).to_have_count(0)
    expect(chromium_page.get_by_role("heading", name="Settings")).to_be_visible()
    assert stored(chromium_page) == []


def test_a_preset_that_is_not_kept_is_said(chromium_page: Page) -> None:
    """A browser whose storage is full: the form stays open with the name in it."""
    chromium_page.evaluate("localStorage.setItem('filler', 'x'.repeat(5 * 1024 * 1024 - 200))")
    open_settings(chromium_page)
    save(chromium_page, "Lost?")
    expect(chromium_page.get_by_role("alert")).to_contain_text("storage is full or switched off")
    expect(chromium_page.get_by_label("Name of the preset")).to_have_value("Lost?")
    assert stored(chromium_page) == []


def test_broken_storage_is_no_preset(chromium_page: Page) -> None:
    """What another program left under the key is passed over, field by field."""
    junk: list[Any] = [None, 7, {"name": 3}, {"name": "Bent", "settings": {"temperature": 99, "stop": "x", "seed": 5}}]
    chromium_page.evaluate("text => localStorage.setItem('muse.presets', text)", json.dumps(junk))
    chromium_page.reload()
    open_settings(chromium_page)
    expect(chromium_page.locator(".row-main")).to_have_text("Bent")
    chromium_page.locator(".row-main").click()
    expect(chromium_page.get_by_label("Seed", exact=True)).to_have_value("5")
    expect(chromium_page.get_by_label("Temperature", exact=True)).to_have_value("")
