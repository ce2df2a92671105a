"""Calls of tools through a real worker: certain calls, broken ones, repairs, further turns, going on after a death."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.reply import Reply
from actors.sessions.answer import begin_answer
from actors.sessions.messages import DescribeSession, ShowPrompt
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.responses import call_dict
from muse.protocol import Tokens
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


ODD_ARGUMENTS = (
    f'{{"x":96e012995466444,"x":{"9" * 5_000},"deep":{"[" * 3_000}{"]" * 3_000},"half":"\\ud83d","city":"Köln"}}'
)


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "hermes"])
async def test_a_forced_call_comes_back_whatever_its_arguments_are(core: CoreFactory, is_native: bool) -> None:
    """Numbers beyond doubles, names that are there twice, nesting without end: what was generated is what goes out,
    what stands in the session, and what the next prompt is made of."""
    said = f'{{"name":"clock","arguments":{ODD_ARGUMENTS}}}'
    late = [" to=user", "<|message|>", "Late."] if is_native else ["Late."]
    answers = [{"when": "clock: fine", "tokens": late}, {"tokens": [said[:9], said[9:]]}]
    templated = {"special_tokens": ["<|eot|>", *MUSE_SPECIAL[:-1]], "chat_template": MUSE} if is_native else {}
    async with core({**templated, "answers": answers, "grammar": True}) as running:
        reply = await start(running, request(tool_choice="required", session_id="s"))
        outcome = await finished(reply)
        assert [(call.name, call.arguments) for call in reply.calls] == [("clock", ODD_ARGUMENTS)]
        assert (reply.text("answer"), outcome.metrics.tool_warning) == ("", None)
        second = await start(running, request(echoed(reply), *results(reply), session_id="s"))
        await finished(second)
        assert second.text("answer") == "Late."
        view = (await running.sessions.ask(DescribeSession(session_id="s"))).view
        assert view.turns[1].tool_calls == reply.calls
        shown: Any = (await running.sessions.ask(ShowPrompt(reply_id=second.id))).to_dict()
        text = "".join(segment.get("text", "") for segment in shown["segments"])
        assert "9" * 5_000 in text
        assert "[" * 3_000 + "]" * 3_000 in text


async def test_strict_is_noted_where_calls_are_the_model_s_own(core: CoreFactory) -> None:
    """In the metrics of the answer; a forced call follows its schema, so there is nothing to note."""
    strict = {"type": "function", "function": {"name": "clock", "strict": True, "parameters": {"type": "object"}}}
    async with core({"answers": [{"tokens": ['{"name":"clock","arguments":{}}']}], "grammar": True}) as running:
        for fields, note in (({}, "strict is not enforced for clock"), ({"tool_choice": "required"}, None)):
            reply = await start(running, request(**{"tools": [strict], **fields}))
            notes = (await finished(reply)).metrics.schema_notes
            assert notes is None if note is None else note in str(notes)


CITY = [" to=weather", "<|message|>", *BLOCK[3:], "<|eom|>", "<|start|>", "assistant"]


async def test_a_stop_string_does_not_go_over_a_call(core: CoreFactory) -> None:
    """What was held back before the call is shown, and counts no more; within one text it ends the answer as ever."""
    tail = [" to=user", "<|message|>", " It says", ": sunny."]
    words = [" to=user", "<|message|>", "I ask.", "\nUser", "<|eom|>", "<|start|>", "assistant", *CITY, *tail]
    hermes = ["I ask.\nUser", '<tool_call>{"name": "clock"}</tool_call>', " It says", ": sunny."]
    for given, whole in (
        (script({"tokens": words}), "I ask.\nUser\n\n It says: sunny."),
        ({"answers": [{"tokens": hermes}]}, "I ask.\nUser It says: sunny."),
    ):
        async with core(given) as running:
            reply = await start(running, request(stop=["\nUser:"]))
            outcome = await finished(reply)
            assert (reply.text("answer"), len(reply.calls), outcome.finish_reason) == (whole, 1, "tool_calls")
            reply = await start(running, request(stop=["says: s", "\nUser:"]))
            await finished(reply)
            assert reply.text("answer") == whole.partition("says: s")[0]


AFTER = ["<|eom|>", "<|start|>", "assistant", " to=user", "<|message|>", "Let me ", "see. Soon", " more"]


@pytest.mark.parametrize("budget", range(len(BROKEN), len(BROKEN) + len(AFTER) + 1))
async def test_a_held_call_stands_where_it_was_written(core: CoreFactory, budget: int) -> None:
    """Wherever the budget ends the answer: it reads as the same one without repairs."""
    async with core(script({"tokens": [*BROKEN, *AFTER]})) as running:
        plain = await start(running, request(max_tokens=budget))
        await finished(plain)
        held = await start(running, request(max_tokens=budget, muse={"tool_repair": True}))
        outcome = await finished(held)
        if outcome.finish_reason == "length":
            assert (held.text("answer"), outcome.metrics.tool_repairs) == (plain.text("answer"), 0)
        assert plain.text("answer").startswith(BROKEN_TEXT)


async def test_words_behind_a_call_that_is_repaired_are_said(core: CoreFactory) -> None:
    """They waited with it; the call itself is never shown. A stop string in them ends the answer at once."""
    good = {"when": "Error: ", "tokens": [*CLOCK, "</atem:function_calls>"]}
    async with core(script(good, {"tokens": [*BROKEN, *AFTER]})) as running:
        reply = await start(running, request(muse={"tool_repair": True}))
        outcome = await finished(reply)
        assert (reply.text("answer"), calls_of(reply)) == ("Let me see. Soon more", EXPECTED[1:])
        assert outcome.metrics.tool_repairs == 1
        reply = await start(running, request(muse={"tool_repair": True}, stop=["see."]))
        outcome = await finished(reply)
        assert (reply.text("answer"), reply.calls) == (f"{BROKEN_TEXT}\n\nLet me ", ())
        assert (outcome.finish_reason, outcome.metrics.tool_repairs) == ("stop", 0)


async def test_a_continuation_tells_of_tools_as_its_beginning_did(core: CoreFactory) -> None:
    """In its context, and in what its prompt is shown to be made of; also of one that goes on once more."""
    async with core(script({"tokens": TWO})) as running:
        reply = await start(running, request(max_tokens=len(THOUGHT) + 2))
        shares = (await finished(reply)).metrics.context
        assert shares is not None
        assert shares.tools > 0
        for _ in range(2):
            body = {"muse": {"continue": reply.id}, "max_tokens": 2}
            reply = await start(running, parse_chat_request(body, SamplingDefaults()))
            more = (await finished(reply)).metrics.context
            assert more is not None
            assert (more.tools, more.system) == (shares.tools, shares.system)
            prompt = await running.sessions.ask(ShowPrompt(reply_id=reply.id))
            roles = {segment.role for segment in prompt.segments()}
            assert "tools" in roles
            assert "settings" not in roles


async def test_an_answer_with_many_calls_comes_back(core: CoreFactory) -> None:
    """More than any list of tools has. In one event of the worker, too: it is taken in parts."""
    block = "".join(str(part) for part in [*BLOCK[3:7], "Rome", *BLOCK[9:]])
    for tokens in ([block] * 300, [block * 300]):
        answer = {"tokens": [" to=weather", "<|message|>", *tokens]}
        async with core({**script(answer), "context_length": 1_000_000}) as running:
            reply = await start(running, request(session_id="s"))
            outcome = await finished(reply)
            assert (len(reply.calls), outcome.finish_reason) == (300, "tool_calls")
            again = await start(running, request(echoed(reply), *results(reply), session_id="s"))
            assert (await finished(again)).metrics.session_reset_reason == "exact_prefix"
            # Without a session, as text.
            anonymous = await start(running, request(echoed(reply), *results(reply)))
            assert (await finished(anonymous)).finish_reason == "tool_calls"


async def test_half_a_surrogate_pair_becomes_a_mark(core: CoreFactory) -> None:
    """No client could hand it back."""
    async with core(script({"tokens": ANSWER})) as running:
        reply = await start(running, request())
        await finished(reply)
        answer = begin_answer(request(), Reply("r", None), running.board.value.model, ())  # type: ignore[arg-type]
        answer.take(Tokens(request_id="r", ids=(1,), text=" to=user", control=False))
        answer.take(Tokens(request_id="r", ids=(1,), text="<|message|>", control=True))
        answer.take(Tokens(request_id="r", ids=(1,), text="a\ud83db", control=False))
        assert answer.text("answer") == "a\ufffdb"
