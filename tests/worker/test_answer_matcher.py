"""What follows a constrained answer beside its engine: bytes of any cut, tokens of a model, the end, dead ends."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import pytest

from muse.worker.answer_matcher import AnswerMatcher, MatcherTokens, matcher_tokens
from muse.worker.engines.base import EngineFault
from muse.worker.json_form import grammar_of

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"t": {"type": "string"}, "n": {"enum": [1, 12, 123]}},
    "required": ["t", "n"],
    "additionalProperties": False,
}
GRAMMAR: Final = grammar_of(json.dumps(SCHEMA))
WHOLE: Final = '{"t":"é🦩<|eot|>","n":12}'
WORDS: Final = [
    b'{"',
    b"t",
    b'":"',
    b"\xf0\x9f",
    b"\xa6\xa9",
    b'","',
    b"n",
    b'":',
    b"1",
    b"12",
    b"}",
    b"<|eot|>",
    b"END",
]
END: Final = WORDS.index(b"END")
CONTROL: Final = (WORDS.index(b"<|eot|>"), END)


@pytest.fixture(scope="module")
def words() -> MatcherTokens:
    """A model that lacks most bytes."""
    return matcher_tokens(WORDS, control=CONTROL, end=(END,))


def spelled(ranges: list[range]) -> set[bytes]:
    return {WORDS[token] for one in ranges for token in one}


def test_text_is_taken_in_any_pieces() -> None:
    """And nothing else, at any place: the answer may end where it is complete."""
    chance = random.Random(3)
    for _ in range(20):
        matcher, rest = AnswerMatcher(GRAMMAR), WHOLE
        while rest:
            assert not matcher.is_complete
            size = chance.randint(1, 4)
            assert matcher.take_text(rest[:size])
            rest = rest[size:]
        assert matcher.is_complete
        assert matcher.is_over
        matcher.check_end()
        assert not matcher.take_text(" ")


@pytest.mark.parametrize("place", range(len(WHOLE)))
def test_it_begins_behind_any_prefix(place: int) -> None:
    """A prefix is text: what spells a control token is letters."""
    matcher = AnswerMatcher(GRAMMAR, prefix=WHOLE[:place])
    assert not matcher.is_complete
    assert matcher.take_text(WHOLE[place:])
    assert matcher.is_over


def test_a_prefix_that_does_not_follow_the_grammar_is_refused() -> None:
    """It cannot be what was sent."""
    with pytest.raises(EngineFault, match="beginning") as caught:
        AnswerMatcher(GRAMMAR, prefix='{"t":1')
    assert caught.value.code == "bad_request"


def test_a_dead_end_says_where() -> None:
    """With the end of the text that went out, and what to change."""
    matcher = AnswerMatcher(GRAMMAR, prefix='{"t":"a')
    assert not matcher.take_text('","m')
    fault = matcher.dead_end()
    assert (fault.code, fault.fatal) == ("constrained_dead_end", False)
    assert """'{"t":"a","'""" in fault.message
    with pytest.raises(EngineFault, match="schema"):
        matcher.check_end()


def test_tokens_that_may_come(words: MatcherTokens) -> None:
    """Also inside a character; control tokens never, end tokens where the answer is complete."""
    free = AnswerMatcher(GRAMMAR, prefix='{"t":"x', tokens=words)
    assert spelled(free.allowed()) >= {b"t", b'","', b"\xf0\x9f", b"1"}
    assert not {b"<|eot|>", b"END"} & spelled(free.allowed())
    assert free.take_token(WORDS.index(b"\xf0\x9f"), b"\xf0\x9f")
    assert spelled(free.allowed()) == {b"\xa6\xa9"}
    assert not free.take_token(WORDS.index(b"t"), b"t")
    assert free.take_token(WORDS.index(b"\xa6\xa9"), b"\xa6\xa9")
    number = AnswerMatcher(GRAMMAR, prefix='{"t":"","n":', tokens=words)
    assert spelled(number.allowed()) <= {b"1", b"12"}
    assert not number.take_token(END, b"END")
    done = AnswerMatcher(GRAMMAR, prefix=WHOLE, tokens=words)
    assert done.is_over
    assert spelled(done.allowed()) == {b"END"}


def test_text_that_is_demanded_may_be_cut_anyhow(words: MatcherTokens) -> None:
    """Names and constants leave no choice of text, but the model chooses the tokens: nothing is tokenised for it."""
    schema = {"type": "object", "properties": {"t1": {"const": "1234"}}, "required": ["t1"]}
    grammar = grammar_of(json.dumps({**schema, "additionalProperties": False}))
    for prefix, next_tokens in (("", {b'{"'}), ('{"t1', {b'":', b'":"'}), ('{"t1":"', {b"1", b"12"})):
        assert spelled(AnswerMatcher(grammar, prefix=prefix, tokens=words).allowed()) == next_tokens


def test_an_answer_that_may_end_or_go_on(words: MatcherTokens) -> None:
    """A bare number: both."""
    matcher = AnswerMatcher(grammar_of('{"type":"integer"}'), prefix="1", tokens=words)
    assert matcher.is_complete
    assert not matcher.is_over
    assert spelled(matcher.allowed()) == {b"1", b"12", b"END"}


def test_what_no_token_can_write_is_a_dead_end(words: MatcherTokens) -> None:
    """The model has none for `x`."""
    matcher = AnswerMatcher(grammar_of('{"const":"x"}'), prefix='"', tokens=words)
    with pytest.raises(EngineFault) as caught:
        matcher.allowed()
    assert caught.value.code == "constrained_dead_end"
