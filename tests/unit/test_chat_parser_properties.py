"""All parsers: a turn is read as it was meant, wherever it is cut, and no control token is ever shown."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.chat.channel_types import BrokenCall, Event, TextKind
from muse.chat.harmony import END_OF_MESSAGE, END_OF_TURN, MESSAGE, START, HarmonyParser
from muse.chat.hermes import HermesParser
from muse.chat.think_tags import ThinkTagParser
from tests.unit.dialogues import chatml_turns, harmony_turns
from tests.unit.parser_runs import TOOLS, cut, marked, run

Turn = tuple[str, list[Event]]


def harmony() -> HarmonyParser:
    return HarmonyParser(TOOLS)


def hermes() -> HermesParser:
    return HermesParser(ThinkTagParser(opened=False), TOOLS, header="<|im_start|>assistant\n")


def mixed(chunks: Iterable[str]) -> list[tuple[str, TextKind]]:
    return [(chunk, "mixed") for chunk in chunks]


def cut_in_bytes(text: str, place: int) -> list[str]:
    """Two parts of the bytes; the first is given up to its last whole character, as workers do."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    data = text.encode()
    return [decoder.decode(data[:place]), decoder.decode(data[place:], final=True)]


def tokens(turn: str, data: st.DataObject) -> list[tuple[str, TextKind]]:
    """Control tokens whole, text in tokens of a few characters."""
    made: list[tuple[str, TextKind]] = []
    for part, kind in marked(turn):
        size = data.draw(st.integers(1, 6))
        pieces = [part] if kind == "control" else [part[at : at + size] for at in range(0, len(part), size)]
        made.extend((piece, kind) for piece in pieces)
    return made


@settings(max_examples=60)
@given(harmony_turns(), st.data())
def test_a_turn_of_harmony_is_read_as_it_was_meant(turn: Turn, data: st.DataObject) -> None:
    """By tokens with ids, and by any pieces without."""
    text, expected = turn
    assert run(harmony(), tokens(text, data)) == expected
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    assert run(harmony(), mixed(cut(text, places))) == expected
    assert run(harmony(), mixed(text)) == expected


@settings(max_examples=60)
@given(chatml_turns(), st.data())
def test_a_turn_of_chatml_is_read_as_it_was_meant(turn: Turn, data: st.DataObject) -> None:
    """The tags may be control tokens, or text in any pieces."""
    text, expected = turn
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    assert run(hermes(), mixed(cut(text, places))) == expected
    assert run(hermes(), mixed(text)) == expected


@settings(max_examples=8, deadline=None)
@given(harmony_turns())
def test_a_cut_at_any_byte_changes_nothing_in_harmony(turn: Turn) -> None:
    """Every one of them in turn."""
    text, expected = turn
    for place in range(len(text.encode()) + 1):
        assert run(harmony(), mixed(cut_in_bytes(text, place))) == expected


@settings(max_examples=8, deadline=None)
@given(chatml_turns())
def test_a_cut_at_any_byte_changes_nothing_in_chatml(turn: Turn) -> None:
    """Every one of them in turn."""
    text, expected = turn
    for place in range(len(text.encode()) + 1):
        assert run(hermes(), mixed(cut_in_bytes(text, place))) == expected


@pytest.mark.parametrize("kind", ["control", "mixed"])
@settings(max_examples=30)
@given(
    parts=st.lists(st.sampled_from([START, MESSAGE, END_OF_MESSAGE, END_OF_TURN]) | harmony_turns().map(lambda t: t[0]))
)
def test_no_control_token_is_ever_shown(kind: str, parts: list[str]) -> None:
    """Whatever order they come in, neither as text nor in a call that is broken."""
    turn = "".join(parts)
    events = run(harmony(), marked(turn) if kind == "control" else mixed([turn]))
    for event in events:
        shown = event.text if isinstance(event, BrokenCall) else str(event)
        assert not any(token in shown for token in (START, MESSAGE, END_OF_MESSAGE, END_OF_TURN))


@settings(max_examples=60)
@given(harmony_turns() | chatml_turns(), st.data())
def test_a_copy_goes_its_own_way(turn: Turn, data: st.DataObject) -> None:
    """Copied anywhere, both give the rest of the turn."""
    text, _ = turn
    place = data.draw(st.integers(0, len(text)))
    for new in (harmony, hermes):
        parser = new()
        parser.feed(text[:place], "mixed")
        following = parser.copy()
        rest = mixed([text[place:]])
        assert run(parser, rest) == run(following, rest)
