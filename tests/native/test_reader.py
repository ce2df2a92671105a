"""Text of the program as events: ids that are right unless it batches, control tokens apart, doubts at the end."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.protocol import Tokens, WorkerEvent
from muse.worker.engines.native.reader import AnswerReader
from muse.worker.hf_tokenizer import JsonTokenizer
from tests.worker.nano import FOLDER

TOKENIZER = JsonTokenizer(FOLDER / "hf" / "tokenizer.json")
BITS = st.sampled_from(
    ["<|", "eot", "|>", " ", "é", "🎉", "\n", "a", "<|eot|>", "<|start|>", "to=", "7", "\x00", "\u0301"]
)
TEXTS = st.lists(BITS, max_size=12).map("".join)


def read(*lines: str) -> tuple[AnswerReader, list[Tokens]]:
    events: list[WorkerEvent] = []
    reader = AnswerReader("r", TOKENIZER, events.append)
    for line in lines:
        reader.take(line)
    return reader, [event for event in events if isinstance(event, Tokens)]


@given(st.lists(st.integers(0, 511), max_size=30))
def test_a_line_for_each_token_gives_the_tokens(ids: list[int]) -> None:
    """As upstream writes them: together until a character is complete. The text is exact in any case."""
    lines: list[str] = []
    held: list[int] = []
    for token in ids:
        held.append(token)
        data = TOKENIZER.decode(held)
        try:
            lines.append(data.decode())
        except UnicodeDecodeError:
            continue
        held = []
    whole = ids[: len(ids) - len(held)]
    reader, events = read(*lines)
    assert "".join(event.text for event in events) == TOKENIZER.decode(whole).decode()
    assert TOKENIZER.decode(reader.ids) == TOKENIZER.decode(whole)
    controls = [token for token in whole if token in TOKENIZER.control]
    assert [event.ids for event in events if event.control] == [(token,) for token in controls]
    assert reader.check(tuple(whole)) == tuple(whole)


def test_a_control_token_is_told_from_its_spelling() -> None:
    """By the line: one token is one line."""
    reader, events = read("a", "<|eot|>", "<", "|", "e", "ot", "|>")
    assert [event.text for event in events if event.control] == ["<|eot|>"]
    assert reader.ids.count(503) == 1


def test_a_line_of_several_tokens_is_cut_as_its_text() -> None:
    """Of an upstream that gathers; its spellings are taken for control tokens, as nothing tells them apart."""
    reader, events = read("Hello <|eot|> world")
    assert [event.text for event in events] == ["Hello ", "<|eot|>", " world"]
    assert events[1].control
    assert TOKENIZER.decode(reader.ids) == b"Hello <|eot|> world"


def test_ids_of_text_that_was_shown_in_another_meaning_are_not_kept() -> None:
    """Where the end says that a spelling was plain text after all."""
    reader, _ = read("a <|eot|> b")
    plain = TOKENIZER.encode("a <|eot|> b", special=False)
    assert reader.check(plain) is None
    assert reader.check(tuple(reader.ids)) == tuple(reader.ids)
    assert reader.check(None) is None


def test_an_unknown_piece_has_no_ids() -> None:
    """The replacement character may stand for any bytes; a control token behind it is one all the same."""
    reader, events = read("a\ufffd<|eom|>")
    assert [(event.ids is None, event.text, event.control) for event in events] == [
        (True, "a\ufffd", False),
        (False, "<|eom|>", True),
    ]
    assert TOKENIZER.decode(reader.ids) == b"<|eom|>"


@pytest.mark.parametrize(("lines", "ids"), [((), ()), (("a",), None), (("\ufffd",), None)])
def test_without_a_word_at_the_end_only_silence_has_ids(lines: tuple[str, ...], ids: tuple[int, ...] | None) -> None:
    """A piece of unknown bytes is no silence, though its ids are not known either."""
    assert read(*lines)[0].check(None) == ids


def test_a_replacement_character_is_no_token() -> None:
    """Not even where the tokenizer has one of that spelling."""
    has_one = SimpleNamespace(id_of=lambda _text: 7, control={}, spellings=re.compile("((?!))"))
    events: list[WorkerEvent] = []
    AnswerReader("r", cast(JsonTokenizer, has_one), events.append).take("\ufffd")
    assert events == [Tokens(request_id="r", ids=None, text="\ufffd")]
