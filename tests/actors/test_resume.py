"""The worker dies in the middle of an answer: the reader sees a pause, and every byte once."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.reply import Failed, Finished
from actors.sessions.generated import Generated
from muse.api.chat_request import SamplingDefaults, parse_chat_request
from muse.protocol import IdsSegment, TextSegment, Tokens
from tests.actors.conftest import Core
from tests.actors.test_sessions import chat, finished, start

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
WORDS: list[Any] = ["It ", "rains ", {"hex": "f09f"}, {"hex": "98"}, {"hex": "80"}, " on ", "é", "verything", "."]
TEXT = "It rains 😀 on éverything."


def dying(tmp_path: Path, *, at: str = "token", times: int = 1, **place: Any) -> dict[str, Any]:
    """A fault that kills the worker `times` times over all restarts."""
    counter = str(tmp_path / f"deaths-{at}-{place.get('token', 0)}")
    return {"at": at, "do": "signal", "signal": "SIGKILL", "counter": counter, "times": times, **place}


def script(*faults: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"answers": [{"tokens": WORDS, "faults": list(faults), **fields}]}


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "text"])
@pytest.mark.parametrize("token", range(len(WORDS)))
async def test_a_death_before_any_token_loses_nothing(core: CoreFactory, tmp_path: Path, token: int, ids: bool) -> None:
    """Whichever token it dies before, also inside a character, also when ids are unknown: the text is that
    of the undisturbed answer, and the receipt says that it was resumed."""
    async with core(script(dying(tmp_path, token=token), ids=ids)) as running:
        reply = await start(running, chat("hi"))
        outcome = await finished(reply)
        assert reply.text("answer") == TEXT
        assert outcome.finish_reason == "stop"
        assert outcome.metrics.resumed == 1
        assert running.board.value.worker.epoch == 2


async def test_a_death_inside_a_stop_candidate_still_matches(core: CoreFactory, tmp_path: Path) -> None:
    """What the matcher holds back survives the death: the stop string spans the two workers."""
    async with core(script(dying(tmp_path, token=5))) as running:
        reply = await start(running, chat("hi", stop=["😀 on é"]))
        assert (await finished(reply)).finish_reason == "stop"
        assert reply.text("answer") == "It rains "


async def test_the_budget_counts_over_the_death(core: CoreFactory, tmp_path: Path) -> None:
    """max_tokens is for the whole answer, not for each worker."""
    async with core(script(dying(tmp_path, token=2))) as running:
        reply = await start(running, chat("hi", max_tokens=6))
        outcome = await finished(reply)
        assert (outcome.finish_reason, outcome.metrics.completion_tokens) == ("length", 6)
        assert reply.text("answer") == "It rains 😀 on "


async def test_two_deaths_are_survived_and_the_third_is_told(core: CoreFactory, tmp_path: Path) -> None:
    """At most two resumes; then an error behind the text that was sent."""
    faults = [dying(tmp_path, token=token) for token in (1, 2, 6)]
    async with core(script(*faults[:2])) as running:
        reply = await start(running, chat("hi"))
        assert (await finished(reply)).metrics.resumed == 2
        assert reply.text("answer") == TEXT
    for marker in tmp_path.glob("deaths-*"):
        marker.unlink()
    async with core(script(*faults)) as running:
        reply = await start(running, chat("hi"))
        outcome = await reply.wait_outcome()
        assert isinstance(outcome, Failed)
        assert outcome.fault.code == "worker_lost"
        assert reply.text("answer") == "It rains 😀 on "


@pytest.mark.parametrize("place", [{"at": "prefill"}, {"at": "token", "token": 3}], ids=["prefill", "decode"])
async def test_a_poison_prompt_ends_and_harms_nobody_else(
    core: CoreFactory, tmp_path: Path, place: dict[str, Any]
) -> None:
    """Dying twice at the same place: an error of its own name; the next request is answered."""
    poison = {"when": "poison", "tokens": WORDS, "faults": [dying(tmp_path, times=9, **place)]}
    async with core({"answers": [poison, {"tokens": ["fine"]}]}) as running:
        reply = await start(running, chat("poison"))
        outcome = await reply.wait_outcome()
        assert isinstance(outcome, Failed)
        assert outcome.fault.code == "poison_prompt"
        other = await start(running, chat("hi"))
        await finished(other)
        assert other.text("answer") == "fine"


FORMS: dict[str, dict[str, Any]] = {
    "json": {"response_format": {"type": "json_object"}},
    "call": {
        "tools": [{"type": "function", "function": {"name": "wave"}}],
        "tool_choice": "required",
    },
}
CALL: list[Any] = ['{"name":', '"wa', 've","arguments":{"to":"', {"hex": "f09f"}, {"hex": "9880"}, '"}}']


@pytest.mark.parametrize(("token", "ids"), [(0, True), (2, True), (4, True), (5, True), (3, False)])
@pytest.mark.parametrize("form", FORMS)
async def test_a_constrained_answer_goes_on(
    core: CoreFactory, tmp_path: Path, form: str, token: int, ids: bool
) -> None:
    """The next worker is told what was sent of it (and checks that the prompt ends in the same); twice."""
    faults = [dying(tmp_path, token=place) for place in {token, len(CALL) - 1}]
    answer = {"tokens": CALL, "faults": faults, "ids": ids}
    async with core({"answers": [answer], "grammar": True}) as running:
        reply = await start(running, chat("hi", **FORMS[form]))
        outcome = await finished(reply)
        assert outcome.metrics.resumed == len(faults)
        if form == "json":
            assert json.loads(reply.text("answer")) == {"name": "wave", "arguments": {"to": "😀"}}
            assert outcome.finish_reason == "stop"
        else:
            assert [(call.name, call.arguments) for call in reply.calls] == [("wave", '{"to":"😀"}')]
            assert (outcome.finish_reason, reply.text("answer")) == ("tool_calls", "")


@pytest.mark.parametrize("limit", [1, 3, 5])
@pytest.mark.parametrize("form", FORMS)
async def test_a_cut_constrained_answer_is_continued(core: CoreFactory, form: str, limit: int) -> None:
    """In its form, without that being said again. A cut call is no text of the answer; the continuation makes it
    whole."""
    async with core({"answers": [{"tokens": CALL}], "grammar": True}) as running:
        first = await start(running, chat("hi", max_tokens=limit, **FORMS[form]))
        assert (await finished(first)).finish_reason == "length"
        body = {"muse": {"continue": first.id}}
        second = await start(running, parse_chat_request(body, SamplingDefaults()))
        outcome = await finished(second)
        if form == "json":
            whole = json.loads(first.text("answer") + second.text("answer"))
            assert whole == {"name": "wave", "arguments": {"to": "😀"}}
            assert outcome.finish_reason == "stop"
        else:
            assert [(call.name, call.arguments) for call in second.calls] == [("wave", '{"to":"😀"}')]
            assert (outcome.finish_reason, first.text("answer"), second.text("answer")) == ("tool_calls", "", "")


@pytest.mark.parametrize(
    ("form", "field"), [("json", "response_format.json_schema.schema"), ("call", "tools[0].function.parameters")]
)
async def test_a_dead_end_is_told_with_its_field(core: CoreFactory, form: str, field: str) -> None:
    """What was sent stays, the worker lives, the next request is answered."""
    dead = {"when": "dead", "tokens": CALL, "faults": [{"at": "token", "token": 2, "do": "dead_end"}]}
    async with core({"answers": [dead, {"tokens": ["fine"]}], "grammar": True}) as running:
        reply = await start(running, chat("dead", **FORMS[form]))
        outcome = await reply.wait_outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.fault.code, outcome.fault.status, outcome.fault.param) == ("constrained_dead_end", 400, field)
        assert reply.text("answer") == ('{"name":"wa' if form == "json" else "")
        other = await start(running, chat("hi"))
        await finished(other)
        assert other.text("answer") == "fine"
        assert running.board.value.worker.epoch == 1


@pytest.mark.parametrize("held", [True, False], ids=["a form", "no form"])
async def test_a_stop_string_does_not_hide_a_broken_form(core: CoreFactory, held: bool) -> None:
    """The engine says at the end that its answer was not what it had to be. Without a form the end that the stop
    string put to the answer is all that counts."""
    broken = script({"at": "cancel", "do": "error_request"})
    broken["answers"][0]["token_ms"] = 200  # the cancel has to come before the last token
    async with core({**broken, "grammar": True}) as running:
        form = {"response_format": {"type": "json_object"}} if held else {}
        reply = await start(running, chat("hi", stop=["rains"], **form))
        outcome = await reply.wait_outcome()
        assert reply.text("answer") == "It "
        if held:
            assert isinstance(outcome, Failed)
            assert outcome.fault.code == "engine_error"
        else:
            assert isinstance(outcome, Finished)
            assert outcome.finish_reason == "stop"


async def test_an_engine_without_grammars_refuses_a_form(core: CoreFactory) -> None:
    """By the name of the field, before it begins."""
    async with core(script()) as running:
        reply = await start(running, chat("hi", response_format={"type": "json_object"}))
        outcome = await reply.wait_outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.fault.status, outcome.fault.param) == (400, "response_format")


async def test_cancel_while_resuming_ends_at_once(core: CoreFactory, tmp_path: Path) -> None:
    """The next worker takes long to load: nobody has to wait for it to cancel."""
    slow = {**script(dying(tmp_path, token=2)), "faults": [
        {"at": "load", "do": "delay", "ms": 20000, "counter": str(tmp_path / "loads"), "times": 1}
    ]}  # fmt: skip
    (tmp_path / "loads").write_text("1")  # the first load is quick: its delay counts as used up
    async with core(slow) as running:
        reply = await start(running, chat("hi"))
        while not reply.end:
            await reply.wait_news(reply.end, reply.sign_version)
        (tmp_path / "loads").write_text("0")
        await running.wait_worker("restarting", "starting", "loading")
        reply.abandon()
        outcome = await finished(reply)
        assert outcome.finish_reason == "cancelled"
        assert reply.text("answer") == "It rains "
        await running.wait_idle()


async def test_the_reader_sees_the_restart_as_a_sign(core: CoreFactory, tmp_path: Path) -> None:
    """While the model restarts, the stream's sign of life says so."""
    async with core({**script(dying(tmp_path, token=2)), "load_ms": 300}) as running:
        reply = await start(running, chat("hi"))
        phases: list[str] = []
        while reply.outcome is None:
            if reply.sign is not None and reply.sign.phase not in phases[-1:]:
                phases.append(reply.sign.phase)
            await reply.wait_news(reply.end, reply.sign_version)
        after_decode = phases[phases.index("decode") :]
        assert {"restarting", "loading"} & set(after_decode)
        assert reply.sign is not None
        assert reply.sign.phase == "decode"


def test_generated_keeps_ids_and_text_in_order() -> None:
    """Known runs stay ids, unknown ones become text without control tokens, and then no ids are claimed."""
    generated = Generated()
    for ids, text in [((1, 2), "a"), ((3,), "b"), (None, "é"), (None, "è"), ((4,), "c")]:
        generated.add(Tokens(request_id="r", ids=ids, text=text))
    assert generated.segments() == (
        IdsSegment(ids=(1, 2, 3)),
        TextSegment(text="éè", special=False),
        IdsSegment(ids=(4,)),
    )
    assert generated.ids() is None
    assert generated.tokens == 8
