"""Pictures in the page: added, shown, sent with every turn, kept over a reload and in edits, refused by name.

The test model knows three colours, so its answer tells which picture it saw.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import PageWatch
from tests.browser.files import add, attached, composer, hand_over
from tests.browser.scripts import ask, record_requests, session_id, wait_over, wait_until
from tests.picture_files import data_url, moving, plain, png_claiming, saved, turned
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

QUESTION = "What colour is this?"


@pytest.fixture
def page(open_page: Callable[..., Page], seeing_server: ServerProcess) -> Page:
    """The page of a model that sees, greedy, so that it says what it knows by heart."""
    opened = open_page(seeing_server.url)
    opened.wait_for_selector(".status.ready")
    opened.evaluate("localStorage.setItem('muse.sampling', JSON.stringify({temperature: 0}))")
    opened.reload()
    opened.wait_for_selector(".status.ready")
    return opened


def coloured(colour: str, size: tuple[int, int] = (56, 84)) -> bytes:
    return saved(plain(colour=colour, size=size), "PNG")


def png(colour: str, name: str | None = None) -> FilePayload:
    return {"name": name or f"{colour}.png", "mimeType": "image/png", "buffer": coloured(colour)}


def png_of(name: str, size: tuple[int, int]) -> FilePayload:
    return {"name": f"{name}.png", "mimeType": "image/png", "buffer": coloured("red", size)}


def pictures_sent(message: dict[str, Any]) -> list[str]:
    return [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]


def test_a_picture_is_seen_shown_and_sent_with_every_turn(page: Page) -> None:
    """Preview with name, size and what it costs; then in the message, large on demand; the model sees each."""
    bodies = record_requests(page)
    add(page, png("red"))
    expect(attached(page)).to_have_count(1)
    # 56 x 84 pixels are 2 x 3 cells, and two tokens around them.
    expect(attached(page)).to_contain_text("red.png")
    expect(attached(page)).to_contain_text("56 × 84")
    expect(attached(page)).to_contain_text("bytes, 8 tokens")
    answer = wait_over(ask(page, QUESTION))
    expect(answer.locator(".prose")).to_have_text("It is red.")
    expect(attached(page)).to_have_count(0)
    picture = page.locator(".from-user").get_by_role("img", name="red.png")
    expect(picture).to_be_visible()
    opener = page.get_by_role("button", name="red.png, show large")
    opener.press("Enter")
    viewer = page.get_by_role("dialog", name="red.png")
    expect(viewer.get_by_role("img")).to_be_visible()
    page.keyboard.press("Escape")
    expect(viewer).to_have_count(0)
    expect(opener).to_be_focused()
    add(page, png("blue"))
    expect(attached(page)).to_have_count(1)
    answer = wait_over(ask(page, QUESTION))
    expect(answer.locator(".prose")).to_have_text("It is blue.")
    first, _, second = bodies[1]["messages"]
    assert pictures_sent(first) == [data_url(coloured("red"))]
    assert pictures_sent(second) == [data_url(coloured("blue"))]
    assert second["content"][-1] == {"type": "text", "text": QUESTION}


def test_a_small_picture_is_not_enlarged(page: Page) -> None:
    """In a message, beside others or alone, and after a reload; a narrow one is cut, a wide one fits, as ever."""
    sizes = {"small": (20, 10), "wide": (1200, 30), "narrow": (30, 1200), "large": (800, 600)}
    add(page, *(png_of(name, size) for name, size in sizes.items()))
    expect(attached(page)).to_have_count(4)
    scale = "(image) => getComputedStyle(image).objectFit"
    assert set(page.locator(".attachment-picture").evaluate_all(f"images => images.map({scale})")) == {"scale-down"}
    wait_over(ask(page, QUESTION))
    for _ in ("as sent", "after a reload"):
        shown = page.locator(".from-user img")
        expect(shown).to_have_count(4)
        wait_until(page, "[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        wait_until(page, "document.querySelector('.from-user img').offsetHeight === 10")
        found = dict(
            zip(sizes, shown.evaluate_all("images => images.map((i) => [i.offsetWidth, i.offsetHeight])"), strict=True)
        )
        assert found["small"] == [20, 10]
        assert found["wide"][1] == 30
        assert found["narrow"] == [30, 144]
        assert found["large"] == [192, 144]
        page.reload()
    page.get_by_role("button", name="New chat").click()
    add(page, png_of("alone", (50, 40)))
    expect(attached(page)).to_have_count(1)
    wait_over(ask(page, QUESTION))
    alone = page.locator(".from-user img")
    assert alone.evaluate("(image) => [image.offsetWidth, image.offsetHeight]") == [50, 40]


def test_pictures_come_back_after_a_reload(page: Page) -> None:
    """From the server's memory, and the next turn sends the same bytes, so that the model's memory of it counts."""
    add(page, png("green"))
    expect(attached(page)).to_have_count(1)
    wait_over(ask(page, QUESTION))
    page.reload()
    expect(page.locator(".from-user").get_by_role("img", name="Picture 1")).to_be_visible()
    page.get_by_role("button", name="Picture 1, show large").click()
    viewer = page.get_by_role("dialog", name="Picture 1")
    expect(viewer).to_contain_text("56 × 84")  # what nobody keeps is found out again
    expect(viewer).to_contain_text("8 tokens")
    page.keyboard.press("Escape")
    expect(page.locator(".bubble")).to_have_text(QUESTION)
    bodies = record_requests(page)
    answer = wait_over(ask(page, "And now?"))
    assert pictures_sent(bodies[0]["messages"][0]) == [data_url(coloured("green"))]
    answer.locator(".receipt").click()
    expect(answer.locator(".receipt-details")).to_contain_text("only what is new")


def test_an_edited_message_keeps_loses_and_gets_pictures(page: Page) -> None:
    """Save without a change sends the same picture; another one takes its place; the model sees that one."""
    bodies = record_requests(page)
    add(page, png("red"))
    expect(attached(page)).to_have_count(1)
    wait_over(ask(page, QUESTION))
    page.get_by_role("button", name="Edit message").click()
    expect(page.locator(".editor .attachment-name")).to_have_text("red.png")
    page.get_by_role("button", name="Save & send").click()
    wait_over(page.locator(".from-model"))
    assert bodies[1]["messages"] == bodies[0]["messages"]
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("button", name="Remove red.png").click()
    expect(page.get_by_label("Your message")).to_be_focused()
    hand_over(page.get_by_label("Your message"), "drop", [png("blue")])
    expect(page.locator(".editor .attachment-name")).to_have_text("blue.png")
    expect(attached(page)).to_have_count(0)
    page.get_by_role("button", name="Save & send").click()
    answer = wait_over(page.locator(".from-model"))
    expect(answer.locator(".prose")).to_have_text("It is blue.")
    page.get_by_role("button", name="Regenerate").click()
    answer = wait_over(page.locator(".from-model"))
    expect(answer.locator(".prose")).to_have_text("It is blue.")
    assert bodies[3]["messages"] == bodies[2]["messages"]


def test_files_are_pasted_and_dropped(page: Page) -> None:
    """Several at a time, anywhere on the page; where a program puts a picture beside its text, the text is meant."""
    hand_over(composer(page), "paste", [png("red"), png("blue")])
    expect(attached(page).locator(".attachment-name")).to_have_text(["red.png", "blue.png"])
    office = {"text/plain": "cells", "text/html": "<b>cells</b>"}
    hand_over(composer(page), "paste", [png("green")], office)
    main = page.get_by_role("main")
    hand_over(main, "dragover", [png("green")])
    expect(page.locator(".composer .drop-words")).to_be_visible()
    hand_over(main, "drop", [png("green", "dropped.png")])
    expect(page.locator(".drop-words")).to_have_count(0)
    expect(attached(page).locator(".attachment-name")).to_have_text(["red.png", "blue.png", "dropped.png"])
    page.get_by_role("button", name="Remove blue.png").click()
    expect(composer(page)).to_be_focused()
    expect(attached(page).locator(".attachment-name")).to_have_text(["red.png", "dropped.png"])


def test_a_picture_alone_is_a_message(page: Page) -> None:
    """Without a word; its message has nothing to copy."""
    bodies = record_requests(page)
    add(page, png("red"))
    expect(attached(page)).to_have_count(1)
    composer(page).press("Enter")
    wait_over(page.locator(".from-model"))
    assert [part["type"] for part in bodies[0]["messages"][0]["content"]] == ["image_url"]
    expect(page.locator(".bubble")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy message")).to_have_count(0)


REFUSED = {
    "moving.png": (moving("PNG"), "image/png", "animated"),
    "moving.webp": (moving("WEBP"), "image/webp", "animated"),
    "huge.png": (png_claiming(20_000, 20_000), "image/png", "is 20000 × 20000 pixels; a picture may have 67 million"),
    "photo.gif": (saved(plain("P"), "GIF"), "image/gif", "is no JPEG, PNG or WebP"),
    "broken.jpg": (b"\xff\xd8\xff\xe0" + bytes(60), "image/jpeg", "its file is damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused_by_name(page: Page, name: str) -> None:
    """At once, with the reason; the others and the text stay."""
    data, kind, words = REFUSED[name]
    composer(page).fill("kept")
    add(page, png("red"), {"name": name, "mimeType": kind, "buffer": data}, png("blue"))
    refused = page.get_by_role("alert")
    expect(refused).to_contain_text(f"{name} was not added: it")
    expect(refused).to_contain_text(words)
    expect(attached(page).locator(".attachment-name")).to_have_text(["red.png", "blue.png"])
    expect(composer(page)).to_have_value("kept")
    refused.get_by_role("button", name="Dismiss").click()
    expect(refused).to_have_count(0)


def test_a_heavy_file_is_refused_by_name(page: Page, tmp_path: Path) -> None:
    """Without being read."""
    heavy = tmp_path / "heavy.png"
    with heavy.open("wb") as file:
        file.truncate(20 * 1024 * 1024 + 1)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").first.click()
    chooser.value.set_files(heavy)
    words = "heavy.png was not added: it is larger than 20 MB, and more is not taken"
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(attached(page)).to_have_count(0)


def test_a_turned_photo_is_measured_as_it_is_seen(page: Page) -> None:
    """The size and the price of the upright picture; the server turns it."""
    add(page, {"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": turned(6)})
    expect(attached(page)).to_contain_text("30 × 40")


def test_all_pictures_of_a_chat_have_a_limit(page: Page, seeing_server: ServerProcess) -> None:
    """Those that were said count too. The server's figure, here a small one."""
    runtime = seeing_server.get("/api/runtime").json()
    runtime["limits"]["pictures"]["max_total_bytes"] = len(coloured("red")) * 2 + 20
    page.route("**/api/runtime", lambda route: route.fulfill(json=runtime))
    page.reload()
    add(page, png("red"))
    expect(attached(page)).to_have_count(1)
    wait_over(ask(page, QUESTION))
    add(page, png("blue"), png("green"))
    expect(page.get_by_role("alert")).to_contain_text("green.png was not added")
    expect(page.get_by_role("alert")).to_contain_text("of pictures already")
    expect(attached(page).locator(".attachment-name")).to_have_text(["blue.png"])


