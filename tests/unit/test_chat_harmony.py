"""Harmony's channels: any split of any turn gives the same, and no control token is ever shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.chat.channel_types import ChannelParser, TextKind
from muse.chat.channels import parser_for
from muse.chat.harmony import END_OF_MESSAGE as EOM
from muse.chat.harmony import END_OF_TURN as EOT
from muse.chat.harmony import MESSAGE as M
from muse.chat.harmony import START as S
from muse.chat.harmony import HarmonyParser
from muse.protocol import TextSegment
from tests.unit import parser_runs
from tests.unit.parser_runs import SPELLING, marked, said

TEXTS = st.text(st.sampled_from("ab <|>=to\né🎉"), max_size=12)


def run(parser: ChannelParser, chunks: Sequence[tuple[str, TextKind]]) -> tuple[str, str]:
    """(reasoning, answer)."""
    events = parser_runs.run(parser, chunks)
    return said(events, "reasoning"), said(events, "answer")


@pytest.mark.parametrize(
    ("turn", "reasoning", "answer"),
    [
        (f" to=user{M}Rome.", "", "Rome."),
        (f" to=user{M}Rome.{EOT}", "", "Rome."),
        (f" to=self{M}hm{EOM}{S}assistant to=user{M}Yes.{EOT}", "hm", "Yes."),
        (f" to=self{M}a{EOM}{S}assistant to=self{M}b{EOM}{S}assistant to=user{M}c", "a\n\nb", "c"),
        (f" to=user{M}a{EOM}{S}assistant to=self{M}b{EOM}{S}assistant to=user{M}c", "b", "a\n\nc"),
        (f" to=self{M}a", "a", ""),
        (f" to=self{M}a{EOM}{S}assistant{M}b{EOT}", "a", "b"),  # no recipient: visible
        (f"{M}hello", "", "hello"),
        (f"{S}assistant to=user{M}full prefix", "", "full prefix"),
        (f" to=user constrain=json{M}{{}}", "", "{}"),
        (f" to=commentary{M}a{EOM}{S}assistant to=user{M}b", "", "a\n\nb"),
        (f" to=a/b{M}odd", "", "odd"),
        (f" to = user{M}spaced", "", "spaced"),
        (f" to=self{M}a{S}assistant to=user{M}b", "a", "b"),  # the end of the message is missing
        (f" to=user{M}done{EOM}stray", "", "done\n\nstray"),
        ("hi there", "", "hi there"),
        ("", "", ""),
        (" to=user", "", ""),  # cut inside the header
        ("to", "", "to"),
        ("together", "", "together"),
        ("assistants help", "", "assistants help"),
        ("goto=x; photo=y", "", "goto=x; photo=y"),
        (f" to=self{M}a{EOM}<|pad|>{S}assistant to=user{M}b<|image_end|>c", "a", "bc"),
    ],
)
def test_channels_of_whole_turns(turn: str, reasoning: str, answer: str) -> None:
    """The grammar and its odd cases, both with marked control tokens and without."""
    assert run(HarmonyParser(), marked(turn)) == (reasoning, answer)
    assert run(HarmonyParser(), [(turn, "mixed")]) == (reasoning, answer)
    assert run(HarmonyParser(), [(char, "mixed") for char in turn]) == (reasoning, answer)


@st.composite
def turns(draw: st.DrawFn) -> tuple[str, str, str]:
    """A turn of several messages, and what its channels hold."""
    kinds = draw(st.lists(st.sampled_from(["self", "user"]), min_size=1, max_size=4))
    bodies = [draw(TEXTS.filter(lambda text: not SPELLING.search(text + "|>"))) for _ in kinds]
    turn = "".join(
        f"{S}assistant to={kind}{M}{body}{EOM}" for kind, body in zip(kinds, bodies, strict=True)
    ).removeprefix(f"{S}assistant")
    said = {
        wanted: "\n\n".join(body for kind, body in zip(kinds, bodies, strict=True) if kind == wanted and body)
        for wanted in ("self", "user")
    }
    return turn.removesuffix(EOM) + EOT, said["self"], said["user"]


@given(turns(), st.data())
def test_any_split_gives_the_same_channels(turn: tuple[str, str, str], data: st.DataObject) -> None:
    """At every character without ids, at every token with them; text may look like anything."""
    text, reasoning, answer = turn
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert run(HarmonyParser(), [(chunk, "mixed") for chunk in chunks]) == (reasoning, answer)
    tokens: list[tuple[str, TextKind]] = []
    for part, kind in marked(text):
        size = data.draw(st.integers(1, 5))
        pieces = [part] if kind == "control" else [part[at : at + size] for at in range(0, len(part), size)]
        tokens.extend((piece, kind) for piece in pieces)
    assert run(HarmonyParser(), tokens) == (reasoning, answer)


@given(st.lists(st.sampled_from([S, M, EOM, EOT, "assistant", " to=", "self", "user", "x", "\n", "<|", "|>", "é"])))
def test_whatever_is_generated_no_control_token_is_shown(parts: list[str]) -> None:
    """And the parser takes it; marked control tokens never reach a channel, nor do spelled ones without ids."""
    controls = (S, M, EOM, EOT)
    shown = "".join(run(HarmonyParser(), [(part, "control" if part in controls else "text") for part in parts]))
    spelled = "".join(part for part in parts if part not in controls)
    assert len(shown.replace("\n", "")) <= len(spelled.replace("\n", ""))
    mixed = "".join(run(HarmonyParser(), [("".join(parts), "mixed")]))
    assert not any(control in mixed for control in controls)


def test_a_look_alike_is_text_where_ids_are_known() -> None:
    """The user asked how the format looks; the model spells it with ordinary tokens."""
    chunks: list[tuple[str, TextKind]] = [(" to=user", "text"), (M, "control"), (f"It is {S}assistant{M}", "text")]
    assert run(HarmonyParser(), chunks) == ("", f"It is {S}assistant{M}")


def test_certain_text_flows_at_once() -> None:
    """Only what may become a marker waits."""
    parser = HarmonyParser()
    assert parser.feed(f" to=self{M}Let me", "mixed") == [("reasoning", "Let me")]
    assert parser.channel == "reasoning"
    assert parser.feed(" see <", "mixed") == [("reasoning", " see ")]
    assert parser.feed("b", "mixed") == [("reasoning", "<b")]
    assert parser.feed("<|eo", "mixed") == []
    assert parser.feed("m|>", "mixed") == []


def test_closing_the_reasoning_opens_the_answer() -> None:
    """What is appended is the end of the message and a header to the user."""
    parser = HarmonyParser()
    assert parser.close_reasoning() is None
    parser.feed(f" to=self{M}endless", "mixed")
    assert parser.close_reasoning() == (TextSegment(text=f"{EOM}{S}assistant to=user{M}", special=True),)
    assert parser.close_reasoning() is None
    assert run(parser, [("Four.", "text"), (EOT, "control")]) == ("", "Four.")


def test_the_template_tells_the_language() -> None:
    """By its control tokens."""
    assert isinstance(parser_for(f"... '{S}assistant' ... '{M}' ...", ()), HarmonyParser)
