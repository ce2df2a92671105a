"""Answers that ended too early go on in their place: what is shown, what the server holds, and a refusal in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from actors.sessions.earlier import reply_not_found
from tests.browser.conftest import PageWatch
from tests.browser.scripts import LINES, ask, record_requests, session_id, wait_over
from tests.browser.thinking_script import ANSWER, THOUGHT, head_of, longest_answer, text_of
from tests.server_process import ServerProcess
from tests.worker.nano import turns

pytestmark = pytest.mark.browser


def newest(page: Page, server: ServerProcess) -> dict[str, Any]:
    """The last message of this chat as the server holds it."""
    return server.get(f"/v1/sessions/{session_id(page)}").json()["messages"][-1]


def go_on(answer: Locator, name: str = "Continue") -> None:
    """Press the button, and wait until the answer runs again."""
    with answer.page.expect_response("**/v1/chat/completions") as response:
        answer.get_by_role("button", name=name).click()
    assert response.value.status == 200


def cut_answer(page: Page, tokens: int, text: str = "yes?") -> Locator:
    """An answer that was cut off; what comes next is not."""
    longest_answer(page, str(tokens))
    answer = wait_over(ask(page, text))
    longest_answer(page, "")
    return answer


def assert_whole(page: Page, server: ServerProcess) -> None:
    """One answer, as if it had never been cut: on the page, at the server, and after a reload."""
    for _ in ("at once", "after a reload"):
        expect(page.locator(".turn")).to_have_count(2)
        answer = wait_over(page.locator(".from-model"))
        expect(text_of(answer).locator("p, pre")).to_have_count(3)
        expect(text_of(answer).locator("pre")).to_have_text('def reason() -> str:\n    return "so"')
        if head_of(answer).get_attribute("aria-expanded") == "false":
            head_of(answer).click()
        expect(answer.locator(".thought pre")).to_have_text('answer = "yes"')
        expect(answer.locator(".note")).to_have_count(0)
        answer.locator(".receipt").click()
        expect(answer.locator(".receipt-details")).to_contain_text("written before")
        page.reload()
        expect(page.locator(".from-model")).to_have_count(1)
    held = newest(page, server)
    assert (held["content"], held["reasoning_content"]) == (ANSWER, THOUGHT)


@pytest.mark.parametrize("tokens", [18, 34, 47], ids=["in code of the thought", "between", "in code of the answer"])
def test_a_cut_answer_goes_on_in_its_place(thinking_page: Page, thinking_server: ServerProcess, tokens: int) -> None:
    """Wherever it was cut: one answer, one history, and the next turn reads only what is new."""
    answer = cut_answer(thinking_page, tokens)
    expect(answer.locator(".note")).to_contain_text("Cut off")
    bodies = record_requests(thinking_page)
    reply = newest(thinking_page, thinking_server)["reply_id"]
    go_on(answer)
    wait_over(answer)
    (body,) = bodies
    assert body["muse"] == {"continue": reply, "detached": True}
    assert set(body) == {"muse", "stream", "chat_template_kwargs"}
    assert_whole(thinking_page, thinking_server)
    wait_over(ask(thinking_page, "plain"))
    assert [message["content"] for message in bodies[-1]["messages"]] == ["yes?", ANSWER, "plain"]
    assert newest(thinking_page, thinking_server)["muse_metrics"]["session_reset_reason"] == "exact_prefix"


def test_thinking_that_used_the_budget_up_says_so(thinking_page: Page, thinking_server: ServerProcess) -> None:
    """The thought stays open under words of what happened; Answer now ends it without another token of it."""
    answer = cut_answer(thinking_page, 14)
    expect(answer.locator(".note")).to_contain_text("Cut off while thinking")
    expect(head_of(answer)).to_have_attribute("aria-expanded", "true")
    expect(head_of(answer)).to_contain_text("Thought for under 1 s · 12 tokens")
    thought = newest(thinking_page, thinking_server)["reasoning_content"]
    bodies = record_requests(thinking_page)
    go_on(answer, "Answer now")
    wait_over(answer)
    expect(text_of(answer)).to_contain_text("Yes, because")
    expect(head_of(answer)).to_have_attribute("aria-expanded", "false")
    expect(head_of(answer)).to_contain_text("12 tokens")
    assert bodies[0]["muse"]["max_thinking_tokens"] == 0
    held = newest(thinking_page, thinking_server)
    assert held["reasoning_content"] == thought
    assert held["muse_metrics"]["thinking_tokens"] == 0


def test_a_real_model_goes_on_as_if_it_had_not_been_cut(
    open_page: Callable[..., Page], nano_server: ServerProcess
) -> None:
    """Once in its thought and once in its answer: the text is what it knows by heart."""
    (known,) = turns("story")
    page = open_page(nano_server.url)
    page.wait_for_selector(".status.ready")
    longest_answer(page, "40")
    answer = wait_over(ask(page, known["messages"][0]["content"]))
    expect(answer.locator(".note")).to_contain_text("Cut off while thinking")
    go_on(answer)
    wait_over(answer)
    expect(answer.locator(".note")).to_contain_text("Cut off: the longest answer")
    longest_answer(page, "")
    go_on(answer)
    wait_over(answer)
    held = newest(page, nano_server)
    assert held["content"] == known["answer"]["message"]["content"]
    assert held["reasoning_content"] == known["answer"]["reasoning"][0]
    expect(text_of(answer)).to_have_text(held["content"], use_inner_text=True)


def test_a_stopped_answer_goes_on(thinking_page: Page) -> None:
    """Also more than once, and also after a reload; it is announced when it is whole."""
    answer = ask(thinking_page, "lines")
    for line in ("Line 3", "Line 12"):
        expect(text_of(answer)).to_contain_text(line)
        thinking_page.get_by_role("button", name="Stop").click()
        wait_over(answer, "stopped")
        expect(answer.locator(".note p")).to_have_text("Stopped here.")
        thinking_page.reload()
        go_on(answer)
    wait_over(answer)
    expect(text_of(answer).locator("p")).to_have_text(LINES)
    expect(thinking_page.get_by_test_id("announce-answer")).to_contain_text("Answer finished. Line 1")


def test_a_reload_while_it_goes_on_loses_nothing(thinking_page: Page) -> None:
    """What came before the continuation is there, and every line of it once."""
    answer = cut_answer(thinking_page, 80, "lines")
    begun = text_of(answer).locator("p").count()
    go_on(answer)
    expect(text_of(answer)).to_contain_text(f"Line {begun + 4} ")
    thinking_page.reload()
    answer = thinking_page.locator(".from-model")
    expect(answer).to_have_attribute("data-phase", "writing")
    expect(text_of(answer)).to_contain_text("Line 1 ")
    expect(head_of(answer)).to_contain_text("Thought for")
    wait_over(answer)
    expect(text_of(answer).locator("p")).to_have_text(LINES)


def refusal_of(code: str, message: str) -> dict[str, Any]:
    """An error body of the server."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": "muse.continue"}}


