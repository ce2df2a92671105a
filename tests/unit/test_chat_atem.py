"""ATEM calls: every case of contracts/harmony-format.md sections 7 and 8 that needs no header, and our own.

The cases with headers are in test_chat_harmony_tools.py. Those not of parsers are elsewhere: ids of calls (27), the
choice of a parser (36, by the template), ids of prompts (37). Each is read whole, and one character at a time.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from muse.chat.atem import AtemParser
from muse.chat.channel_types import CUT_OFF, BrokenCall, Event, FoundCall
from tests.unit.parser_runs import TOOLS, call, calls, read, shown, tool

OPEN, CLOSE = "<atem:function_calls>\n", "</atem:function_calls>"


def param(key: str, value: str) -> str:
    return f'<atem:parameter name="{key}">{value}</atem:parameter>\n'


def invoke(name: str, **raw: str) -> str:
    return f'<atem:invoke name="{name}">\n' + "".join(param(key, raw[key]) for key in raw) + "</atem:invoke>\n"


def block(*invokes: str) -> str:
    return OPEN + "".join(invokes) + CLOSE


F = block(invoke("f", n="4"))
ZZ = block(invoke("zz"))


def parse(text: str) -> list[Event]:
    """Whole and in characters, which must not differ."""
    events = read(AtemParser(TOOLS), [text])
    assert read(AtemParser(TOOLS), text) == events
    return events


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(F, [call("f", n=4)], id="5 no header"),
        pytest.param(block(invoke("f", n="1"), invoke("g")), [call("f", n=1), call("g")], id="6 two calls in a block"),
        pytest.param(block(invoke("f", n="1", s="a b")), [call("f", n=1, s="a b")], id="8 several parameters"),
        pytest.param(f"Look:{F}", [("answer", "Look:"), call("f", n=4)], id="9 prose first"),
        pytest.param("hi", [("answer", "hi")], id="11 plain text"),
        pytest.param("it is 4", [("answer", "it is 4")], id="14 prose without a block"),
        pytest.param(
            block(invoke("f", n="7", x="2.5", b="True")), [call("f", n=7, x=2.5, b=True)], id="15 typed by the schema"
        ),
        pytest.param(block(invoke("f", s="007")), [call("f", s="007")], id="16 a string keeps its digits"),
        pytest.param(block(invoke("f", s="  a ")), [call("f", s="  a ")], id="17 a string keeps its spaces"),
        pytest.param(block(invoke("f", u="[1]", v="abc")), [call("f", u=[1], v="abc")], id="18 undeclared parameter"),
        pytest.param(block(invoke("f", a="[1,2]", u='{"k":null}')), [call("f", a=[1, 2], u={"k": None})], id="19 JSON"),
        pytest.param(block(invoke("f", n="3.0")), [call("f", n="3.0")], id="20 no integer"),
        pytest.param(block(invoke("f", b="1")), [call("f", b="1")], id="21 no boolean"),
        pytest.param(block(invoke("f", n="1_000")), [call("f", n="1_000")], id="22 no digits only"),
        pytest.param(
            block(invoke("f", x="NaN", a="[Infinity]", u="-Infinity")),
            [call("f", x="NaN", a="[Infinity]", u="-Infinity")],
            id="23 not finite",
        ),
        pytest.param(
            block(invoke("f", s="a</atem:parameter>b")),
            [call("f", s="a</atem:parameter>b")],
            id="24 end tag in a value",
        ),
        pytest.param(
            block(invoke("f", s='<atem:invoke name="q">')),
            [call("f", s='<atem:invoke name="q">')],
            id="25 tag in a value",
        ),
        pytest.param(block(invoke("f", s="a<b && c>d")), [call("f", s="a<b && c>d")], id="26 angle brackets"),
        pytest.param("goto=x; photo=y", [("answer", "goto=x; photo=y")], id="35 look-alikes"),
        # Section 8.
        pytest.param(block(invoke("g")), [call("g")], id="no parameters"),
        pytest.param(block(invoke("f.f", n="4")), [call("f", n=4)], id="namespaced by itself"),
        pytest.param(block(invoke("get", city="Rome")), [call("weather.get", city="Rome")], id="namespace missing"),
        pytest.param(block(invoke("read", path="7")), [call("read.read", path="7")], id="short for read.read"),
        pytest.param(block(invoke("read.read", path="7")), [call("read.read", path="7")], id="read.read"),
        pytest.param(
            block(invoke("weather.get.get", city="Rome")), [call("weather.get", city="Rome")], id="last part twice"
        ),
        pytest.param(
            block('<atem:invoke name="f">\n' + param("n", "1") + param("n", "2") + "</atem:invoke>\n"),
            [call("f", n=2)],
            id="a repeated key: the last wins",
        ),
        pytest.param(
            block(invoke("f", s=f"x</atem:parameter>\n</atem:invoke>\n{CLOSE} y")),
            [call("f", s=f"x</atem:parameter>\n</atem:invoke>\n{CLOSE} y")],
            id="a value with the whole closing sequence: the last match counts",
        ),
        pytest.param(
            block(invoke("f", s=f"see {F} there")), [call("f", s=f"see {F} there")], id="a value with a whole block"
        ),
        pytest.param(f"{F}\nDone.", [call("f", n=4), ("answer", "Done.")], id="text after the call is content"),
        pytest.param(
            f"One. {F}\n\n{F} Two.\n",
            [("answer", "One."), call("f", n=4), call("f", n=4), ("answer", " Two.\n")],
            id="white space before and between calls is nobody's",
        ),
        # Of other implementations: wrapper tags missing, a control token in the place of the end of a tag.
        pytest.param(invoke("f", n="4"), [call("f", n=4)], id="no block"),
        pytest.param(
            f"Look: {invoke('f', n='4').strip()} So.",
            [("answer", "Look:"), call("f", n=4), ("answer", " So.")],
            id="no block, in prose",
        ),
        pytest.param(invoke("f", n="4") + invoke("g"), [call("f", n=4), call("g")], id="two calls without a block"),
        pytest.param(invoke("f", n="4") + CLOSE, [call("f", n=4)], id="no begin of the block"),
        pytest.param(F.removesuffix(CLOSE), [call("f", n=4)], id="no end of the block"),
        pytest.param(F[:-3], [call("f", n=4)], id="cut off inside the end of the block"),
        pytest.param(F.replace('"f">', '"f"'), [call("f", n=4)], id="the tag has no end"),
        pytest.param(F.replace('"f">', '"f'), [call("f", n=4)], id="the name has no end"),
        pytest.param(F.replace('"f">\n', '"f'), [call("f", n=4)], id="the name has no end, and no line"),
        pytest.param(F.replace('"f">', '"f>'), [call("f", n=4)], id="the name has no quotation mark"),
        pytest.param(F.replace("\n", ""), [call("f", n=4)], id="one line"),
        pytest.param(F.replace("\n", " \r\n\t"), [call("f", n=4)], id="other white space"),
        # Text that only looks like it.
        pytest.param(
            "Use <atem:function_calls> for it.",
            [("answer", "Use <atem:function_calls> for it.")],
            id="a block of prose",
        ),
        pytest.param(
            "</atem:invoke> < <atem:parameters>", [("answer", "</atem:invoke> < <atem:parameters>")], id="tags"
        ),
        pytest.param("a <", [("answer", "a <")], id="held to the end"),
        pytest.param("<atem:invoked>", [("answer", "<atem:invoked>")], id="another tag"),
        pytest.param(" \n", [("answer", " \n")], id="white space only"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_good_calls_and_text(text: str, expected: list[Event]) -> None:
    """Nothing of a call is shown, nothing else is lost."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 12: upstream shows the whole text. So can who gets this.
        pytest.param(f"x {ZZ}", [("answer", "x"), (f" {ZZ}", "zz", "no tool named")], id="12 unknown tool"),
        # 13: upstream drops the call. Nothing is dropped silently here: it is told with its text.
        pytest.param(
            f'ok{OPEN}<atem:invoke name="f">\n<atem:parameter name="s">ab',
            [("answer", "ok"), (f'{OPEN}<atem:invoke name="f">\n<atem:parameter name="s">ab', "f", CUT_OFF)],
            id="13 cut off inside a value",
        ),
        pytest.param(f"ok{OPEN}", [("answer", "ok"), (OPEN, None, CUT_OFF)], id="cut off behind the first tag"),
        pytest.param("ok<atem:fu", [("answer", "ok"), ("<atem:fu", None, CUT_OFF)], id="cut off inside the first tag"),
        pytest.param(f"{OPEN}<atem:inv", [(f"{OPEN}<atem:inv", None, CUT_OFF)], id="cut off inside the second tag"),
        pytest.param(F[:-50], [(F[:-50], "f", CUT_OFF)], id="cut off inside the end of the parameter"),
        pytest.param(F[:-26], [(F[:-26], "f", CUT_OFF)], id="cut off inside the end of the call"),
        # Upstream keeps the first call only, and says nothing of the other.
        pytest.param(
            block(invoke("g"), invoke("f", n="4"))[:-50],
            [call("g"), (invoke("f", n="4")[:-28], "f", CUT_OFF)],
            id="one good, one cut off",
        ),
        # Upstream makes no call at all of a block with one that is unknown.
        pytest.param(
            block(invoke("g"), invoke("zz")),
            [call("g"), (f"{invoke('zz')}{CLOSE}", "zz", "no tool named")],
            id="one good, one unknown",
        ),
        pytest.param(
            block(invoke("zz"), invoke("g")),
            [(f"{OPEN}{invoke('zz').strip()}", "zz", "no tool named"), call("g")],
            id="one unknown, one good",
        ),
        # Upstream loses these silently.
        pytest.param(
            F.replace('"f"', "'f'"), [(F.replace('"f"', "'f'"), "f", "The tag of a call must")], id="single quotes"
        ),
        pytest.param(
            F.replace('"f"', '"f" id="1"'), [(F.replace('"f"', '"f" id="1"'), "f", "The tag of a call")], id="attribute"
        ),
        pytest.param(
            F.replace('"n"', "'n'"), [(F.replace('"n"', "'n'"), "f", "The tag of a parameter")], id="single quoted key"
        ),
        pytest.param(F.replace('"f"', '""'), [(F.replace('"f"', '""'), None, "names no tool")], id="empty name"),
        pytest.param(
            F.replace(' name="f"', ""), [(F.replace(' name="f"', ""), None, "The tag of a call must")], id="no name"
        ),
        pytest.param(block(invoke("send", text="x")), [(block(invoke("send", text="x")), "send", "no tool")], id="two"),
        pytest.param(
            f'{OPEN}<atem:invoke name="f">{{"n": 4}}</atem:invoke>\n{CLOSE}',
            [(f'{OPEN}<atem:invoke name="f">{{"n": 4}}</atem:invoke>\n{CLOSE}', "f", "outside of its parameters")],
            id="JSON instead of parameters",
        ),
        pytest.param(
            F.replace("</atem:invoke>\n", ""), [(F.replace("</atem:invoke>\n", ""), "f", "end tag")], id="no end of it"
        ),
        pytest.param(
            block('<atem:invoke name="f">\n' + param("n", "1"), invoke("g")),
            [(f'{OPEN}<atem:invoke name="f">\n{param("n", "1")}', "f", "end tag"), call("g")],
            id="no end, and another",
        ),
        pytest.param(
            f'<atem:invoke name="{"f" * 400}">', [(f'<atem:invoke name="{"f" * 400}">', None, CUT_OFF)], id="endless"
        ),
    ],
)
def test_broken_calls(text: str, expected: list[Event | tuple[str, str | None, str]]) -> None:
    """Each is told with its text, the tool it meant and what is wrong; good ones around it are kept."""
    events = parse(text)
    assert len(events) == len(expected)
    for event, wanted in zip(events, expected, strict=True):
        if isinstance(event, BrokenCall):
            assert isinstance(wanted, tuple)
            assert len(wanted) == 3
            assert (event.text, event.name) == wanted[:2]
            assert wanted[2] in event.reason
        else:
            assert event == wanted
    if not calls(events):
        assert shown(events) == text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", " +7 ", 7),
        ("integer", "-0", 0),
        ("integer", "1e3", "1e3"),
        ("integer", "٣", "٣"),
        ("integer", "9" * 64, int("9" * 64)),
        ("integer", "9" * 5000, "9" * 5000),
        ("number", ".5", 0.5),
        ("number", "1e5", 100000.0),
        ("number", "4", 4),
        ("number", " -2. ", -2.0),
        ("number", "1e999", "1e999"),
        ("number", "Infinity", "Infinity"),
        ("number", "", ""),
        ("boolean", " FALSE\n", False),
        ("boolean", "yes", "yes"),
        ("string", "[1]", "[1]"),
        ("array", "[1", "[1"),
        ("object", '{"k": "é"}', {"k": "é"}),
        ("object", '{"k": 1e999}', '{"k": 1e999}'),
        ("array", "[" * 5000, "[" * 5000),
        ("array", "[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
        ("array", r'["\ud800"]', r'["\ud800"]'),
        (["integer", "null"], "null", None),
        (["integer", "null"], "5", 5),
        (None, "5", 5),
        (None, "five", "five"),
    ],
)
def test_values_have_their_declared_type(kind: Any, text: str, value: Any) -> None:
    """What does not fit stays the text that it is. The result is strict JSON with its letters as they are."""
    declared = tool("t", v={} if kind is None else {"type": kind})
    [found] = read(AtemParser([declared]), [block(invoke("t", v=text))])
    assert isinstance(found, FoundCall)
    assert json.loads(found.arguments, parse_constant=pytest.fail) == {"v": value}
    assert type(json.loads(found.arguments)["v"]) is type(value)
    assert "é" not in text or "é" in found.arguments


CUT_ANYWHERE = f"Look: {block(invoke('f', n='4', s='a <b'), invoke('g'))}\n{block(invoke('g'))} <at last"


@pytest.mark.parametrize("cut", range(len(CUT_ANYWHERE)))
def test_what_is_cut_anywhere_can_go_on(cut: int) -> None:
    """Calls and text are the same, but that the very beginning of a tag was shown as what it seemed to be."""
    parser = AtemParser(TOOLS)
    before = [event for event in read(parser, [CUT_ANYWHERE[:cut]]) if not isinstance(event, BrokenCall)]
    assert parser.flush() == []
    begun = next((text for text in ("<ate", "<at", "<a", "<") if CUT_ANYWHERE[:cut].endswith(text)), "")
    events = before + read(parser, [CUT_ANYWHERE[cut:]])
    assert calls(events) == [call("f", n=4, s="a <b"), call("g"), call("g")]
    assert "".join(shown(events).split()) in ("Look:<atlast", f"Look:{begun}<atlast")
