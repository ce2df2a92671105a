"""Calls of tools through a real worker: certain calls, broken ones, repairs, further turns, going on after a death."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.reply import Reply
from actors.sessions.messages import DescribeSession
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.responses import call_dict
from tests.actors.conftest import Core
from tests.actors.test_resume import dying
from tests.actors.test_sessions import finished, start
from tests.unit.test_chat_template_tools import MUSE, MUSE_SPECIAL

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "clock"}},
    {
        "type": "function",
        "function": {
            "name": "weather.get",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    },
]
USER = {"role": "user", "content": "Rome?"}
THOUGHT = [" to=self", "<|message|>", "I ask", " both.", "<|eom|>", "<|start|>", "assistant"]
BLOCK = [
    *(" to=weather", ".get", "<|message|>", "<atem:function", "_calls>\n", '<atem:invoke name="weather.get">\n'),
    *('<atem:parameter name="city">', {"hex": "4bc3"}, {"hex": "b66c6e"}, "</atem:para", "meter>\n"),
    *('<atem:parameter name="days">', "3", "</atem:parameter>\n", "</atem:invoke>\n", "</atem:function_calls>"),
]
CLOCK = [" to=clock", "<|message|>", '<atem:function_calls>\n<atem:invoke name="clock">\n', "</atem:invoke>\n"]
TWO = [*THOUGHT, *BLOCK, "<|eom|>", "<|start|>", "assistant", *CLOCK, "</atem:function_calls>"]
BROKEN_TEXT = '<atem:function_calls>\n<atem:invoke name="rain">\n</atem:invoke>\n</atem:function_calls>'
BROKEN = [" to=rain", "<|message|>", BROKEN_TEXT]
ANSWER = [" to=user", "<|message|>", "It is ", "sunny."]
HARD_PLACES = (8, 11, 15, 16, 21, 26)
"""In a header, before a tag, in a character, behind it, between two messages, in the second call."""
EXPECTED = [("weather.get", {"city": "Köln", "days": 3}), ("clock", {})]


def script(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"special_tokens": ["<|eot|>", *MUSE_SPECIAL[:-1]], "chat_template": MUSE, "answers": list(answers)}


def request(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    return parse_chat_request({"messages": [USER, *messages], "tools": TOOLS, **fields}, SamplingDefaults())


def calls_of(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.calls]


def echoed(reply: Reply) -> dict[str, Any]:
    """The answer as a client hands it back."""
    calls = [call_dict(call) for call in reply.calls]
    return {"role": "assistant", "content": reply.text("answer") or None, "tool_calls": calls}


def results(reply: Reply) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call.id, "content": f"{call.name}: fine"} for call in reply.calls]


async def test_calls_are_given_apart_from_text_and_thoughts(core: CoreFactory) -> None:
    """In order, with ids of their own, typed by the schema; the answer ends as `tool_calls`."""
    async with core(script({"tokens": TWO})) as running:
        reply = await start(running, request())
        outcome = await finished(reply)
        assert (reply.text("reasoning"), reply.text("answer")) == ("I ask both.", "")
        assert calls_of(reply) == EXPECTED
        assert outcome.finish_reason == outcome.metrics.finish_reason == "tool_calls"
        assert outcome.metrics.tool_warning is None
        ids = [call.id for call in reply.calls]
        assert len(set(ids)) == len(ids) == 2
        pieces = [piece for piece in reply.read(0) if piece.call is not None]
        assert [piece.call for piece in pieces] == list(enumerate(reply.calls))
        # A reader that comes back behind the first call gets the second only, and whole.
        assert [piece.call for piece in reply.read(pieces[0].end)] == [(1, reply.calls[1])]


async def test_without_tools_a_call_is_text(core: CoreFactory) -> None:
    """Nobody asked for calls: what looks like one is the model's word."""
    async with core(script({"tokens": CLOCK})) as running:
        body = {"messages": [USER]}
        for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
            reply = await start(running, parse_chat_request({**body, **fields}, SamplingDefaults()))
            outcome = await finished(reply)
            assert reply.text("answer").startswith("<atem:function_calls>")
            assert (reply.calls, outcome.finish_reason) == ((), "stop")


async def test_one_call_at_a_time(core: CoreFactory) -> None:
    """With parallel_tool_calls false the first call ends the answer."""
    async with core(script({"tokens": TWO, "token_ms": 1})) as running:
        reply = await start(running, request(parallel_tool_calls=False))
        outcome = await finished(reply)
        assert calls_of(reply) == EXPECTED[:1]
        assert outcome.finish_reason == "tool_calls"
        await running.wait_idle()


async def test_a_stop_string_before_a_call_suppresses_it(core: CoreFactory) -> None:
    """And one that looks like a part of the call does not touch it: stop strings are for visible text."""
    words = [" to=user", "<|message|>", "Look up.", "<|eom|>", "<|start|>", "assistant", *BLOCK]
    async with core(script({"tokens": words})) as running:
        reply = await start(running, request(stop=["up"]))
        outcome = await finished(reply)
        assert (reply.text("answer"), reply.calls, outcome.finish_reason) == ("Look ", (), "stop")
        reply = await start(running, request(stop=["atem", "Köln", "up!"]))
        outcome = await finished(reply)
        assert (reply.text("answer"), calls_of(reply)) == ("Look up.", EXPECTED[:1])