def test_a_model_that_sees_nothing_gets_no_picture(chromium_page: Page) -> None:
    """Told at once, by the model's name, and not after the message was sent."""
    add(chromium_page, png("red"))
    expect(chromium_page.get_by_role("alert")).to_contain_text(
        "red.png was not added: it is a picture, and scripted-model cannot see pictures."
    )
    expect(attached(chromium_page)).to_have_count(0)


def test_a_picture_that_the_server_refuses_is_not_lost(page: Page, watch: PageWatch) -> None:
    """A file that ends early looks well from its header; the message stays, and can be edited."""
    watch.expected.append("400")
    whole = saved(plain(size=(300, 300)), "JPEG")
    add(page, {"name": "half.jpg", "mimeType": "image/jpeg", "buffer": whole[: len(whole) // 2]})
    expect(attached(page)).to_have_count(1)
    answer = wait_over(ask(page, QUESTION), "failed")
    expect(answer).to_contain_text("picture")
    answer.get_by_role("button", name="Edit message").click()
    page.get_by_role("button", name="Remove half.jpg").click()
    page.get_by_label("Your message").press("Control+Enter")
    wait_over(page.locator(".from-model"))


def test_what_an_api_program_sent_comes_back_unchanged(page: Page, seeing_server: ServerProcess) -> None:
    """Text around a picture, calls and results: shown plainly, and in the next request as they were."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"word":"red"}'}}
    parts = [
        {"type": "text", "text": "Before "},
        {"type": "image_url", "image_url": {"url": data_url(coloured("red"))}},
        {"type": "text", "text": "and after."},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "<b>a colour</b>", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "It is a colour."},
    ]
    page.evaluate("sessionStorage.setItem('muse.session-started', 'yes')")
    page.request.put(
        f"{seeing_server.url}/v1/sessions/{session_id(page)}",
        data={"messages": messages},
    )
    page.reload()
    expect(page.locator(".bubble")).to_have_text("Before and after.")
    expect(page.locator(".calls")).to_contain_text("Called look_up")
    expect(page.locator(".calls pre")).to_contain_text('"word": "red"')
    result = page.locator(".from-other")
    expect(result.locator("pre")).not_to_be_visible()
    result.get_by_text("Result of look_up").press("Enter")
    expect(result.locator("pre")).to_have_text("<b>a colour</b>")
    bodies = record_requests(page)
    wait_over(ask(page, QUESTION))
    assert bodies[0]["messages"] == [*messages, {"role": "user", "content": QUESTION}]


def test_only_what_the_server_knows_is_sent(page: Page) -> None:
    """What exists for display only (names, sizes, keys, thoughts, figures) stays in the page, after a reload too."""
    bodies = record_requests(page)
    add(page, png("red"))
    expect(attached(page)).to_have_count(1)
    wait_over(ask(page, QUESTION))
    page.reload()
    expect(page.locator(".from-model .receipt")).to_be_visible()
    wait_over(ask(page, QUESTION))
    for body in bodies:
        for message in body["messages"]:
            assert set(message) == {"role", "content"}
            for part in message["content"] if isinstance(message["content"], list) else []:
                assert set(part) == {"type", part["type"]}
                assert part["type"] == "text" or set(part["image_url"]) == {"url"}
    assert len(bodies) == 2
