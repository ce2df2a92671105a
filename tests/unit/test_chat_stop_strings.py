"""Stop strings end the text at the same place however it is cut into pieces, and hold back no more than needed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.chat.stop_strings import StopMatcher


def whole_text(stops: list[str], text: str) -> tuple[str, bool]:
    """The definition: the occurrence that is complete first, and of those the one that began first."""
    found = [(start + len(stop), start) for stop in stops for start in range(len(text)) if text.startswith(stop, start)]
    return (text[: min(found)[1]], True) if found else (text, False)


def feed_all(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    shown = ""
    for piece in pieces:
        text, matched = matcher.feed(piece)
        shown += text
        if matched:
            break
    return shown + matcher.flush(), matcher.matched is not None


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


few_letters = st.text("ab\n", max_size=24)
any_letters = st.text(max_size=24)


@settings(deadline=None, max_examples=500)
@given(
    st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=5),
    few_letters,
    st.lists(st.integers(0, 100), max_size=8),
)
def test_pieces_do_not_matter(stops: list[str], text: str, places: list[int]) -> None:
    """Overlapping, nested and prefixing stop strings, over any cutting, as over the whole text."""
    assert feed_all(stops, cut(text, places)) == whole_text(stops, text)


@settings(deadline=None)
@given(st.lists(any_letters.filter(bool), min_size=1, max_size=3), any_letters, any_letters)
def test_any_characters_match(stops: list[str], before: str, after: str) -> None:
    """Also characters that mean something in patterns, and emoji."""
    text = before + stops[0] + after
    assert feed_all(stops, list(text)) == whole_text(stops, text)


@st.composite
def near_misses(draw: st.DrawFn) -> tuple[list[str], str]:
    """Stop strings that repeat themselves, and a text made of their beginnings."""
    stops = draw(st.lists(st.text("ab", min_size=1, max_size=10), min_size=1, max_size=4))
    begun = [stop[:length] for stop in stops for length in range(1, len(stop))] or ["c"]
    return stops, "".join(draw(st.lists(st.sampled_from(begun), max_size=6)))


@settings(deadline=None, max_examples=500)
@given(near_misses())
def test_held_back_is_only_what_may_become_a_stop(case: tuple[list[str], str]) -> None:
    """After each piece everything has been shown but the longest end that begins a stop string."""
    stops, text = case
    matcher = StopMatcher(stops)
    shown = ""
    for index, char in enumerate(text, 1):
        emitted, matched = matcher.feed(char)
        shown += emitted
        if matched:
            assert whole_text(stops, text) == (shown, True)
            return
        seen = text[:index]
        begun = [n for n in range(len(seen) + 1) if any(stop.startswith(seen[len(seen) - n :]) for stop in stops)]
        assert shown == seen[: len(seen) - max(begun)]


@pytest.mark.parametrize(
    ("stops", "pieces", "shown", "matched"),
    [
        (["END"], ["The E", "N", "D of it"], "The ", "END"),
        (["ab", "abc"], ["xab", "c"], "x", "ab"),
        (["bc", "abcd"], ["abcd"], "a", "bc"),
        (["bc", "abc"], ["abc"], "", "abc"),
        (["\n\n"], ["a\n", "b\n", "\nc"], "a\nb", "\n\n"),
        (["aab"], ["aaab"], "a", "aab"),
        (["👨‍👩‍👧"], ["x👨‍", "👩‍👧y"], "x", "👨‍👩‍👧"),
        (["]", "^", "-"], ["a^b]"], "a", "^"),
        (["x"], ["abc"], "abc", None),
    ],
)
def test_known_cases(stops: list[str], pieces: list[str], shown: str, matched: str | None) -> None:
    """The rules by example."""
    matcher = StopMatcher(stops)
    emitted = "".join(matcher.feed(piece)[0] for piece in pieces)
    assert (emitted + matcher.flush(), matcher.matched) == (shown, matched)


def test_nothing_comes_after_the_stop() -> None:
    """Pieces that were on their way when the text ended are dropped."""
    matcher = StopMatcher(["."])
    assert matcher.feed("a.b") == ("a", True)
    assert matcher.feed("c") == ("", True)
    assert matcher.flush() == ""


def test_without_stops_everything_passes() -> None:
    """No stop strings: nothing is held back, nothing ends."""
    matcher = StopMatcher([])
    assert matcher.feed("abc") == ("abc", False)
    assert matcher.flush() == ""
