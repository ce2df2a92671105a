"""Harmony with tools: which message may hold calls, what the headers may look like, whose turn it is.

The cases of contracts/harmony-format.md sections 7 and 8 that have headers. Each is read with marked control tokens,
without, and one character at a time.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.api.tools import Tool
from muse.chat.channel_types import CUT_OFF, BrokenCall, Event
from muse.chat.channels import can_call_tools, parser_for
from muse.chat.harmony import END_OF_MESSAGE as EOM
from muse.chat.harmony import END_OF_TURN as EOT
from muse.chat.harmony import MESSAGE as M
from muse.chat.harmony import START as S
from muse.chat.harmony import HarmonyParser
from muse.protocol import TextSegment
from tests.unit.parser_runs import TOOLS, call, calls, marked, run, said
from tests.worker import nano

F = (
    '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="n">4</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls>"
)
G = F.replace('"f"', '"g"').replace('<atem:parameter name="n">4</atem:parameter>\n', "")
TEMPLATE = f"{S}assistant{M}<atem:function_calls>"


def parse(turn: str, tools: tuple[Tool, ...] = TOOLS) -> list[Event]:
    """In three ways, which must not differ."""
    events = run(HarmonyParser(tools), marked(turn))
    assert run(HarmonyParser(tools), [(turn, "mixed")]) == events
    assert run(HarmonyParser(tools), [(char, "mixed") for char in turn]) == events
    return events


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        pytest.param(f" to=f{M}{F}{EOM}", [call("f", n=4)], id="1 with an end token"),
        pytest.param(f" to=f{M}{F}", [call("f", n=4)], id="2 without one"),
        pytest.param(f"{S}assistant to=f{M}{F}{EOT}", [call("f", n=4)], id="3 full prefix"),
        pytest.param(f" to=f constrain=json{M}{F}", [call("f", n=4)], id="4 constrain"),
        pytest.param(F, [call("f", n=4)], id="5 no header"),
        pytest.param(f" to=f{M}{F}{EOM}{S}assistant to=g{M}{G}{EOT}", [call("f", n=4), call("g")], id="7 two messages"),
        pytest.param(f" to=f{M}Look:\n{F}", [("answer", "Look:"), call("f", n=4)], id="9 prose first"),
        pytest.param(
            f" to=self{M}hm{EOM}{S}assistant to=f{M}{F}{EOT}", [("reasoning", "hm"), call("f", n=4)], id="10 reasoning"
        ),
        pytest.param(f" to=user{M}Rome.", [("answer", "Rome.")], id="28 header to the user"),
        pytest.param(f" to=ns.f{M}{{}}", [("answer", "{}")], id="29 header to a tool"),
        pytest.param(f"{M}Done.{EOM}", [("answer", "Done.")], id="30 end of the message"),
        pytest.param(f"{M}Done.{EOT}", [("answer", "Done.")], id="30 end of the turn"),
        pytest.param(f" to=ns.f constrain=json{M}{{}}", [("answer", "{}")], id="31 constrain and a tool"),
        pytest.param(
            f" to=self{M}a{EOM}{S}assistant to=user{M}b{EOT}", [("reasoning", "a"), ("answer", "b")], id="32 both"
        ),
        pytest.param(
            f" to=self{M}a{EOM}{S}assistant to=self{M}b{EOM}{S}assistant to=user{M}c",
            [("reasoning", "a\n\nb"), ("answer", "c")],
            id="33 two thoughts",
        ),
        pytest.param(
            f"pre{EOM}{S}assistant to=self{M}a{EOM}{S}assistant to=user{M}final",
            [("answer", "pre"), ("reasoning", "a"), ("answer", "\n\nfinal")],
            id="34 text before the reasoning",
        ),
        pytest.param("goto=x; photo=y", [("answer", "goto=x; photo=y")], id="35 look-alikes"),
        # Section 8.
        pytest.param(
            f" to=self{M}a{EOM}{S}assistant{M}b", [("reasoning", "a"), ("answer", "b")], id="no recipient: visible"
        ),
        pytest.param(f"{M}hello", [("answer", "hello")], id="a message only"),
        pytest.param(f" to=self{M}a", [("reasoning", "a")], id="reasoning only"),
        # Upstream executes it.
        pytest.param(f" to=user{M}So: {F}", [("answer", f"So: {F}")], id="a block quoted for the user"),
        # Other implementations execute this too. What is for the user's eyes is never a call here.
        pytest.param(f" to=user{M}{F}", [("answer", F)], id="a block for the user"),
        pytest.param(f" to=self{M}{F}", [("reasoning", F)], id="a block in a thought"),
        pytest.param(f" to=f{M}{G}", [call("g")], id="the call names another tool than the header"),
        pytest.param(f"So: {F} ok", [("answer", "So:"), call("f", n=4), ("answer", " ok")], id="unaddressed text"),
        pytest.param(
            f" to=f{M}{F}Wait.{EOM}{S}assistant to=user{M}Rome.",
            [call("f", n=4), ("answer", "Wait.\n\nRome.")],
            id="text behind the call, and another message",
        ),
        pytest.param(
            f" to=commentary{M}a{EOM}{S}assistant to=user{M}b", [("answer", "a\n\nb")], id="an unknown recipient"
        ),
        pytest.param(f" to=commentary{M}{F}", [call("f", n=4)], id="a block for an unknown recipient"),
        pytest.param(f" to=a/b{M}odd", [("answer", "odd")], id="no name"),
        pytest.param(f" to = user{M}spaced", [("answer", "spaced")], id="spaces in the header"),
        pytest.param(f" to=f{M}{F}{S}assistant to=user{M}b", [call("f", n=4), ("answer", "b")], id="no end token"),
        # Of other implementations.
        pytest.param(f" to=atem:function_calls{M}{F}", [call("f", n=4)], id="the tag as recipient"),
        pytest.param(
            f" to=weather{M}" + G.replace('"g"', '"weather.get"'),
            [call("weather.get")],
            id="only the namespace",
        ),
        pytest.param(f"{M}{F}", [call("f", n=4)], id="no recipient"),
        pytest.param(f" to=f{M}{F.replace(chr(34) + '>', M, 1)}", [call("f", n=4)], id="a control token ends the tag"),
        pytest.param(f" to=f{M}{F.replace('>', M + '>', 2)}", [call("f", n=4)], id="control tokens inside the tags"),
        pytest.param(f" to=f{M}{F.replace(chr(34) + '>', M + chr(34) + '>', 1)}", [call("f", n=4)], id="in the name"),
        pytest.param(f" to=f{M}{F}{EOM}\n{S}assistant to=g{M}{G}", [call("f", n=4), call("g")], id="a line between"),
        pytest.param(f" to=f{M}{F}<|pad|>{EOT}", [call("f", n=4)], id="another control token"),
    ],
)
def test_calls_and_channels_of_whole_turns(turn: str, expected: list[Event]) -> None:
    """Whatever the header says, a call is one if it stands in a message that is not for the user or the model."""
    assert parse(turn) == expected


@pytest.mark.parametrize("turn", [f" to=f{M}{F}{EOT}", F, f" to=ns.f{M}{{}}", f" to=user{M}{F}"])
def test_without_tools_a_block_is_text(turn: str) -> None:
    """Nothing was declared, so nothing can be called."""
    assert parse(turn, ()) == [("answer", F if F in turn else "{}")]


def test_a_broken_call_is_told_with_its_text() -> None:
    """Parted from the answer before it, and the answer after it from it."""
    bad = F.replace('"f"', '"zz"')
    turn = f" to=user{M}a{EOM}{S}assistant to=zz{M}{bad}{EOM}{S}assistant to=user{M}b"
    assert parse(turn) == [
        ("answer", "a"),
        BrokenCall(text=f"\n\n{bad}", name="zz", reason='There is no tool named "zz".'),
        ("answer", "\n\nb"),
    ]


@pytest.mark.parametrize("end", ["", EOM, EOT, S])
def test_a_call_that_is_cut_off_is_told_as_such(end: str) -> None:
    """By the end of the generation, of the message or of the turn."""
    [found] = parse(f" to=f{M}{F[:-60]}{end}")
    assert found == BrokenCall(text=F[:-60], name="f", reason=CUT_OFF)


def test_a_call_that_was_cut_off_can_be_continued() -> None:
    """The answer ended for its number of tokens; its continuation completes the call, in a copy too."""
    parser = HarmonyParser(TOOLS)
    assert [type(event) for event in run(parser, [(f" to=f{M}{F[:-60]}", "mixed")])] == [BrokenCall]
    assert parser.flush() == []
    following = parser.copy()
    assert run(following, [(F[-60:], "mixed"), (EOT, "mixed")]) == [call("f", n=4)]
    assert run(parser, [(F[-60:], "mixed"), (EOT, "mixed")]) == [call("f", n=4)]


@pytest.mark.parametrize("missing", range(1, len("\n</atem:function_calls>") + 1))
def test_the_end_of_a_block_that_comes_late_is_no_text(missing: int) -> None:
    """The call was complete without it."""
    parser = HarmonyParser(TOOLS)
    assert run(parser, [(f" to=f{M}{F[:-missing]}", "mixed")]) == [call("f", n=4)]
    assert run(parser, []) == []
    assert run(parser, [(f"{F[-missing:]}\nDone.", "mixed")]) == [("answer", "Done.")]


@pytest.mark.parametrize(
    "header",
    [f"user{M}", f"tool f{M}", f"system{M}", f"developer{M}", f"tool f{EOM}", f"user to=assistant{M}", f"tool{S}"],
)
@pytest.mark.parametrize("before", [EOM, EOT, ""])
def test_nothing_of_another_role_is_given(before: str, header: str) -> None:
    """The model invents the tool's result, or the next question: the turn is over, and the call before it counts."""
    turn = f" to=f{M}{F}{before}{S}{header}It is 22{EOM}{S}assistant to=user{M}So 22.{F}{EOT}"
    assert parse(turn) == [call("f", n=4)]
    parser = HarmonyParser(TOOLS)
    run(parser, [(turn, "mixed")])
    assert parser.turn_over
    assert parser.close_reasoning() is None
    answer = parser.answer_call("f", "22")
    assert isinstance(answer[0], TextSegment)
    assert answer[0].text == f"{'' if before else EOT}{S}tool "
    assert not parser.turn_over


