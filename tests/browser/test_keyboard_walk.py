"""The whole page with nothing but a keyboard: all that can be done is reached and done, and the focus then is where one
goes on. `Hands` looks at each stop whether the focus can be seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import attached, composer
from tests.browser.keyboard import Hands
from tests.browser.scripts import wait_over, wait_until
from tests.browser.test_axe import EVERY_KIND
from tests.browser.test_composer import SAVE, queued
from tests.browser.thinking_script import head_of, text_of
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


@pytest.fixture
def page(open_page: Callable[..., Page], thinking_server: ServerProcess) -> Page:
    """A page that may use the clipboard; the focus is where it is after the load."""
    page = open_page(thinking_server.url, permissions=["clipboard-read", "clipboard-write"])
    # From now on dialogs for files are the driver's; told only when one is awaited, it is at times later than the key.
    page.on("filechooser", lambda _: None)
    page.wait_for_selector(".status.ready")
    return page


@pytest.fixture
def hands(page: Page) -> Hands:
    """The hands of that page."""
    return Hands(page)


def button(page: Page | Locator, name: str) -> Locator:
    """The last button of exactly this name."""
    return page.get_by_role("button", name=name, exact=True).last


def copied(page: Page) -> str:
    """What is on the clipboard."""
    return page.evaluate("navigator.clipboard.readText()")


def say(hands: Hands, text: str) -> Locator:
    """Write a message and send it; the newest answer."""
    hands.is_on(composer(hands.page))
    before = hands.page.locator(".from-model").count()
    hands.type(text)
    hands.press("Enter")
    return hands.page.locator(".from-model").nth(before)


def test_asking_queueing_and_stopping(page: Page, hands: Hands) -> None:
    """From the first key on: a suggestion, thinking cut short, messages queued, changed, dropped, sent; stop, go on."""
    hands.use_before(page.get_by_role("button", name="Compare tea"))
    hands.is_on(composer(page))
    expect(composer(page)).to_have_value("Compare tea, coffee and mate in a table")
    hands.press("Control+a", "Delete")
    answer = say(hands, "endless")
    expect(answer.locator(".thought")).to_contain_text("Step 2 leads")
    hands.use_before(button(page, "Answer now"))
    hands.is_on(composer(page))
    hands.type("plain one")
    hands.use(button(page, "Queue message"))
    hands.is_on(composer(page))
    hands.type("plain two")
    hands.press("Enter")
    expect(queued(page)).to_have_count(2)
    hands.use_before(button(page, "Edit queued message"))
    hands.is_on(composer(page))
    expect(composer(page)).to_have_value("plain two")
    hands.press("Enter")
    hands.use_before(button(page, "Remove queued message"))
    hands.is_on(composer(page))
    expect(queued(page)).to_have_text(["plain one"])
    expect(text_of(answer)).to_contain_text("Step 1 leads")
    hands.use(button(page, "Stop"))
    hands.is_on(composer(page))
    wait_over(answer, "stopped")
    hands.use_before(button(answer, "Continue"))
    hands.is_on(composer(page))
    expect(answer).to_have_attribute("data-phase", "writing")
    hands.press("Escape")
    wait_over(answer, "stopped")
    hands.use_before(button(page, "Send now"))
    hands.is_on(composer(page))
    wait_over(page.locator(".from-model").nth(1))
    hands.press("ArrowUp")
    expect(composer(page)).to_have_value("plain one")


def test_what_can_be_done_with_an_answer(page: Page, hands: Hands) -> None:
    """Thinking, source, figures, what the model saw; copying, asking again, edits of both, deleting and back."""
    answer = wait_over(say(hands, "Why?"))
    for target, key, attribute in (
        (head_of(answer), "Space", "aria-expanded"),
        (button(answer, "Source text"), "Enter", "aria-pressed"),
        (answer.locator(".receipt"), "Enter", "aria-expanded"),
    ):
        hands.use_before(target, key)
        expect(target).to_have_attribute(attribute, "true")
        hands.is_on(target)
        hands.press("Control+End")
        hands.press(key)
        expect(target).to_have_attribute(attribute, "false")
        hands.is_on(target)
    hands.use_before(button(answer, "Copy answer"))
    expect(button(answer, "Copied")).to_be_focused()
    assert copied(page).startswith("Yes, because it is *so*.")
    hands.use(button(answer, "What the model saw"))
    panel = page.get_by_role("dialog", name="What the model saw")
    hands.is_on(panel.get_by_role("heading"))
    hands.use(button(panel, "Copy the prompt"))
    hands.go(panel.get_by_role("region", name="The prompt"))
    hands.use(button(panel, "Close"))
    hands.is_on(button(answer, "What the model saw"))
    hands.use_before(button(answer, "Edit answer"))
    hands.is_on(page.get_by_label("The answer"))
    hands.press("Escape")
    hands.is_on(button(answer, "Edit answer"))
    hands.press("Enter", "Control+a")
    hands.type("Mine.")
    hands.use(button(page, "Save"))
    hands.is_on(composer(page))
    hands.use_before(button(page, "Undo"))
    hands.is_on(composer(page))
    hands.use_before(button(page, "Regenerate"))
    hands.is_on(composer(page))
    wait_over(page.locator(".from-model"))
    hands.use_before(button(page, "Edit message"))
    hands.is_on(page.get_by_label("Your message"))
    hands.use(button(page, "Cancel"))
    hands.is_on(button(page, "Edit message"))
    hands.press("Enter", "Control+a")
    hands.type("plain and edited")
    hands.press("Control+Enter")
    hands.is_on(composer(page))
    expect(text_of(wait_over(page.locator(".from-model")))).to_have_text("No thought.")
    hands.use_before(button(page, "Copy message"))
    assert copied(page) == "plain and edited"
    hands.use(button(page.locator(".from-user"), "Delete from here"))
    hands.is_on(button(page, "Undo"))
    hands.press("Enter")
    hands.is_on(composer(page))
    expect(page.locator(".turn")).to_have_count(2)


def test_reading_and_going_about_in_a_chat(page: Page, hands: Hands) -> None:
    """A file is opened; then pictures, tools, code, tables, footnotes, the scroll, and the way to another chat."""
    wait_over(say(hands, "plain"))
    hands.use_before(button(page, "Chats"))
    hands.is_on(page.get_by_role("heading", name="Chats", exact=True))
    hands.go(button(page, "Import"))
    with page.expect_file_chooser() as chooser:
        hands.press("Enter")
    chooser.value.set_files({"name": "chat.json", "mimeType": "application/json", "buffer": EVERY_KIND.encode()})
    expect(page.locator("math")).not_to_have_count(0)
    hands.press("Escape")
    hands.is_on(button(page, "Chats"))
    hands.go(page.get_by_role("region", name="Conversation"))
    hands.press("Home")
    wait_until(page, "document.querySelector('.transcript').scrollTop === 0")  # it glides there
    hands.use(button(page, "Picture 1, show large"))
    hands.is_on(button(page.get_by_role("dialog"), "Close"))
    hands.press("Escape")
    hands.is_on(button(page, "Picture 1, show large"))
    file = page.get_by_role("button", name="save.py")
    hands.use(file)
    hands.is_on(page.get_by_role("heading", name="save.py"))
    hands.press("Escape")
    hands.is_on(file)
    hands.back(button(page, "Picture 1, show large"))
    hands.go(page.get_by_role("button", name="Show all"))
    page.keyboard.press("Enter")  # the button is now below what is read
    expect(page.get_by_role("button", name="Show less")).to_be_focused()
    hands.use(page.locator("details summary").first)
    expect(page.locator("details[open]")).to_have_count(1)
    hands.go(page.get_by_role("group", name="Table").last)
    hands.use(page.locator(".from-model .code-copy").first)
    assert copied(page).startswith("def double")
    hands.use_before(page.locator(".code-wrap").first, "Space")
    expect(page.locator(".code-wrap").first).to_have_attribute("aria-pressed", "true")
    mark = page.locator(".note-mark a").first
    hands.use(mark)
    hands.is_on(page.locator(".footnotes li").first)
    hands.use(page.locator(".footnotes li a").first)
    hands.is_on(mark)
    hands.back(page.get_by_role("region", name="Conversation"))
    hands.press("Home", "/")
    hands.is_on(composer(page))
    hands.use_before(button(page, "Jump to newest"))
    hands.is_on(composer(page))
    wait_until(page, "!document.querySelector('.jump')")
    hands.use_before(page.get_by_role("button", name="Dismiss"))
    hands.is_on(composer(page))
    hands.use_before(page.get_by_role("button", name="Reopen"))
    hands.is_on(composer(page))
    expect(page.locator(".turn")).to_have_count(2)


def test_files_and_new_chats(page: Page, hands: Hands) -> None:
    """A file added, one refused, both put away again; a new chat and the way back from it."""
    hands.go(button(page, "Add files"))
    with page.expect_file_chooser() as chooser:
        hands.press("Enter")
    chooser.value.set_files([SAVE, {"name": "old.exe", "mimeType": "", "buffer": b"MZ\0"}])
    expect(attached(page)).to_have_count(1)
    hands.is_on(button(page, "Add files"))
    hands.use_before(button(page, "Dismiss"))
    hands.is_on(composer(page))
    hands.use_before(button(page, "Remove save.py"))
    hands.is_on(composer(page))
    wait_over(say(hands, "plain"))
    hands.use_before(button(page, "New chat"))
    hands.is_on(composer(page))
    hands.use_before(button(page, "Reopen the previous chat"))
    hands.is_on(composer(page))
    expect(page.locator(".turn")).to_have_count(2)


def test_the_settings(page: Page, hands: Hands) -> None:
    """Each kind of field, back to its default, stop strings, presets, theme, the keys, reset."""
    opener = button(page, "Settings")
    hands.use_before(opener)
    hands.is_on(page.get_by_role("heading", name="Settings"))
    hands.go(page.get_by_label("System message"))
    hands.type("Be kind.")
    hands.go(page.get_by_label("Low", exact=True))
    hands.press("ArrowRight")
    hands.is_on(page.get_by_label("Medium", exact=True))
    hands.use_before(button(page, "Default for Reasoning strength"))
    hands.is_on(page.get_by_label("Low", exact=True))
    hands.go(page.get_by_label("Temperature", exact=True))
    hands.type("0.5")
    slider = page.get_by_label("Temperature, slider")
    hands.go(slider)
    hands.press("ArrowRight")
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("0.55")
    hands.use_before(button(page, "Default for Temperature"))
    hands.is_on(slider)
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("")
    hands.go(page.get_by_label("Longest answer", exact=True))
    hands.type("64")
    hands.use_before(button(page, "Max for Longest answer"))
    hands.is_on(button(page, "Max for Longest answer"))
    hands.use(button(page, "Add a stop string"))
    hands.is_on(page.get_by_label("Stop string 1", exact=True))
    hands.type("END")
    hands.use(button(page, "Remove stop string 1"))
    hands.is_on(button(page, "Add a stop string"))
    hands.press("Enter")
    hands.use(button(page, "Reset to the model’s defaults"))
    hands.is_on(button(page, "Reset to the model’s defaults"))
    presets(page, hands)
    hands.go(page.get_by_label("System", exact=True))
    hands.press("ArrowDown", "ArrowDown")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    hands.use(button(page, "Keyboard shortcuts"))
    hands.is_on(page.get_by_role("heading", name="Keyboard shortcuts"))
    hands.use(page.get_by_label("Use single keys"), "Space")
    expect(page.get_by_label("Use single keys")).not_to_be_checked()
    hands.press("Escape")
    hands.is_on(button(page, "Keyboard shortcuts"))
    hands.use_before(button(page, "Close settings"))
    hands.is_on(opener)
    hands.use(button(page, "System message"))
    hands.is_on(page.get_by_role("heading", name="Settings"))
    hands.press("Escape")
    hands.is_on(button(page, "System message"))


def presets(page: Page, hands: Hands) -> None:
    """Saved, used, renamed, deleted, brought back."""
    hands.use(button(page, "Save these settings"))
    hands.is_on(page.get_by_label("Name of the preset"))
    hands.type("One")
    hands.press("Enter")
    hands.is_on(button(page, "Save these settings"))
    row = page.locator(".row-main").last
    hands.use_before(row)
    hands.is_on(row)
    hands.use(button(page, "Rename One"))
    hands.is_on(page.get_by_label("New name"))
    hands.type("Two")
    hands.press("Enter")
    hands.is_on(button(page, "Save these settings"))
    hands.use_before(button(page, "Delete Two"))
    hands.is_on(button(page, "Undo"))
    hands.press("Enter")
    hands.is_on(button(page, "Save these settings"))
    expect(page.locator(".row-name")).to_have_text("Two")


def test_saving_and_keeping_chats(page: Page, hands: Hands) -> None:
    """Both files; kept, not kept and deleted, one by one and all, with a second thought about each."""
    wait_over(say(hands, "plain one"))
    opener = button(page, "Chats")
    hands.use_before(opener)
    title = page.get_by_role("heading", name="Chats", exact=True)
    hands.is_on(title)
    for form in ("JSON", "Markdown"):
        hands.go(button(page, f"Export as {form}"))
        with page.expect_download():
            hands.press("Enter")
        hands.is_on(button(page, f"Export as {form}"))
    keep = page.get_by_label("Save this chat in this browser")
    bin_ = button(page, "Delete plain one")
    everything = button(page, "Delete all saved chats")
    hands.use(keep, "Space")
    bin_.wait_for()
    hands.press("Space")
    hands.is_on(button(page, "Keep saving"))
    hands.press("Enter")
    hands.is_on(keep)
    for opens, no in ((bin_, "Escape"), (everything, "Enter")):
        hands.use(opens)
        hands.is_on(button(page, "Cancel"))
        hands.press(no)
        hands.is_on(opens)
    hands.use_before(bin_)
    hands.use(button(page, "Delete"))
    hands.is_on(title)
    expect(page.locator("#chats .row")).to_have_count(0)
    hands.use(keep, "Space")
    hands.use(everything)
    hands.use(button(page, "Delete"))
    hands.is_on(title)
    expect(page.locator("#chats .row")).to_have_count(0)
    hands.use(keep, "Space")
    hands.press("Space")
    hands.use(button(page, "Delete the saved copy"))
    hands.is_on(keep)
    hands.press("Escape")
    hands.is_on(opener)


def test_trouble_is_dealt_with(page: Page, hands: Hands, watch: PageWatch) -> None:
    """An answer that failed is asked for again; a change that was refused is tried again, and dismissed."""
    watch.expected.append("503")
    down = {"error": {"message": "No model.", "type": "server_error", "code": "model_unavailable", "param": None}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=down), times=1)
    wait_over(say(hands, "plain"), "failed")
    hands.use_before(button(page, "Retry"))
    hands.is_on(composer(page))
    wait_over(page.locator(".from-model"))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=down), times=2)
    hands.use_before(button(page, "Regenerate"))
    hands.use_before(button(page.get_by_role("alert"), "Try again"))
    hands.is_on(composer(page))
    hands.use_before(button(page.get_by_role("alert"), "Dismiss"))
    hands.is_on(composer(page))


def test_a_model_that_failed_is_tried_again(
    open_page: Callable[..., Page], scripted_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    """The button goes with its reason, and the keyboard goes on in the composer."""
    server = scripted_server({"nonsense": True}, ready=False)
    server.wait_state("failed")
    page = open_page(server.url)
    hands = Hands(page)
    (script,) = tmp_path.glob("script-*.json")
    script.write_text(json.dumps({"answers": []}))
    again = button(page, "Try again")
    again.wait_for()
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/worker/restart", lambda route: held.append((route, route.fetch())))
    hands.use_before(again)
    expect(again).to_have_count(0)  # the news of the start may be here before the answer to the request
    hands.is_on(composer(page))
    ((route, answer),) = held
    route.fulfill(response=answer)
    hands.is_on(composer(page))