async def test_an_invented_result_is_not_the_models_to_give(core: CoreFactory) -> None:
    """It goes on with the tool's part: the answer ended before."""
    words = [*CLOCK, "</atem:function_calls>", "<|eom|>", "<|start|>", "tool clock", "<|message|>", "12:00"]
    async with core(script({"tokens": words, "token_ms": 1})) as running:
        reply = await start(running, request())
        outcome = await finished(reply)
        assert (reply.text("answer"), calls_of(reply)) == ("", EXPECTED[1:])
        assert outcome.finish_reason == "tool_calls"
        await running.wait_idle()


async def test_a_broken_call_is_text_with_a_warning(core: CoreFactory) -> None:
    """Nothing is lost, and good calls beside it stay good."""
    async with core(
        script({"tokens": [*BROKEN, "<|eom|>", "<|start|>", "assistant", *CLOCK, "</atem:function_calls>"]})
    ) as running:
        reply = await start(running, request())
        outcome = await finished(reply)
        assert BROKEN_TEXT in reply.text("answer")
        assert calls_of(reply) == EXPECTED[1:]
        assert "rain" in str(outcome.metrics.tool_warning)
        assert outcome.finish_reason == "tool_calls"


async def test_a_broken_call_can_be_told_to_the_model(core: CoreFactory) -> None:
    """muse.tool_repair: it reads what was wrong as the result and tries again; the client sees the good call only."""
    async with core(
        script({"when": "Error: ", "tokens": [*CLOCK, "</atem:function_calls>"]}, {"tokens": BROKEN})
    ) as running:
        reply = await start(running, request(muse={"tool_repair": True}))
        outcome = await finished(reply)
        assert (reply.text("answer"), calls_of(reply)) == ("", EXPECTED[1:])
        metrics = outcome.metrics
        assert (metrics.tool_repairs, outcome.finish_reason, metrics.resumed) == (1, "tool_calls", 0)
        assert "rain" in str(metrics.tool_warning)
        assert metrics.completion_tokens == len(BROKEN) + len(CLOCK) + 1


async def test_a_model_that_cannot_be_taught_is_heard(core: CoreFactory) -> None:
    """After two repairs the broken call is text."""
    async with core(script({"tokens": BROKEN})) as running:
        reply = await start(running, request(muse={"tool_repair": True}))
        outcome = await finished(reply)
        assert (reply.text("answer"), reply.calls) == (BROKEN_TEXT, ())
        assert (outcome.metrics.tool_repairs, outcome.finish_reason) == (2, "stop")


@pytest.mark.parametrize("ids", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["ids", "text"])
@pytest.mark.parametrize(
    "token",
    [pytest.param(token, marks=() if token in HARD_PLACES else pytest.mark.slow) for token in range(len(TWO))],
)
async def test_a_death_anywhere_changes_no_call(core: CoreFactory, tmp_path: Path, token: int, ids: bool) -> None:
    """Inside a header, a tag, a value and a character, with ids and without."""
    answer = {"tokens": TWO, "ids": ids, "faults": [dying(tmp_path, token=token)]}
    async with core(script(answer)) as running:
        reply = await start(running, request())
        outcome = await finished(reply)
        assert (reply.text("reasoning"), reply.text("answer"), calls_of(reply)) == ("I ask both.", "", EXPECTED)
        assert (outcome.metrics.resumed, outcome.finish_reason) == (1, "tool_calls")


async def test_the_turn_after_the_results_is_an_exact_prefix(core: CoreFactory) -> None:
    """The client hands back calls and results; thoughts and calls are in the ids. Other arguments are another turn."""
    async with core(script({"when": "fine", "tokens": ANSWER}, {"tokens": TWO})) as running:
        first = await start(running, request(session_id="s"))
        before = (await finished(first)).metrics
        assert before.completion_tokens == len(TWO)
        call, told = echoed(first), results(first)
        second = await start(running, request(call, *told, session_id="s"))
        metrics = (await finished(second)).metrics
        assert second.text("answer") == "It is sunny."
        assert metrics.session_reset_reason == "exact_prefix"
        assert metrics.reused_prompt_tokens == before.prompt_tokens + before.completion_tokens
        view = (await running.sessions.ask(DescribeSession(session_id="s"))).view
        assert view.messages[1].tool_calls == first.calls
        assert [turn.ids is not None for turn in view.turns.values()] == [True, True]
        call["tool_calls"][0]["function"]["arguments"] = '{"city": "Bonn"}'
        changed = await start(running, request(call, *told, session_id="s"))
        assert (await finished(changed)).metrics.session_reset_reason == "rewound"


