"""Writing a message: keys, text files, what waits while an answer is written, what was said before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import add, attached, composer, hand_over
from tests.browser.scripts import ask, record_requests, wait_over
from tests.browser.test_chat_files import document, give, open_chats
from tests.server_process import ServerProcess

pytestmark = pytest.mark.browser

SAVE: FilePayload = {"name": "save.py", "mimeType": "text/x-python", "buffer": b"fence = '```'\nprint(fence)\n"}
SAVED = "save.py\n````py\nfence = '```'\nprint(fence)\n````"

DIRECTION = "(field) => getComputedStyle(field).direction"


def queued(page: Page) -> Locator:
    return page.get_by_role("list", name="Queued messages").get_by_role("listitem")


def status_words(page: Page) -> Locator:
    return page.locator(".queue-head")


def say(page: Page, text: str) -> None:
    composer(page).fill(text)
    composer(page).press("Enter")


def begin_endless(page: Page) -> Locator:
    answer = ask(page, "endless")
    expect(answer.locator(".prose")).to_contain_text("on and")
    return answer


def queue_with_a_file(page: Page) -> Locator:
    """A message with a file waits behind an answer that is being written, which is given."""
    answer = ask(page, "long please")
    expect(answer.locator(".prose")).to_contain_text("Paragraph 2")
    add(page, SAVE)
    expect(attached(page)).to_have_count(1)
    say(page, "short one")
    return answer


def test_the_field_grows_to_a_limit_and_then_scrolls(chromium_page: Page) -> None:
    """With its text; the conversation keeps most of the window."""
    field = composer(chromium_page)

    def height() -> float:
        box = field.bounding_box()
        assert box is not None
        return box["height"]

    low = height()
    field.fill("one\ntwo\nthree\nfour")
    assert height() > low + 50
    field.fill("line\n" * 200)
    assert height() <= 800 * 0.4 + 1
    assert field.evaluate("(e) => e.scrollHeight > e.clientHeight + 1000")
    field.fill("")
    assert height() == low


@pytest.mark.parametrize("sign", [{"isComposing": True}, {"keyCode": 229}], ids=str)
def test_keys_of_an_input_method_do_nothing_else(chromium_page: Page, sign: dict[str, object]) -> None:
    """Enter picks a word there, arrows choose among words, Escape drops one. Safari tells only by the key code."""
    bodies = record_requests(chromium_page)
    answer = begin_endless(chromium_page)
    field = composer(chromium_page)
    field.fill("にほん")
    for key in ("Enter", "ArrowUp", "ArrowDown", "Escape"):
        field.evaluate(
            "(e, [key, sign]) => e.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, ...sign}))",
            [key, sign],
        )
    expect(field).to_have_value("にほん")
    expect(queued(chromium_page)).to_have_count(0)
    expect(answer).to_have_attribute("data-phase", "writing")
    assert len(bodies) == 1


def test_a_text_file_becomes_a_fenced_block(chromium_page: Page) -> None:
    """Under its name, before the words, by a fence that is longer than any in it."""
    bodies = record_requests(chromium_page)
    add(chromium_page, SAVE)
    expect(attached(chromium_page)).to_contain_text("2 lines, 27 bytes")
    wait_over(ask(chromium_page, "What does it do?"))
    assert bodies[0]["messages"][0]["content"] == f"{SAVED}\n\nWhat does it do?"


def test_a_long_message_is_folded(chromium_page: Page) -> None:
    """What is folded of a very long one is not in the page."""
    open_chats(chromium_page)
    long = "".join(f"line {number}\n" for number in range(3000))
    give(chromium_page, document({"role": "user", "content": long}, {"role": "assistant", "content": "Short."}))
    bubble = chromium_page.locator(".bubble")
    assert len(bubble.inner_text()) < 3000
    small = bubble.bounding_box()
    chromium_page.get_by_role("button", name="Show all").press("Enter")
    expect(chromium_page.get_by_role("button", name="Show less")).to_be_focused()
    large = bubble.bounding_box()
    assert small is not None
    assert large is not None
    assert large["height"] > 20_000 > 300 > small["height"]


def test_a_very_long_paste_becomes_a_file(chromium_page: Page) -> None:
    """The field stays quick; a shorter text is a text."""
    chromium_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    bodies = record_requests(chromium_page)
    long = "a line of a log\n" * 2000
    hand_over(composer(chromium_page), "paste", [], {"text/plain": long})
    expect(attached(chromium_page)).to_contain_text("Pasted text.txt")
    expect(composer(chromium_page)).to_have_value("")
    wait_over(ask(chromium_page, "short"))
    assert bodies[0]["messages"][0]["content"] == f"Pasted text.txt\n```txt\n{long}```\n\nshort"
    expect(chromium_page.locator(".files")).to_contain_text("2,000 lines, 31 KB")
    expect(chromium_page.locator(".bubble")).to_have_text("short")
    chromium_page.evaluate("navigator.clipboard.writeText('a word')")
    composer(chromium_page).press("ControlOrMeta+v")
    expect(composer(chromium_page)).to_have_value("a word")
    expect(attached(chromium_page)).to_have_count(0)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("program.exe", b"MZ\0\0", "is no text file, and no JPEG, PNG or WebP picture"),
        ("old.txt", "schön".encode("latin-1"), "is not written in UTF-8"),
        ("empty.txt", b"", "is empty"),
        ("big.log", b"x" * (1024 * 1024 + 1), "is larger than the 1 MB that a text file may have"),
    ],
)
def test_other_files_are_refused_in_words(chromium_page: Page, name: str, data: bytes, words: str) -> None:
    """By name; the files beside them are taken."""
    hand_over(composer(chromium_page), "paste", [{"name": name, "mimeType": "text/plain", "buffer": data}, SAVE])
    expect(chromium_page.get_by_role("alert")).to_contain_text(f"{name} was not added: it {words}")
    expect(attached(chromium_page).locator(".attachment-name")).to_have_text(["save.py"])


def test_what_is_written_takes_its_own_direction(chromium_page: Page) -> None:
    """Every field for text, and where it is shown: right to left if it begins so, line by line."""
    page = chromium_page
    hebrew = "\u05e9\u05dc\u05d5\u05dd"
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("button", name="Add a stop string").click()
    page.get_by_role("button", name="Save these settings").click()
    for field in (composer(page), *page.locator("textarea:not(#composer-field), input[type=text]").all()):
        field.fill(hebrew)
        assert field.evaluate(DIRECTION) == "rtl", field
        field.fill("hello")
        assert field.evaluate(DIRECTION) == "ltr", field
    composer(page).fill(f"hello\n{hebrew}")
    assert composer(page).evaluate("(field) => getComputedStyle(field).unicodeBidi") == "plaintext"
    composer(page).press("Enter")
    bubble = page.locator(".bubble")
    assert bubble.evaluate("(bubble) => getComputedStyle(bubble).unicodeBidi") == "plaintext"
    page.get_by_role("button", name="Edit message").click()
    page.get_by_label("Your message").fill(hebrew)
    assert page.get_by_label("Your message").evaluate(DIRECTION) == "rtl"


def test_a_queued_message_goes_out_when_the_answer_has_ended(chromium_page: Page) -> None:
    """In their order, each after the answer before it, with what is attached."""
    bodies = record_requests(chromium_page)
    queue_with_a_file(chromium_page)
    expect(composer(chromium_page)).to_have_value("")
    expect(attached(chromium_page)).to_have_count(0)
    expect(status_words(chromium_page)).to_contain_text("Sent when this answer is done.")
    composer(chromium_page).fill("the last")
    chromium_page.get_by_role("button", name="Queue message").click()
    expect(queued(chromium_page)).to_have_count(2)
    expect(queued(chromium_page).first).to_contain_text("short one save.py")
    expect(chromium_page.locator(".from-model")).to_have_count(3)
    wait_over(chromium_page.locator(".from-model").last)
    expect(queued(chromium_page)).to_have_count(0)
    said = [body["messages"][-1]["content"] for body in bodies]
    assert said == ["long please", f"{SAVED}\n\nshort one", "the last"]
    assert len(bodies[2]["messages"]) == 5


def test_a_queued_message_can_be_edited_and_removed(chromium_page: Page) -> None:
    """Edited in the composer, before what is there; nothing of it is lost."""
    begin_endless(chromium_page)
    add(chromium_page, SAVE)
    expect(attached(chromium_page)).to_have_count(1)
    say(chromium_page, "first")
    say(chromium_page, "second")
    composer(chromium_page).fill("third")
    chromium_page.get_by_role("button", name="Edit queued message").first.press("Enter")
    expect(composer(chromium_page)).to_be_focused()
    expect(composer(chromium_page)).to_have_value("first\n\nthird")
    expect(attached(chromium_page)).to_have_count(1)
    expect(queued(chromium_page)).to_have_count(1)
    chromium_page.get_by_role("button", name="Remove queued message").press("Enter")
    expect(composer(chromium_page)).to_be_focused()
    expect(queued(chromium_page)).to_have_count(0)
    expect(status_words(chromium_page)).to_have_count(0)


def test_a_stopped_answer_keeps_what_is_queued(chromium_page: Page) -> None:
    """It says so, and waits until the user sends it; then the rest follows."""
    bodies = record_requests(chromium_page)
    answer = begin_endless(chromium_page)
    say(chromium_page, "short one")
    say(chromium_page, "the last")
    chromium_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    expect(status_words(chromium_page)).to_contain_text("Not sent, because the answer was stopped.")
    wait_over(ask(chromium_page, "in between"))
    expect(queued(chromium_page)).to_have_count(2)
    chromium_page.get_by_role("button", name="Send now").click()
    expect(composer(chromium_page)).to_be_focused()
    expect(chromium_page.locator(".from-model")).to_have_count(4)
    wait_over(chromium_page.locator(".from-model").last)
    said = [body["messages"][-1]["content"] for body in bodies]
    assert said == ["endless", "in between", "short one", "the last"]


def test_a_failed_answer_keeps_what_is_queued(chromium_page: Page, watch: PageWatch) -> None:
    """Nothing is sent behind a failure; queueing another message lets them go out again."""
    watch.expected.append("503")
    down = {"error": {"message": "No model.", "type": "server_error", "code": "model_unavailable", "param": None}}
    releases: list[Callable[[], None]] = []
    chromium_page.route(
        "**/v1/chat/completions",
        lambda route: releases.append(lambda: route.fulfill(status=503, json=down)),
        times=1,
    )
    with chromium_page.expect_request("**/v1/chat/completions"):
        answer = ask(chromium_page, "short one")
    say(chromium_page, "kept")
    expect(queued(chromium_page)).to_have_count(1)
    releases[0]()
    wait_over(answer, "failed")
    expect(status_words(chromium_page)).to_contain_text("Not sent, because the answer failed.")
    bodies = record_requests(chromium_page)
    ask(chromium_page, "long please")
    say(chromium_page, "and this")
    expect(status_words(chromium_page)).to_contain_text("Sent in this order")
    expect(chromium_page.locator(".from-model")).to_have_count(4)
    wait_over(chromium_page.locator(".from-model").last)
    assert [body["messages"][-1]["content"] for body in bodies] == ["long please", "kept", "and this"]


def test_new_chat_puts_away_what_was_being_written(chromium_page: Page) -> None:
    """Text, files and queue go with the chat and come back with it; in an empty chat they stay."""
    composer(chromium_page).fill("kept")
    chromium_page.get_by_role("button", name="New chat").click()
    expect(composer(chromium_page)).to_have_value("kept")
    composer(chromium_page).fill("")
    begin_endless(chromium_page)
    say(chromium_page, "queued words")
    add(chromium_page, SAVE)
    composer(chromium_page).fill("half a")
    expect(attached(chromium_page)).to_have_count(1)
    chromium_page.get_by_role("button", name="New chat").click()
    expect(attached(chromium_page)).to_have_count(0)
    expect(composer(chromium_page)).to_have_value("")
    expect(queued(chromium_page)).to_have_count(0)
    composer(chromium_page).fill("new words")
    chromium_page.get_by_role("button", name="Reopen the previous chat").click()
    expect(composer(chromium_page)).to_have_value("half a")
    expect(attached(chromium_page)).to_have_count(1)
    expect(queued(chromium_page)).to_have_text("queued words")
    expect(status_words(chromium_page)).to_contain_text("Sent when this answer is done.")
    chromium_page.get_by_role("button", name="Chats", exact=True).click()
    chromium_page.get_by_role("button", name="new words closed").click()
    expect(composer(chromium_page)).to_have_value("new words")
    expect(queued(chromium_page)).to_have_count(0)


def test_arrow_keys_bring_back_what_was_said(chromium_page: Page) -> None:
    """From an empty composer, back and forth; a changed text and the lines of a long one are left alone."""
    field = composer(chromium_page)
    field.press("ArrowUp")
    expect(field).to_have_value("")
    for text in ("short one", "short\nof two rows"):
        wait_over(ask(chromium_page, text))
    field.press("ArrowUp")
    expect(field).to_have_value("short\nof two rows")
    field.press("ArrowUp")  # to its first line
    expect(field).to_have_value("short\nof two rows")
    field.press("ArrowUp")
    expect(field).to_have_value("short one")
    field.press("ArrowUp")
    expect(field).to_have_value("short one")
    field.press("ArrowDown")
    expect(field).to_have_value("short\nof two rows")
    field.press("ArrowDown")
    expect(field).to_have_value("")
    field.press("ArrowUp")
    field.press("End")
    chromium_page.keyboard.type("!")
    field.press("ArrowDown")
    field.press("Control+Home")
    field.press("ArrowUp")
    expect(field).to_have_value("short\nof two rows!")
    bodies = record_requests(chromium_page)
    field.press("Enter")
    wait_over(chromium_page.locator(".from-model").last)
    assert bodies[0]["messages"][-1]["content"] == "short\nof two rows!"


def test_the_rest_of_the_page_leaves_dropped_files_to_it(chromium_page: Page, chat_server: ServerProcess) -> None:
    """The browser does not open a file in place of the page, and dragged text is none of ours."""
    main = chromium_page.get_by_role("main")
    prevented = """(element, type) => {
      const data = new DataTransfer();
      if (type === "file") data.items.add(new File(["x"], "a.txt"));
      else data.setData("text/plain", "words");
      const event = new DragEvent("dragover", {bubbles: true, cancelable: true, dataTransfer: data});
      element.dispatchEvent(event);
      return event.defaultPrevented;
    }"""
    assert main.evaluate(prevented, "file") is True
    assert main.evaluate(prevented, "text") is False
    assert chromium_page.url.startswith(chat_server.url)