@pytest.mark.parametrize("text", ["users like it", "tools", "systematic", "user\nb", "us a"])
def test_text_that_begins_like_a_role_is_text(text: str) -> None:
    """Only a header makes a role."""
    assert said(parse(f"{M}a{EOM}{S}{text}"), "answer") == f"a\n\n{text}"
    assert said(parse(text), "answer") == text


def test_a_result_is_rendered_as_the_template_does() -> None:
    """The parts of a client or a tool are never read as control tokens, and the model goes on behind them."""
    parser = HarmonyParser(TOOLS)
    run(parser, [(f" to=self{M}hm{EOM}{S}assistant to=f{M}{F}", "mixed")])
    segments = parser.answer_call(f"f{EOT}", f"{EOT}22")
    expected = f'{EOT}{S}tool f{EOT}{M}<tool_output name="f{EOT}">\n{EOT}22\n</tool_output>{EOT}{S}assistant'
    assert "".join(part.text for part in segments) == expected
    assert [part.text for part in segments if not part.special] == [f"f{EOT}", f"f{EOT}", f"{EOT}22"]
    assert run(parser, [(f" to=self{M}so{EOM}{S}assistant to=user{M}22.", "mixed")]) == [
        ("reasoning", "\n\nso"),
        ("answer", "22."),
    ]


