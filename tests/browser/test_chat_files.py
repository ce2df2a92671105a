"""The chat as a file and back: what is saved, what is opened, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripts import ask, record_requests, session_id, wait_over
from tests.browser.test_edits import contents, held, shown, told, two_turns
from tests.browser.thinking_script import ANSWER, THOUGHT, head_of, text_of
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def open_chats(page: Page) -> None:
    """Open the sheet."""
    page.get_by_role("button", name="Chats", exact=True).click()
    expect(page.get_by_role("heading", name="Chats", exact=True)).to_be_focused()


def saved(page: Page, form: str) -> tuple[str, str]:
    """Save the chat; name and text of the file."""
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Export as {form}").click()
    return download.value.suggested_filename, Path(download.value.path()).read_text("utf-8")


def give(page: Page, content: bytes | str, name: str = "chat.json") -> None:
    """Choose a file to open."""
    data = content.encode() if isinstance(content, str) else content
    page.get_by_label("Chat file").set_input_files({"name": name, "mimeType": "application/json", "buffer": data})


def document(*messages: dict[str, Any]) -> str:
    """A file with these messages."""
    return json.dumps({"format": "muse-chat", "version": 1, "messages": messages})


def test_a_chat_is_saved_and_opened_again(thinking_page: Page, thinking_server: ServerProcess) -> None:
    """With thinking, receipt, settings and system message; under a new session that the server knows, and the next
    message carries it all."""
    page = thinking_page
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System message").fill("Be kind.")
    page.get_by_label("Temperature", exact=True).fill("0.5")
    answer = wait_over(ask(page, "Why so?"))
    receipt = answer.locator(".receipt").inner_text()
    open_chats(page)
    name, text = saved(page, "JSON")
    assert re.fullmatch(r"Why-so-\d{4}-\d\d-\d\d\.json", name)
    system, question, said = json.loads(text)["messages"]
    assert system == {"role": "system", "content": "Be kind."}
    assert question["content"] == "Why so?"
    assert (said["content"], said["reasoning_content"]) == (ANSWER, THOUGHT)
    assert said["settings"] == {"temperature": 0.5}
    assert said["model"] == "scripted-thinker"
    assert said["created_at"] == question["created_at"]
    assert said["metrics"]["finish_reason"] == "stop"
    assert "chatcmpl" not in text
    assert session_id(page) not in text

    before = session_id(page)
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System message").fill("")
    open_chats(page)
    with told(page):
        give(page, text, name)
    expect(page.locator(".remark").first).to_contain_text("was imported")
    opened = page.locator(".from-model")
    expect(opened).to_have_count(1)
    expect(text_of(opened)).to_contain_text("That is all.")
    expect(head_of(opened)).to_have_text(re.compile(r"Thought for .* tokens"))
    assert opened.locator(".receipt").inner_text() == receipt
    expect(page.get_by_label("System message")).to_have_count(0)
    assert session_id(page) != before
    assert held(page, thinking_server) == ["Be kind.", "Why so?", ANSWER]
    assert json.loads(saved(page, "JSON")[1])["messages"] == [system, question, said]
    # A reload asks the server, which was told of the thinking and the figures, too.
    page.reload()
    expect(head_of(opened)).to_have_text(re.compile(r"Thought for .* tokens"))
    assert opened.locator(".receipt").inner_text() == receipt
    bodies = record_requests(page)
    wait_over(ask(page, "plain"))
    assert contents(bodies[0]["messages"]) == ["Be kind.", "Why so?", ANSWER, "plain"]


def test_markdown_is_for_reading(thinking_page: Page) -> None:
    """All that was said, thinking as a quotation."""
    wait_over(ask(thinking_page, "Why so?"))
    open_chats(thinking_page)
    name, text = saved(thinking_page, "Markdown")
    assert name.endswith(".md")
    assert text.startswith("# Why so?\n")
    assert "> 1. Say yes." in text
    assert ANSWER in text


def test_the_chat_before_is_brought_back(chromium_page: Page, chat_server: ServerProcess) -> None:
    """As after New chat, with its own system message; the server has it, too."""
    chromium_page.get_by_role("button", name="Settings", exact=True).click()
    chromium_page.get_by_label("System message").fill("First.")
    two_turns(chromium_page)
    before = shown(chromium_page)
    open_chats(chromium_page)
    with told(chromium_page):
        give(chromium_page, document({"role": "system", "content": "Second."}, {"role": "user", "content": "Open?"}))
    expect(chromium_page.locator(".bubble")).to_have_text(["Open?"])
    expect(chromium_page.locator(".from-model")).to_contain_text("This message has no answer yet.")
    chromium_page.get_by_role("button", name="Reopen").click()
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    assert shown(chromium_page) == before
    assert held(chromium_page, chat_server) == ["First.", *before]
    chromium_page.reload()
    expect(chromium_page.locator(".from-model")).to_have_count(2)
    assert shown(chromium_page) == before


def test_a_file_of_anybody_is_shown_as_text(chromium_page: Page) -> None:
    """Markup in every field that is shown stays text; pictures are data; nothing is fetched (the page is watched)."""
    evil = "<img src=x onerror=window.hacked=1>"
    error = {"message": evil, "code": evil}
    give_up = {"role": "assistant", "content": "", "state": "failed", "error": error}
    answer = {"role": "assistant", "content": evil, "reasoning_content": evil, "metrics": {"tool_warning": evil}}
    parts = [{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "text", "text": evil}]
    open_chats(chromium_page)
    give(
        chromium_page, document({"role": "user", "content": parts}, answer, {"role": "user", "content": evil}, give_up)
    )
    expect(chromium_page.locator(".bubble")).to_have_text([evil, evil])
    expect(chromium_page.locator(".transcript img")).to_have_count(1)
    expect(chromium_page.locator(".from-model").last).to_contain_text(evil)
    assert chromium_page.evaluate("window.hacked") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json", "not JSON"),
        (b"\xff\xfe", "not UTF-8 text"),
        ('{"format": "muse-chat", "version": 9}', "version 9"),
        (document({"role": "user", "content": 7}), "messages[0].content must be text"),
        (
            document({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/"}}]}),
            "data URL",
        ),
        (b" " * (64 * 1024 * 1024 + 1), "larger than 64 MB"),
    ],
    ids=["text", "bytes", "version", "field", "address", "size"],
)
def test_what_is_no_chat_is_refused_in_words(chromium_page: Page, content: bytes | str, words: str) -> None:
    """The conversation stays as it was."""
    wait_over(ask(chromium_page, "short"))
    open_chats(chromium_page)
    if len(content) > 50 * 1024 * 1024:  # more than the test's browser driver passes on
        chromium_page.evaluate(
            """() => {
              const files = new DataTransfer();
              files.items.add(new File([new Uint8Array(64 * 1024 * 1024 + 1)], "chat.json"));
              const input = document.querySelector("#chats input[type=file]");
              input.files = files.files;
              input.dispatchEvent(new Event("change"));
            }"""
        )
    else:
        give(chromium_page, content)
    fault = chromium_page.get_by_role("alert")
    expect(fault).to_contain_text("Couldn’t import chat.json:")
    expect(fault).to_contain_text(words)
    assert shown(chromium_page) == ["short", "Short answer."]


def test_a_running_answer_is_saved_as_far_as_it_is(chromium_page: Page) -> None:
    """It says that it was still being written; importing a file leaves it running in its chat."""
    answer = ask(chromium_page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    open_chats(chromium_page)
    said = json.loads(saved(chromium_page, "JSON")[1])["messages"][1]
    assert said["content"].startswith("on and")
    assert (said["state"], said["error"]["message"]) == (
        "interrupted",
        "It was still being written when this was saved.",
    )
    give(chromium_page, document({"role": "user", "content": "Open?"}))
    expect(chromium_page.locator(".bubble")).to_have_text(["Open?"])
    wait_over(ask(chromium_page, "short"))


def test_nothing_is_saved_of_an_empty_chat(open_page: Callable[..., Page], chat_server: ServerProcess) -> None:
    """The buttons cannot be used until something was said."""
    page = open_page(chat_server.url)
    open_chats(page)
    expect(page.get_by_role("button", name="Export as JSON")).to_be_disabled()
    wait_over(ask(page, "short"))
    expect(page.get_by_role("button", name="Export as JSON")).to_be_enabled()
