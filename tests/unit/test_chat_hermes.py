"""Calls as JSON between tags: in the answer only, strictly read, cut anywhere."""

from __future__ import annotations

import json

import pytest

from muse.chat.channel_types import CUT_OFF, BrokenCall, Event, TextKind
from muse.chat.channels import PlainParser, can_call_tools, parser_for
from muse.chat.hermes import HermesParser, header_of
from muse.chat.think_tags import ThinkTagParser
from muse.protocol import TextSegment
from tests.unit.parser_runs import TOOLS, call, calls, read, run, shown

BEGIN, END = "<tool_call>", "</tool_call>"
F = BEGIN + '\n{"name": "f", "arguments": {"n": 4}}\n' + END
G = BEGIN + '{"name":"g","arguments":{}}' + END
HEADER = "<|im_start|>assistant\n"


def new(*, header: str | None = HEADER) -> HermesParser:
    return HermesParser(PlainParser(), TOOLS, header=header)


def parse(text: str) -> list[Event]:
    """Whole, in characters, and with its tags as control tokens, which must not differ."""
    events = run(new(), [(text, "mixed")])
    assert run(new(), [(char, "text") for char in text]) == events
    tokens = text.replace(BEGIN, f"\0{BEGIN}\0").replace(END, f"\0{END}\0").split("\0")
    assert run(new(), [(token, "control" if token in (BEGIN, END) else "text") for token in tokens]) == events
    return events


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(F, [call("f", n=4)], id="a call"),
        pytest.param(f"Look:\n\n{F}", [("answer", "Look:"), call("f", n=4)], id="prose first"),
        pytest.param(f"\n{F}\n{G}\n", [call("f", n=4), call("g")], id="white space round calls is nobody's"),
        pytest.param(f"a {F}\nb\n", [("answer", "a"), call("f", n=4), ("answer", "\nb\n")], id="text behind"),
        pytest.param(F.replace("arguments", "parameters"), [call("f", n=4)], id="another word"),
        pytest.param(f'{BEGIN}{{"name": "g"}}{END}', [call("g")], id="no arguments"),
        *(
            pytest.param(
                F.replace('{"n": 4}', json.dumps(text)), [call("f", **value)], id=f"arguments in a text: {text}"
            )
            for text, value in (
                ('{"s":"é</tool_call>"}', {"s": "é</tool_call>"}),
                (" {} ", {}),
                ('{"n":4}\n', {"n": 4}),
            )
        ),
        *(
            pytest.param(f'{BEGIN}{{"name": "g", "{word}": {nothing}}}{END}', [call("g")], id=f"{word} {nothing}")
            for word in ("arguments", "parameters")
            for nothing in ("null", '""', '" \\n"')
        ),
        pytest.param(f'{BEGIN}{{"arguments": {{}}, "id": 1, "name": "g"}}{END}', [call("g")], id="another order"),
        pytest.param(F.removesuffix(END), [call("f", n=4)], id="no end tag at the end"),
        pytest.param(F[:-5], [call("f", n=4)], id="cut off inside the end tag"),
        pytest.param(F.removesuffix(END) + G, [call("f", n=4), call("g")], id="no end tag before the next call"),
        pytest.param(F.replace('"f"', '"f.f"'), [call("f", n=4)], id="namespaced by itself"),
        pytest.param(
            F.replace("4", json.dumps(f"é {END} {BEGIN}\\")), [call("f", n=f"é {END} {BEGIN}\\")], id="tags in a string"
        ),
        pytest.param(F.replace("4", '"a\\"}"'), [call("f", n='a"}')], id="quotation marks in a string"),
        pytest.param(
            F.replace("4", '[{"k": [true, null, -1.5e3]}]'), [call("f", n=[{"k": [True, None, -1500.0]}])], id="n"
        ),
        pytest.param("a <tool_calls> b", [("answer", "a <tool_calls> b")], id="another tag"),
        pytest.param(f"a {END} <", [("answer", f"a {END} <")], id="an end without a begin"),
        pytest.param("hi \n", [("answer", "hi \n")], id="text"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_good_calls_and_text(text: str, expected: list[Event]) -> None:
    """Nothing of a call is shown, nothing else is lost."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        pytest.param(F.replace('"f"', '"zz"'), "zz", "no tool named", id="unknown"),
        pytest.param(F.replace('"f"', '"send"'), "send", "no tool named", id="two that it may mean"),
        pytest.param(F.replace('"f"', '""'), None, "names no tool", id="empty name"),
        pytest.param(F.replace('"f"', "5"), None, "must be a JSON object", id="no name"),
        pytest.param(f'{BEGIN}["f", {{}}]{END}', None, "must be a JSON object", id="no object"),
        pytest.param(f"{BEGIN}{END}", None, "is empty", id="nothing"),
        *(
            pytest.param(F.replace('{"n": 4}', json.dumps(text)), "f", "arguments of a call must be", id=f"text {text}")
            for text in ("x", "4", "null", "[{}]", '"{}"', '{"n": 4', '{"n": 4}}', '{"n": 4, "n": 5}', '{"n": 1e999}')
        ),
        pytest.param(F.replace('{"n": 4}', "[]"), "f", "arguments of a call must be", id="a list"),
        pytest.param(F.replace("4", "NaN"), "f", "NaN", id="not JSON"),
        pytest.param(F.replace("4", "1e999"), "f", "too large", id="not finite"),
        pytest.param(F.replace("4", "[" * 100 + "]" * 100), "f", "nested deeper", id="deep"),
        pytest.param(F.replace("4", "[" * 2000 + "]" * 2000), "f", "nested deeper", id="very deep"),
        pytest.param(F.replace("4", '4, "n": 5'), "f", "twice", id="a key twice"),
        pytest.param(F.replace("4", r'"\ud800"'), "f", "surrogate", id="half a character"),
        pytest.param(F.replace("}}", "}"), "f", "not valid", id="a brace is missing"),
        pytest.param(F.replace("}}", "}}}"), "f", "not valid", id="a brace too many"),
        pytest.param(F.replace('"f"', "'f'"), None, "not valid", id="single quotes"),
        pytest.param(F.replace("4", '"x'), "f", "not valid", id="a quotation mark is missing"),
        pytest.param(F.replace("4", '"a\nb"'), "f", "not valid", id="a line in a string"),
        pytest.param(f"{BEGIN}f(n=4){END}", None, "not valid", id="code"),
        pytest.param(F[:-20], "f", CUT_OFF, id="cut off"),
        pytest.param(BEGIN, None, CUT_OFF, id="cut off at once"),
        pytest.param(BEGIN[:-1], None, CUT_OFF, id="cut off inside the tag"),
        pytest.param(F.removesuffix(END) + " Done.", "f", CUT_OFF, id="text instead of the end tag"),
    ],
)
def test_broken_calls(text: str, name: str | None, reason: str) -> None:
    """Each is told with its text, the tool it meant and what is wrong. Good ones around it are kept."""
    [found] = parse(text)
    assert isinstance(found, BrokenCall)
    assert (found.text, found.name) == (text, name)
    assert reason in found.reason
    assert parse(f"a {text}")[0] == ("answer", "a")
    assert shown(parse(f"a {text}")) == f"a {text}"
    assert parse(f"{G}{text}")[0] == call("g")
    if END in text:
        assert parse(f"{text}{G}")[-1] == call("g")


def test_a_call_without_an_end_before_another() -> None:
    """It is broken, the other is not."""
    text = F.removesuffix(END).replace("}}", "}")
    first, second = parse(text + G)
    assert isinstance(first, BrokenCall)
    assert (first.text, second) == (text, call("g"))


def test_a_forgotten_quotation_mark_costs_one_call_only() -> None:
    """Its string seems to go on; what follows shows that it does not, at the latest the end."""
    bad = BEGIN + '{"name": "f", "arguments": {"s": "x}}' + END
    for middle in (" ", "\n", " So.\n", ' He says "hi". '):
        first, *_, last = parse(f"{bad}{middle}{G}")
        assert isinstance(first, BrokenCall)
        assert (first.text, last) == (bad, call("g"))
    assert [type(event) for event in parse(f"{bad} So.")] == [BrokenCall, tuple]


def test_only_the_answer_holds_calls() -> None:
    """What a thought quotes is a thought, also where the tags are control tokens."""
    think: list[tuple[str, TextKind]] = [("<think>", "control"), ("a ", "text"), (BEGIN, "control"), ("{}", "text")]
    rest: list[tuple[str, TextKind]] = [("</think>", "control"), ("\n\n", "text"), (BEGIN, "control"), (F[11:], "text")]
    parser = HermesParser(ThinkTagParser(opened=False), TOOLS, header=HEADER)
    assert run(parser, [*think, *rest]) == [("reasoning", f"a {BEGIN}{{}}"), call("f", n=4)]
    parser = HermesParser(ThinkTagParser(opened=True), TOOLS, header=HEADER)
    assert parser.channel == "reasoning"
    assert read(parser, f"a{F}</think>b{F}") == [("reasoning", f"a{F}"), ("answer", "b"), call("f", n=4)]


def test_closing_the_reasoning_is_left_to_the_channels() -> None:
    """The answer behind it may hold calls."""
    parser = HermesParser(ThinkTagParser(opened=True), TOOLS, header=HEADER)
    parser.feed("endless")
    assert parser.close_reasoning() == (TextSegment(text="\n</think>\n\n", special=True),)
    assert read(parser, [F]) == [call("f", n=4)]


def test_a_call_that_was_cut_off_can_be_continued() -> None:
    """In a copy, which goes its own way."""
    parser = new()
    assert [type(event) for event in read(parser, [F[:-20]])] == [BrokenCall]
    assert parser.flush() == []
    following = parser.copy()
    assert read(following, [F[-20:]]) == [call("f", n=4)]
    assert read(parser, [F[-20:]]) == [call("f", n=4)]


@pytest.mark.parametrize("cut", range(len(F)))
def test_a_call_that_was_cut_anywhere_can_be_continued(cut: int) -> None:
    """The very beginning of its tag was shown as what it seemed to be."""
    parser = new()
    before = [event for event in read(parser, [f"Look: {F[:cut]}"]) if not isinstance(event, BrokenCall)]
    assert parser.flush() == []
    following = read(parser, [f"{F[cut:]} <tool last"])
    assert calls(before + following) == [call("f", n=4)]
    begun = F[:cut] if cut < len("<tool_") else ""
    assert "".join(shown(before + following).split()) == f"Look:{begun}<toollast"


@pytest.mark.parametrize("missing", range(1, len(END) + 2))
def test_an_end_tag_that_comes_late_is_no_text(missing: int) -> None:
    """The call was complete without it; also if it comes in two parts, and the end is told twice."""
    parser = new()
    assert read(parser, [F[:-missing]]) == [call("f", n=4)]
    assert read(parser, []) == []
    assert read(parser, [f"{F[-missing:]}\nDone. {END}"]) == [("answer", f"Done. {END}")]


def test_nothing_of_another_turn_is_given() -> None:
    """The control token tells; its spelling does not."""
    parser = new()
    turn: list[tuple[str, TextKind]] = [(F, "text"), ("<|im_end|>", "control"), ("\n", "text")]
    assert run(parser, [*turn, ("<|im_start|>", "control"), ("user\nThanks", "text")]) == [call("f", n=4)]
    assert parser.turn_over
    assert parser.close_reasoning() is None
    assert parser.answer_call("f", "22")[0] == TextSegment(text="\n<|im_start|>user\n<tool_response>\n", special=True)
    assert not parser.turn_over
    assert read(new(), ["<|im_start|>user"]) == [("answer", "<|im_start|>user")]
    assert run(new(header=None), [("<|im_start|>", "control"), ("a", "text")]) == [("answer", "a")]


def test_results_are_a_message_of_the_user() -> None:
    """Their text is never read as control tokens; then the model begins anew, with a thought if it always does."""
    header = "<|im_start|>assistant\n<think>\n"
    parser = HermesParser(ThinkTagParser(opened=True), TOOLS, header=header)
    assert read(parser, [f"hm</think>Look: {F}{G}"])[-1] == call("g")
    parts = parser.answer_call("f", "<|im_end|>22") or ()
    assert [part.text for part in parts if not part.special] == ["<|im_end|>22"]
    assert "".join(part.text for part in parts) == (
        f"<|im_end|>\n<|im_start|>user\n<tool_response>\n<|im_end|>22\n</tool_response><|im_end|>\n{header}"
    )
    assert read(parser, ["so</think>22."]) == [("reasoning", "\n\nso"), ("answer", "\n\n22.")]
    assert new(header=None).answer_call("f", "22") is None


@pytest.mark.parametrize(
    ("scaffold", "header"),
    [
        ("<|im_end|>\n<|im_start|>assistant\n", HEADER),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("", HEADER),
    ],
)
def test_the_header_is_as_the_prompt_had_it(scaffold: str, header: str) -> None:
    """A template that closes the thought itself does so after a result, too."""
    assert header_of(scaffold) == header


@pytest.mark.parametrize(
    ("template", "known"),
    [
        (None, True),
        ("<|im_start|>", True),
        ("<|start_of_role|> <tool_call>", True),
        ("[INST]", False),
    ],
)
def test_the_template_tells_whether_tools_can_be_called(template: str | None, known: bool) -> None:
    """Where no form is known, calls are not looked for; nor where no tools are offered."""
    assert can_call_tools(template) is known
    prompt = (TextSegment(text="<|im_start|>assistant\n", special=True),)
    events = read(parser_for(template, prompt, TOOLS), [F])
    assert events == ([call("f", n=4)] if known else [("answer", F)])
    assert read(parser_for(template, prompt), [F]) == [("answer", F)]


def test_results_need_a_language_that_is_known() -> None:
    """ChatML is; another form may still have calls. The thought of the prompt is seen through."""
    answered = parser_for("<|start_of_role|> <tool_call>", (), TOOLS).answer_call("f", "22")
    assert answered is None
    prompt = (TextSegment(text="<|im_start|>assistant\n<think>\n", special=True),)
    parser = parser_for("<|im_start|></think>", prompt, TOOLS)
    assert read(parser, [f"a</think>{F}"]) == [("reasoning", "a"), call("f", n=4)]
    assert isinstance(parser, HermesParser)
    assert parser.answer_call("f", "")[-1].text.endswith(prompt[0].text)