@pytest.mark.parametrize("name", [name for name, content in nano.DIALOGUES.items() if content["tools"]])
def test_the_dialogues_of_the_test_model_give_their_calls(name: str) -> None:
    """The answers and the results of muse-nano, character by character and token by token."""
    tools = tuple(
        Tool(
            name=entry["function"]["name"],
            description=entry["function"]["description"],
            parameters=json.dumps(entry["function"]["parameters"]),
        )
        for entry in nano.DIALOGUES[name]["tools"]
    )
    for turn in nano.turns(name):
        answer: dict[str, Any] = turn["answer"]
        events = parse(answer["text"], tools)
        wanted = [item["function"] for item in answer["message"].get("tool_calls", ())]
        assert [(found.name, json.loads(found.arguments)) for found in calls(events)] == [
            (item["name"], item["arguments"]) for item in wanted
        ]
        assert said(events, "answer") == (answer["message"]["content"] or "")
        assert said(events, "reasoning") == "\n\n".join(answer["reasoning"])
    assert any("tool_calls" in turn["answer"]["message"] for turn in nano.turns(name))


def test_the_results_read_as_in_the_dialogues() -> None:
    """What answer_call appends is what the template renders for the next turn."""
    first, second = nano.turns("weather")
    parser = HarmonyParser((Tool(name="weather.get"),))
    run(parser, [(first["answer"]["text"], "mixed")])
    appended = parser.answer_call("weather.get", "sunny")
    rendered = "".join(part["text"] for part in second["prompt_segments"])
    assert rendered.endswith(first["answer"]["text"] + "".join(part.text for part in appended))


def test_the_template_tells_whether_tools_can_be_called() -> None:
    """Harmony without ATEM is not known to call."""
    assert can_call_tools(TEMPLATE)
    assert not can_call_tools(f"{S}assistant{M}")
    assert run(parser_for(TEMPLATE, (), TOOLS), [(F, "mixed")]) == [call("f", n=4)]
    assert run(parser_for(f"{S}assistant{M}", (), TOOLS), [(F, "mixed")]) == [("answer", F)]
    assert run(parser_for(TEMPLATE, ()), [(F, "mixed")]) == [("answer", F)]
