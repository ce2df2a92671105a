"""Text files of a message: chips beside its words, and the model is sent the same text as ever."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.browser.files import add, attached, composer
from tests.browser.scripts import ask, record_requests, session_id, wait_over
from tests.browser.test_chat_files import document, give, open_chats
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser


def text_file(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


SAVE = text_file("save.py", "fence = '```'\nprint(fence)\n")
NOTES = text_file("My notes", "one\r\nשלום")
SENT = "save.py\n````py\nfence = '```'\nprint(fence)\n````\n\nMy notes\n```\none\r\nשלום\n```\n\n"


def chips(page: Page) -> Locator:
    """The files of the last message."""
    return page.locator(".from-user").last.get_by_role("list", name="Attached files").get_by_role("listitem")


def send_with(page: Page, words: str, *files: FilePayload) -> None:
    """A message with files, and the answer to it."""
    add(page, *files)
    expect(attached(page)).to_have_count(len(files))
    wait_over(ask(page, words))


def last_content(bodies: list[dict[str, Any]]) -> str:
    """What the last request says."""
    return str(bodies[-1]["messages"][-1]["content"])


def test_files_are_chips_beside_the_words(chromium_page: Page) -> None:
    """With name, lines and size, also after a reload; the question stands alone, and is what is copied and recalled."""
    page = chromium_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    bodies = record_requests(page)
    send_with(page, "What are they?", SAVE, NOTES)
    assert last_content(bodies) == f"{SENT}What are they?"
    for _ in range(2):
        expect(chips(page)).to_have_text(["save.py2 lines, 27 bytes", "My notes2 lines, 13 bytes"])
        expect(page.locator(".bubble")).to_have_text("What are they?")
        page.reload()
        page.wait_for_selector(".status.ready")
    page.get_by_role("button", name="Copy message").click()
    expect(page.locator(".from-user").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "What are they?"
    composer(page).press("ArrowUp")
    expect(composer(page)).to_have_value("What are they?")


def test_contents_are_shown_on_request(chromium_page: Page) -> None:
    """Of a file that waits and of one that was sent, in a fixed pitch; by keyboard, and the focus comes back."""
    page = chromium_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    long = "".join(f"line {number}\n" for number in range(3000))
    add(page, SAVE, text_file("log.txt", long))
    waiting = attached(page).get_by_role("button", name="save.py 2 lines, 27 bytes")
    waiting.press("Enter")
    shown = page.get_by_role("dialog", name="save.py")
    expect(shown.locator(".seen-text")).to_contain_text("fence = '```'")
    family = shown.locator(".seen-text").evaluate("(text) => getComputedStyle(text).fontFamily")
    assert "Mono" in family.split(",")[0]
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(waiting).to_be_focused()
    wait_over(ask(page, "short"))
    chips(page).get_by_role("button", name="log.txt").click()
    shown = page.get_by_role("dialog", name="log.txt")
    expect(shown).to_contain_text("3,000 lines, 28 KB")
    blocks = shown.locator(".seen-text > div")
    assert "\n".join(blocks.evaluate_all("(all) => all.map((block) => block.textContent)")) == long
    shown.get_by_role("button", name="Copy the file").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == long
    shown.get_by_role("button", name="Close").click()
    expect(chips(page).get_by_role("button", name="log.txt")).to_be_focused()


def test_files_are_edited_apart_from_the_words(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The editor has the words alone; files go and come by the tray. What is not changed is sent as it was."""
    page = chromium_page
    bodies = record_requests(page)
    send_with(page, "  What are they?", SAVE, NOTES)
    page.get_by_role("button", name="Edit message").click()
    field = page.get_by_label("Your message")
    tray = page.locator(".editor .attachment")
    expect(field).to_have_value("  What are they?")
    expect(tray.locator(".attachment-name")).to_have_text(["save.py", "My notes"])
    page.get_by_role("button", name="Save & send").click()
    wait_over(page.locator(".from-model"))
    assert last_content(bodies) == f"{SENT}  What are they?"
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("button", name="Remove My notes").click()
    expect(field).to_be_focused()
    add(page, text_file("b.c", "x\n"))
    expect(tray.locator(".attachment-name")).to_have_text(["save.py", "b.c"])
    field.fill("")
    page.get_by_role("button", name="Save & send").click()
    wait_over(page.locator(".from-model"))
    assert last_content(bodies) == "save.py\n````py\nfence = '```'\nprint(fence)\n````\n\nb.c\n```c\nx\n```"
    expect(chips(page)).to_have_text(["save.py2 lines, 27 bytes", "b.c1 line, 2 bytes"])
    expect(page.locator(".bubble")).to_have_count(0)
    held = chat_server.get(f"/v1/sessions/{session_id(page)}").json()["messages"]
    assert held[0]["content"] == last_content(bodies)


def test_what_was_typed_or_is_in_doubt_stays_text(chromium_page: Page) -> None:
    """Code under a line of words is no file; in a chat from elsewhere only what can be nothing else is one."""
    page = chromium_page
    typed = "Here is my code:\n```\nx = 1\n```\n\nWhy?"
    wait_over(ask(page, typed))
    assert page.locator(".bubble").evaluate("(bubble) => bubble.textContent") == typed
    expect(page.locator(".files")).to_have_count(0)
    open_chats(page)
    give(
        page,
        document(
            {"role": "user", "content": f"{SENT}What are they?"},
            {"role": "assistant", "content": "Files."},
            {"role": "user", "content": "See main.py\n```py\nx = 1\n```\n\nWhy?"},
            {"role": "assistant", "content": "So."},
        ),
    )
    expect(page.locator(".from-user")).to_have_count(2)
    expect(page.locator(".files .attachment-name")).to_have_text(["save.py"])
    said = page.locator(".bubble").evaluate_all("(all) => all.map((bubble) => bubble.textContent)")
    assert said == ["My notes\n```\none\r\nשלום\n```\n\nWhat are they?", "See main.py\n```py\nx = 1\n```\n\nWhy?"]


def test_a_message_is_sent_and_shown_as_it_was_written(chromium_page: Page) -> None:
    """Blanks and lines at its beginning and end are part of it, also when it waited or was edited."""
    page = chromium_page
    bodies = record_requests(page)
    written = "    if x:\n        y()\n\n"
    wait_over(ask(page, written))
    assert last_content(bodies) == written
    page.reload()
    bubble = page.locator(".bubble")
    assert bubble.evaluate("(bubble) => bubble.textContent") == written
    assert bubble.evaluate("(bubble) => getComputedStyle(bubble).whiteSpace") == "pre-wrap"
    page.get_by_role("button", name="Edit message").click()
    expect(page.get_by_label("Your message")).to_have_value(written)
    page.get_by_label("Your message").fill("\n long please ")
    page.get_by_role("button", name="Save & send").click()
    expect(page.locator(".prose")).to_contain_text("Paragraph 2")
    composer(page).fill("  short one\n")
    composer(page).press("Enter")
    wait_over(page.locator(".from-model").nth(1))
    assert [body["messages"][-1]["content"] for body in bodies[1:]] == ["\n long please ", "  short one\n"]


def test_tiny_answers_have_no_rate(chromium_page: Page) -> None:
    """Neither in the line below the answer nor in its details; the time to the first token is there."""
    page = chromium_page
    answer = wait_over(ask(page, "short"))
    receipt = answer.locator(".receipt")
    expect(receipt).to_contain_text("first token after")
    receipt.click()
    expect(answer.locator(".receipt-details div").filter(has_text="Answer")).to_have_text("Answer2 tokens")
    expect(answer).not_to_contain_text("tokens/s")