def test_a_forgotten_reply_is_said_and_the_answer_stays(thinking_page: Page, watch: PageWatch) -> None:
    """After five minutes: its text and its way to end are as before; it can be asked for anew."""
    watch.expected.append("404")
    answer = cut_answer(thinking_page, 45)
    before = text_of(answer).inner_text()
    gone = refusal_of("reply_not_found", reply_not_found().detail)
    thinking_page.route("**/v1/chat/completions", lambda route: route.fulfill(status=404, json=gone), times=1)
    answer.get_by_role("button", name="Continue").click()
    alert = thinking_page.get_by_role("alert")
    expect(alert).to_contain_text("kept for five minutes")
    wait_over(answer)
    expect(answer.locator(".note")).to_contain_text("Cut off")
    assert text_of(answer).inner_text() == before
    alert.get_by_role("button", name="Regenerate").click()
    expect(alert).to_have_count(0)
    expect(text_of(thinking_page.locator(".from-model"))).to_contain_text("That is all.")


def test_a_reply_that_still_runs_is_read_on(thinking_page: Page, watch: PageWatch) -> None:
    """The page had lost sight of it: the refusal offers to read what came meanwhile, and nothing is missing."""
    watch.expected += ["409", "ERR_CONNECTION_REFUSED"]
    answer = ask(thinking_page, "endless")
    expect(answer.locator(".thought")).to_contain_text("Step 3 leads")
    # Stop reaches nobody, and the page does not wait for ever.
    thinking_page.route("**/api/cancel", lambda route: route.abort("connectionrefused"))
    thinking_page.get_by_role("button", name="Stop").click()
    wait_over(answer, "stopped")
    begun = answer.locator(".thought p").count()
    answer.get_by_role("button", name="Continue").click()
    alert = thinking_page.get_by_role("alert")
    expect(alert).to_contain_text("still being given")
    alert.get_by_role("button", name="Read on").click()
    expect(alert).to_have_count(0)
    expect(answer.locator(".thought p").nth(begun + 3)).to_be_visible()
    steps = answer.locator(".thought p").all_inner_texts()[: begun + 3]
    assert steps == [f"Step {number % 60 + 1} leads to the next one." for number in range(begun + 3)]


def test_a_worker_that_dies_in_mid_thought_is_no_loss(thinking_page: Page) -> None:
    """The thought goes on where it was, and the receipt says so."""
    answer = wait_over(ask(thinking_page, "fragile"))
    expect(text_of(answer)).to_contain_text("That is all.")
    head_of(answer).click()
    expect(answer.locator(".thought li")).to_have_text(["Say yes.", "Say why."])
    expect(answer.locator(".thought p").last).to_have_text("So: yes, and a word about the reason.")
    answer.locator(".receipt").click()
    expect(answer.locator(".receipt-details")).to_contain_text("continued after the model restarted")


def test_an_answer_that_failed_after_text_goes_on(thinking_page: Page, thinking_server: ServerProcess) -> None:
    """The model died too often: the error stands under what was said, and Continue gives the rest."""
    answer = wait_over(ask(thinking_page, "broken"), "failed")
    expect(answer.get_by_role("group", name="Error")).to_be_visible()
    said = newest(thinking_page, thinking_server)["content"]
    assert said
    assert ANSWER.startswith(said)
    thinking_page.reload()
    go_on(answer)
    wait_over(answer)
    assert_whole(thinking_page, thinking_server)


def test_an_answer_of_another_chat_does_not_go_on(thinking_page: Page, watch: PageWatch) -> None:
    """In a copy of the tab: ask anew, or in its place. One that was left and reopened in its own tab does."""
    watch.expected.append("a popup")
    answer = cut_answer(thinking_page, 45)
    expect(answer.get_by_role("button", name="Continue")).to_be_visible()
    with thinking_page.expect_popup() as copied:
        thinking_page.evaluate("void open(location.href)")
    expect(copied.value.locator(".note")).to_contain_text("Cut off")
    expect(copied.value.get_by_role("button", name="Continue")).to_have_count(0)
    copied.value.close()
    thinking_page.get_by_role("button", name="New chat").click()
    thinking_page.get_by_role("button", name="Reopen the previous chat").click()
    expect(answer.locator(".note")).to_contain_text("Cut off")
    go_on(answer)
    wait_over(answer)
    expect(text_of(answer)).to_contain_text("That is all.")
