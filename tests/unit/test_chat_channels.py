"""Channel parsers: any chunking gives the same channels, and no text is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.chat.channel_types import ChannelParser
from muse.chat.channels import PlainParser, can_think, parser_for
from muse.chat.think_tags import ThinkTagParser
from muse.protocol import IdsSegment, Segment, TextSegment
from tests.unit import parser_runs
from tests.unit.parser_runs import said

PARTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<th", "</thi", "a", " ", "\n", "\n\n", "é", ">"]), max_size=12
)

CUT_ANYWHERE = "<think>a </th b</think>yes"
END = CUT_ANYWHERE.index("</think>")


def run(parser: ChannelParser, chunks: list[str]) -> dict[str, str]:
    events = parser_runs.read(parser, chunks)
    return {"reasoning": said(events, "reasoning"), "answer": said(events, "answer")}


def whole_text_rule(text: str, *, opened: bool) -> dict[str, str]:
    """The definition, on the whole text at once."""
    if not opened:
        if not text.lstrip().startswith("<think>"):
            return {"reasoning": "", "answer": text}
        text = text.lstrip().removeprefix("<think>")
    before, tag, after = text.lstrip().partition("</think>")
    if tag:
        return {"reasoning": before.rstrip(), "answer": after.lstrip()}
    return {"reasoning": before, "answer": ""}


@given(PARTS, st.booleans(), st.data())
def test_any_chunking_equals_the_rule_on_the_whole_text(parts: list[str], opened: bool, data: st.DataObject) -> None:
    """Cut anywhere, the channels are the same."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert run(ThinkTagParser(opened=opened), chunks) == whole_text_rule(text, opened=opened)


@pytest.mark.parametrize("cut", range(len(CUT_ANYWHERE)))
def test_a_thought_that_was_cut_anywhere_can_go_on(cut: int) -> None:
    """Also in a tag, of which what came was shown as what it seemed to be."""
    parser = ThinkTagParser(opened=False)
    before = run(parser, [CUT_ANYWHERE[:cut]])
    assert parser.flush() == []
    after = run(parser, [CUT_ANYWHERE[cut:]])
    begun = CUT_ANYWHERE[:cut] if cut < len("<think>") else ""
    ended = CUT_ANYWHERE[END:cut] if END < cut < END + len("</think>") else ""
    assert (before["answer"] + after["answer"]) == f"{begun}yes"
    assert (before["reasoning"] + after["reasoning"]).replace(" ", "") == f"a</thb{ended}"


def test_certain_text_is_not_held_back() -> None:
    """Reasoning and answer flow; only a possible tag and white space before it wait."""
    parser = ThinkTagParser(opened=False)
    assert parser.feed("<think>\nLet me see") == [("reasoning", "Let me see")]
    assert parser.channel == "reasoning"
    assert parser.feed(".\n</thi") == [("reasoning", ".")]
    assert parser.feed("nk>\n\n") == []
    assert parser.channel == "answer"
    assert parser.feed("Yes <think>") == [("answer", "Yes <think>")]


def test_closing_the_reasoning_goes_on_with_the_answer() -> None:
    """What is appended is the closing tag as a control token; text behind it is the answer."""
    parser = ThinkTagParser(opened=True)
    parser.feed("endless thought")
    assert parser.close_reasoning() == (TextSegment(text="\n</think>\n\n", special=True),)
    assert parser.close_reasoning() is None
    assert run(parser, ["\nFour", "."]) == {"reasoning": "", "answer": "Four."}


def test_a_plain_model_has_one_channel() -> None:
    """Tags in its text are text; there is nothing to close."""
    assert run(PlainParser(), ["<think>", "x</think>"]) == {"reasoning": "", "answer": "<think>x</think>"}
    assert PlainParser().close_reasoning() is None


@pytest.mark.parametrize(
    ("template", "prompt", "kind", "channel"),
    [
        (None, (), PlainParser, "answer"),
        ("{{ messages }}", (), PlainParser, "answer"),
        ("...</think>...", (TextSegment(text="assistant\n", special=True),), ThinkTagParser, "answer"),
        ("...</think>...", (TextSegment(text="assistant\n<think>\n", special=True),), ThinkTagParser, "reasoning"),
        ("...</think>...", (TextSegment(text="<think>", special=False),), ThinkTagParser, "answer"),
        ("...</think>...", (IdsSegment(ids=(1,)),), ThinkTagParser, "answer"),
    ],
)
def test_the_parser_is_chosen_by_template_and_prompt(
    template: str | None, prompt: tuple[Segment, ...], kind: type, channel: str
) -> None:
    """A user's text that ends in the tag does not open the channel."""
    parser = parser_for(template, prompt)
    assert isinstance(parser, kind)
    assert parser.channel == channel


@pytest.mark.parametrize(
    ("template", "thinks"),
    [(None, False), ("{{ messages }}", False), ("<think></think>", True), ("<|start|><|message|>", True)],
)
def test_a_template_tells_whether_the_model_thinks(template: str | None, thinks: bool) -> None:
    """The page offers what has to do with thinking to such models only."""
    assert can_think(template) is thinks