async def test_an_answer_with_a_call_that_was_cut_goes_on(core: CoreFactory) -> None:
    """By `muse.continue`: the call that had gone out is not made again, and both are in the history."""
    async with core(script({"tokens": TWO})) as running:
        cut = await start(running, request(max_tokens=len(THOUGHT) + len(BLOCK) + 3, session_id="s"))
        outcome = await finished(cut)
        assert (calls_of(cut), outcome.finish_reason) == (EXPECTED[:1], "length")
        body = {"muse": {"continue": cut.id}}
        rest = await start(running, parse_chat_request(body, SamplingDefaults()))
        outcome = await finished(rest)
        assert (calls_of(rest), outcome.finish_reason) == (EXPECTED[1:], "tool_calls")
        view = (await running.sessions.ask(DescribeSession(session_id="s"))).view
        assert [call.name for call in view.turns[1].tool_calls] == ["weather.get", "clock"]


async def test_a_call_that_was_cut_in_the_middle_goes_on_too(core: CoreFactory) -> None:
    """Half a call is neither a call nor text: it is whole when it went on, and stands in the history once."""
    async with core(script({"tokens": TWO})) as running:
        cut = await start(running, request(max_tokens=len(THOUGHT) + 9, session_id="s"))
        outcome = await finished(cut)
        assert (cut.text("answer"), cut.calls, outcome.finish_reason) == ("", (), "length")
        assert "cut off" in str(outcome.metrics.tool_warning)
        rest = await start(running, parse_chat_request({"muse": {"continue": cut.id}}, SamplingDefaults()))
        await finished(rest)
        assert (rest.text("answer"), calls_of(rest)) == ("", EXPECTED)
        (turn,) = (await running.sessions.ask(DescribeSession(session_id="s"))).view.turns.values()
        assert (turn.content, len(turn.tool_calls)) == ("", 2)


async def test_a_repair_goes_on_over_a_continuation(core: CoreFactory) -> None:
    """It was asked for with the first part."""
    good = {"when": "Error: ", "tokens": [*CLOCK, "</atem:function_calls>"]}
    async with core(
        script(good, {"tokens": [" to=rain", "<|message|>", BROKEN_TEXT[:30], BROKEN_TEXT[30:]]})
    ) as running:
        cut = await start(running, request(max_tokens=3, muse={"tool_repair": True}))
        assert (await finished(cut)).finish_reason == "length"
        rest = await start(running, parse_chat_request({"muse": {"continue": cut.id}}, SamplingDefaults()))
        outcome = await finished(rest)
        assert (rest.text("answer"), calls_of(rest), outcome.metrics.tool_repairs) == ("", EXPECTED[1:], 1)


async def test_after_a_repair_an_answer_begins_at_once(core: CoreFactory) -> None:
    """No blank line is left of the call that nobody saw."""
    async with core(script({"when": "Error: ", "tokens": ANSWER}, {"tokens": BROKEN})) as running:
        reply = await start(running, request(muse={"tool_repair": True}))
        outcome = await finished(reply)
        assert (reply.text("answer"), outcome.finish_reason) == ("It is sunny.", "stop")


async def test_a_chatml_model_calls_in_the_form_of_hermes(core: CoreFactory) -> None:
    """Tags that are text, cut anywhere; the turn after the results is an exact prefix too."""
    words = [
        "I ",
        "look.\n<tool",
        '_call>\n{"name": "weather.get", "argum',
        'ents": {"city": "Köln", "days": 3}}',
        "\n</tool_call>",
    ]
    answers = [{"when": "fine", "tokens": ["Sunny."]}, {"tokens": words}]
    async with core({"answers": answers}) as running:
        reply = await start(running, request(session_id="s"))
        outcome = await finished(reply)
        assert (reply.text("answer"), calls_of(reply), outcome.finish_reason) == ("I look.", EXPECTED[:1], "tool_calls")
        second = await start(running, request(echoed(reply), *results(reply), session_id="s"))
        metrics = (await finished(second)).metrics
        assert (second.text("answer"), metrics.session_reset_reason) == ("Sunny.", "exact_prefix")


async def test_a_forced_call_is_read_from_its_form(core: CoreFactory) -> None:
    """The engine holds the answer to the form (this one claims to); the model starts right with the call."""
    said = json.dumps({"name": "weather.get", "arguments": {"city": "Köln", "days": 3}}, ensure_ascii=False)
    for template in (script({"tokens": [said[:9], said[9:]]}), {"answers": [{"tokens": [said]}]}):
        async with core({**template, "grammar": True}) as running:
            reply = await start(running, request(tool_choice="required", session_id="s"))
            outcome = await finished(reply)
            assert (reply.text("answer"), calls_of(reply)) == ("", EXPECTED[:1])
            assert outcome.finish_reason == "tool_calls"
            view = (await running.sessions.ask(DescribeSession(session_id="s"))).view
            assert view.turns[1].ids is None
            cut = await start(running, request(tool_choice="required", max_tokens=1))
            outcome = await finished(cut)
            if outcome.finish_reason == "length":
                assert cut.text("answer") == ""
                assert "cut off" in str(outcome.metrics.tool_warning)
