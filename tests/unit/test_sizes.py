"""Invariant: what one step lets through fits the next, and nothing is refused that could have fitted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.protocol import Count, TextSegment
from muse.protocol_codec import decode_command, encode_command
from muse.sizes import (
    BODY_BYTES,
    COMMAND_BYTES,
    ORDINARY_BYTES,
    PIECE_CHARS,
    PROMPT_LINE_BYTES,
    is_too_long,
    json_string_bytes,
)
from muse.worker.counting import COUNTED_CHARS, CUT_TOKENS, refuse_longer
from muse.worker.engines.base import EngineFault

ANY_TEXT = st.text(st.characters())
"""Half surrogates included: a template can make them."""


def line_of(text: str) -> bytes:
    return encode_command(Count(request_id="r", prompt_segments=(TextSegment(text=text, special=False),)))


@given(ANY_TEXT)
def test_the_length_of_a_text_in_a_line_is_known_before(text: str) -> None:
    """To the byte, but for half surrogates, which have the whole text escaped."""
    length = len(line_of(text)) - len(line_of("")) + 2
    if any("\ud800" <= char <= "\udfff" for char in text):
        assert json_string_bytes(text) <= length
    else:
        assert json_string_bytes(text) == length


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_a_text_takes_no_more_bytes_in_a_line_than_in_a_body(text: str, escape: bool) -> None:
    """However the client wrote it: so what a body may hold, a line may hold."""
    assert json_string_bytes(text) <= len(json.dumps(text, ensure_ascii=escape).encode())


@pytest.mark.parametrize("text", ["ж😀", '"\\\n\x01', "\ud800"])
def test_a_text_of_many_pieces_comes_through(text: str) -> None:
    """Encoded piece by piece, cut anywhere."""
    for shift in range(3):
        long = "x" * shift + text * (PIECE_CHARS // len(text) + 1)
        command = decode_command(line_of(long))
        assert isinstance(command, Count)
        assert command.prompt_segments == (TextSegment(text=long, special=False),)


def test_lines_are_utf_8_without_escapes() -> None:
    """Cyrillic takes two bytes a letter, not six."""
    assert "жук".encode() in line_of("жук")
    assert PROMPT_LINE_BYTES == 2 * BODY_BYTES < COMMAND_BYTES


def test_what_must_be_longer_than_the_context_is_known_from_its_length() -> None:
    """One character more than all tokens could stand for; never where nothing is known of the tokens."""
    fits = ["ж" * 500, "x" * 500]
    assert not is_too_long(fits, context_length=100, longest_token_bytes=10)
    assert is_too_long([*fits, "x"], context_length=100, longest_token_bytes=10)
    assert not is_too_long(["x" * 10_000], context_length=100, longest_token_bytes=None)


@pytest.mark.parametrize("char", ["\x00", "\x1f", "\x7f", "\U00040000", "\U0010ffff"])
def test_characters_that_a_vocabulary_may_lack_prove_nothing(char: str) -> None:
    """They may have no token at all, so the engine has to count."""
    assert not ORDINARY_BYTES.issuperset(char.encode())
    assert not is_too_long([char * 10_000], context_length=100, longest_token_bytes=10)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_text_that_counts_is_made_of_ordinary_bytes(text: str) -> None:
    """So the proof holds for each vocabulary that has tokens for these."""
    if is_too_long([text], context_length=0, longest_token_bytes=1):
        assert ORDINARY_BYTES.issuperset(text.encode())


class Counter:
    """A tokeniser with a token for each `chars` characters."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self.seen = 0

    def __call__(self, pieces: list[str]) -> int:
        self.seen += sum(map(len, pieces))
        return sum(-(-len(piece) // self._chars) for piece in pieces)


@pytest.mark.parametrize("count", [1, 100, 20_000])
def test_the_count_of_a_long_prompt_stops_once_it_is_over_the_context(count: int) -> None:
    """In one text or in many: a fraction of it was looked at, and no number is told."""
    counter = Counter(4)
    texts = ["x" * (16 * COUNTED_CHARS // count)] * count
    with pytest.raises(EngineFault) as caught:
        refuse_longer(texts, counter, 100_000)
    assert (caught.value.code, caught.value.prompt_tokens, caught.value.context_length) == (
        "context_overflow",
        None,
        100_000,
    )
    assert counter.seen < sum(map(len, texts)) / 8


def test_a_prompt_that_may_fit_is_not_refused() -> None:
    """Neither a long one of long tokens, nor any that is short enough to be counted exactly."""
    refuse_longer(["x" * (4 * COUNTED_CHARS)], Counter(100), 4 * COUNTED_CHARS // 100 + 1)
    short = Counter(1)
    refuse_longer(["x" * COUNTED_CHARS], short, 10)
    assert short.seen == 0


def test_tokens_that_only_a_cut_makes_do_not_count() -> None:
    """Up to CUT_TOKENS for each part of a text."""
    refuse_longer(["x" * (2 * COUNTED_CHARS)], lambda _: CUT_TOKENS, 1)
