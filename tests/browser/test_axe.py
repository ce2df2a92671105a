"""axe-core finds nothing: in every state of the page, in both themes, on a wide screen and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import Axe, axe_script
from tests.browser.conftest import PageWatch
from tests.browser.files import add, attached, composer, hand_over
from tests.browser.held_stream import holding
from tests.browser.scripts import TOUR, ask, wait_over
from tests.browser.test_answer_text import ALERTS
from tests.browser.test_chat_files import PIXEL, document, give, open_chats
from tests.browser.test_composer import SAVE, SAVED, queued, say
from tests.browser.test_rich_text import FOOTNOTES, FORMULAS
from tests.browser.thinking_script import head_of, text_of
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

CALL = {"id": "call-1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
RECEIPT: dict[str, Any] = {
    "prompt_tokens": 900, "reused_prompt_tokens": 400, "prefilled_prompt_tokens": 500, "prefill_ms": 100.0,
    "completion_tokens": 80, "decode_ms": 800.0, "decode_tokens_per_second": 100.0, "thinking_tokens": 30,
    "thinking_ms": 300.0, "queue_ms": 20.0, "time_to_first_token_ms": 130.0, "total_ms": 950.0, "resumed": 1,
    "vision_encoder_ms": 50.0, "images_scaled": 1, "draft_proposed": 90, "draft_accepted": 70, "tool_repairs": 1,
    "tool_warning": "No tool is called that.", "max_tokens_cut_to": 200, "session_reset_reason": "rewound",
    "session_reset_explanation": "The conversation was changed, so the model went back.",
    "context": {"length": 1000, "system": 100, "history": 300, "images": 200, "tools": 100, "question": 100,
                "begun": 50, "thinking": 30, "answer": 50},
}  # fmt: skip
CORNER = "| | a |\n|--|--|\n| b | 1 |\n"
PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}
EVERY_KIND = document(
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [PICTURE, {"type": "text", "text": "Look at this. " * 300}]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call-1", "content": "Rain."},
    {"role": "system", "content": "Now be brief."},
    {"role": "assistant", "content": "It is cut", "finish_reason": "length"},
    {"role": "user", "content": f"{SAVED}\n\nAnd then?"},
    {"role": "assistant", "content": "Mine.", "edited": True},
    {"role": "user", "content": "What else?"},
    {"role": "assistant", "content": "", "state": "stopped"},
    {"role": "user", "content": "What else, please?"},
    {"role": "assistant", "content": "Half", "state": "interrupted", "error": {"message": "It broke.", "code": "x"}},
    {"role": "user", "content": "All of it, please."},
    {
        "role": "assistant",
        "content": f"{TOUR}\n{CORNER}\n{ALERTS}\n{FORMULAS}\n{FOOTNOTES}",
        "metrics": RECEIPT,
        "reasoning_content": TOUR,
    },
    {"role": "user", "content": "More?"},
    {"role": "assistant", "content": "No", "state": "failed", "error": {"message": "It failed.", "code": "died"}},
)


@pytest.fixture(scope="module")
def script() -> str:
    """axe-core."""
    return axe_script()


@pytest.fixture
def page(open_page: Callable[..., Page], thinking_server: ServerProcess) -> Page:
    """A page in which nothing moves: a colour on its way to another is none that anybody chose."""
    page = open_page(thinking_server.url, reduced_motion="reduce")
    page.wait_for_selector(".status.ready")
    return page


@pytest.fixture
def axe(page: Page, script: str) -> Iterator[Axe]:
    """The checker of that page; the test fails at its end with all that was found."""
    axe = Axe(page, script)
    yield axe
    assert axe.found == [], "\n".join(axe.found)


def test_faults_are_found_and_the_page_is_left_alone(page: Page, script: str) -> None:
    """A button without a name, grey on grey inside the conversation, a gap between headings; and no trace of axe."""
    axe = Axe(page, script)
    assert axe.faults() == []
    before = page.evaluate("document.documentElement.outerHTML")
    page.evaluate(
        """() => {
          const add = (tag, text, style) => document.querySelector(".empty").append(
            Object.assign(document.createElement(tag), {textContent: text, style}));
          add("button", "", "width: 2rem; height: 2rem");
          add("p", "Grey", "color: #999; background: #888");
          add("h6", "Deep", "");
        }"""
    )
    rules = {fault.partition(":")[0] for fault in axe.faults()}
    assert rules == {"button-name", "color-contrast", "heading-order"}
    page.evaluate("document.querySelectorAll('.empty > :nth-last-child(-n + 3)').forEach((e) => e.remove())")
    assert page.evaluate("document.documentElement.outerHTML") == before
    assert page.evaluate("'axe' in window") is False


def test_an_answer_from_its_question_to_its_end(page: Page, axe: Axe) -> None:
    """Empty, thinking, told to answer, writing, queue with files, stopped in thought and text, and what it saw."""
    axe.look("empty")
    answer = ask(page, "endless")
    expect(answer.locator(".thought")).to_contain_text("Step 3 leads")
    axe.look("thinking", "main")
    page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    axe.look("stopped in thought", "main")
    answer.get_by_role("button", name="Answer now").click()
    expect(text_of(answer)).to_contain_text("Step 1 leads")
    axe.look("writing")
    add(page, SAVE)
    say(page, "first")
    say(page, "second")
    expect(queued(page)).to_have_count(2)
    axe.look("queue", "footer")
    page.locator(".transcript").evaluate("e => e.scrollTo(0, 0)")
    page.get_by_role("button", name="Jump to newest").wait_for()
    axe.look("scrolled up", "main")
    page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    axe.look("stopped with a queue", ".frame")
    answer.get_by_role("button", name="What the model saw").click()
    page.locator(".seen-parts").wait_for()
    axe.look("what the model saw", ".seen")
    page.keyboard.press("Escape")


def test_every_kind_of_turn(page: Page, axe: Axe) -> None:
    """Pictures, tools, other roles, each way to end, all of Markdown, receipts; then changed, deleted, undone."""
    open_chats(page)
    give(page, EVERY_KIND)
    expect(page.locator(".remark")).to_have_count(1)
    page.get_by_role("button", name="Close chats").click()
    expect(page.locator("math")).not_to_have_count(0)
    page.locator(".hl-keyword").first.wait_for()
    for details in page.locator(".transcript details").all():
        details.locator("summary").click()
    rich = page.locator(".from-model").nth(5)
    rich.locator(".receipt").click()
    head_of(rich).click()
    expect(rich.locator(".thought h3")).to_have_count(1)
    axe.look("every kind of turn")
    page.get_by_role("button", name="Picture 1, show large").click()
    axe.look("picture", ".viewer")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="save.py").click()
    axe.look("file", ".file-view")
    page.keyboard.press("Escape")
    axe.look("file of a message", ".files")
    rich.get_by_role("button", name="Source text").click()
    page.get_by_role("button", name="Edit message").first.click()
    page.get_by_role("button", name="Edit answer").last.click()
    expect(page.locator(".editor")).to_have_count(2)
    axe.look("source, editors", ".transcript")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete from here").nth(-3).click()
    page.get_by_role("button", name="Undo").wait_for()
    axe.look("deleted", "footer")
    page.get_by_role("button", name="New chat").click()
    axe.look("put away")


def test_what_stands_around_the_composer(page: Page, axe: Axe, watch: PageWatch) -> None:
    """Files, files that were refused, and a change that the server refused."""
    wait_over(ask(page, "plain"))
    files = [{**SAVE, "name": "old.exe", "buffer": b"MZ\0"}, SAVE]
    hand_over(composer(page), "paste", files)  # type: ignore[arg-type]
    expect(attached(page)).to_have_count(1)
    composer(page).fill("Some words.")
    watch.expected.append("503")
    down = {"error": {"message": "No model.", "type": "server_error", "code": "model_unavailable", "param": None}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=down), times=1)
    page.get_by_role("button", name="Regenerate").click()
    page.locator(".banner").wait_for()
    axe.look("files and refusals", "footer")


def test_the_settings(page: Page, axe: Axe) -> None:
    """All sections, a fault in a field, the forms and rows of presets, and the list of keys."""
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System message").fill("Be kind.")
    page.get_by_label("High", exact=True).check()
    page.get_by_role("button", name="Add a stop string").click()
    for name in ("One", "Two", "Three"):
        page.get_by_role("button", name="Save these settings").click()
        page.get_by_label("Name of the preset").fill(name)
        page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Delete Two").click()
    page.get_by_role("button", name="Save these settings").click()
    page.get_by_label("Name of the preset").fill("One")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#name-fault")).to_contain_text("There is one of that name already.")
    page.get_by_label("Temperature", exact=True).fill("7")
    expect(page.locator(".setting-help.fault").first).to_contain_text("from")
    axe.look("settings")
    page.get_by_role("button", name="Close settings").click()
    page.get_by_role("region", name="Conversation").press("?")
    axe.look("keys", ".shortcuts")
    page.keyboard.press("Escape")
    expect(page.locator(".along")).to_have_text("System message, 1 setting changed")
    axe.look("what goes along", "footer")


def test_the_chats(page: Page, axe: Axe) -> None:
    """Nothing to save; then kept chats, what is asked before one is deleted, and a file that is none."""
    open_chats(page)
    axe.look("chats, none", "#chats")
    for text in ("plain one", "plain two"):
        wait_over(ask(page, text))
        page.get_by_label("Save this chat in this browser").check()
        page.get_by_role("button", name=f"Delete {text}").last.wait_for()
        page.get_by_role("button", name="New chat").click()
    give(page, "no chat")
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="plain one").first.click()
    expect(page.locator("[aria-current]")).to_have_count(1)
    page.get_by_role("button", name="Delete plain two").last.click()
    page.get_by_label("Save this chat in this browser").click()
    expect(page.get_by_role("group", name="Stop saving this chat?")).to_be_visible()
    axe.look("chats")


def test_a_server_that_is_not_ready(page: Page, script: str, thinking_server: ServerProcess, watch: PageWatch) -> None:
    """Loading, in line, reading, restarting, failed, offline, and an answer that waits through all of it."""
    state = thinking_server.wait_state("ready")
    watch.expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
    status = page.get_by_test_id("status")
    with holding() as feed, holding() as answering:
        feed.replace(page, "**/api/events")
        answering.replace(page, "**/v1/chat/completions")

        def tell(words: str, **worker: Any) -> None:
            feed.event("state", {**state, "worker": {**state["worker"], **worker}})
            expect(status).to_contain_text(words)

        page.reload()
        axe = Axe(page, script)
        tell("40 %", state="loading", fraction=0.4)
        waiting = ask(page, "anything").locator(".waiting")
        for words, sign in {
            "to load, 40 %": {"phase": "loading", "fraction": 0.4},
            "Queued, 2nd": {"phase": "queued", "position": 2},
            "Reading": {"phase": "prefill", "processed": 500, "total": 1000, "reused": 100},
            "restarting": {"phase": "restarting"},
        }.items():
            answering.sign(**sign)
            expect(waiting).to_contain_text(words)
            axe.look(words, ".frame")
        tell("Restarting", state="restarting")
        axe.look("restarting", ".frame")
        answering.end()
        wait_over(page.locator(".from-model"), "failed")
        tell("Model failed", state="failed", reason="Its file is broken.")
        page.get_by_role("button", name="Try again").wait_for()
        axe.look("failed", ".frame")
        feed.end()
        expect(status).to_contain_text("Offline")
        axe.look("offline", ".frame")
        assert axe.found == [], "\n".join(axe.found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_the_systems_colours(
    open_page: Callable[..., Page], thinking_server: ServerProcess, script: str, scheme: str
) -> None:
    """Forced colours: a conversation with its figures, and the settings."""
    page = open_page(thinking_server.url, forced_colors="active", color_scheme=scheme, reduced_motion="reduce")
    axe = Axe(page, script)
    answer = wait_over(ask(page, "Why?"))
    head_of(answer).click()
    answer.locator(".receipt").click()
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("High", exact=True).check()
    assert axe.faults() == []
