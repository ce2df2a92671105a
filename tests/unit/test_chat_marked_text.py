"""Each operation on marked text keeps the text as `str` does, and each character's origin with its character."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.chat import marked_text
from muse.chat.marked_text import (
    DATA,
    SCAFFOLD,
    UNKNOWN,
    MarkedText,
    TextLimitExceeded,
    data,
    from_source,
    join_marked,
    runs_of,
    scaffold,
)

letters = st.text("ab A\n\t", max_size=8)
pieces = st.lists(st.tuples(letters, st.sampled_from([SCAFFOLD, UNKNOWN, DATA, 0, 1, 2])), max_size=5)


def build(parts: list[tuple[str, int]]) -> MarkedText:
    return join_marked(MarkedText(text, ((len(text), origin),) if text else ()) for text, origin in parts)


def chars(text: str) -> list[tuple[str, int]]:
    """Character by character: the model that operations are compared with."""
    origins = [origin for length, origin in runs_of(text) for _ in range(length)]
    return list(zip(str.__str__(text), origins, strict=True))


def is_normal(text: str) -> bool:
    """Runs cover the text, none is empty, neighbours differ."""
    runs = runs_of(text)
    return (
        sum(length for length, _ in runs) == len(text)
        and all(length > 0 for length, _ in runs)
        and all(a[1] != b[1] for a, b in pairwise(runs))
    )


def assert_cut_of(part: str, whole: MarkedText, start: int) -> None:
    assert chars(part) == chars(whole)[start : start + len(part)]
    assert is_normal(part)


marked = pieces.map(build)
bounds = st.one_of(st.none(), st.integers(-12, 12))


@settings(deadline=None)
@given(pieces)
def test_joining_keeps_every_origin(parts: list[tuple[str, int]]) -> None:
    """Concatenation is concatenation of characters with their origins."""
    joined = build(parts)
    assert joined == "".join(text for text, _ in parts)
    assert chars(joined) == [(char, origin) for text, origin in parts for char in text]
    assert is_normal(joined)


@settings(deadline=None)
@given(marked, marked, letters)
def test_plus_from_both_sides(left: MarkedText, right: MarkedText, plain: str) -> None:
    """A plain string is of unknown origin on either side."""
    assert chars(left + right) == chars(left) + chars(right)
    assert chars(left + plain) == chars(left) + [(char, UNKNOWN) for char in plain]
    assert chars(plain + left) == [(char, UNKNOWN) for char in plain] + chars(left)
    assert chars(left * 3) == chars(3 * left) == chars(left) * 3


@settings(deadline=None)
@given(marked, bounds, bounds, st.sampled_from([None, 1, 2, -1, -2]))
def test_slices(text: MarkedText, start: int | None, stop: int | None, step: int | None) -> None:
    """Any slice, also backwards."""
    part = text[start:stop:step]
    assert chars(part) == chars(text)[start:stop:step]
    assert is_normal(part)


@settings(deadline=None)
@given(marked)
def test_single_characters(text: MarkedText) -> None:
    """Indexing, iterating and `reversed` see the same characters."""
    assert [chars(text[i])[0] for i in range(len(text))] == chars(text)
    assert [chars(text[i - len(text)])[0] for i in range(len(text))] == chars(text)
    assert [chars(char)[0] for char in text] == chars(text)
    assert [chars(char)[0] for char in reversed(text)] == chars(text)[::-1]
    with pytest.raises(IndexError):
        _ = text[len(text)]


@settings(deadline=None)
@given(marked, st.sampled_from([None, "a", "ab", "\n ", ""]))
def test_strips(text: MarkedText, which: str | None) -> None:
    """Stripping cuts at the ends only."""
    plain = str.__str__(text)
    assert text.strip(which) == plain.strip(which)
    assert text.lstrip(which) == plain.lstrip(which)
    assert text.rstrip(which) == plain.rstrip(which)
    left = len(plain) - len(plain.lstrip(which))
    assert_cut_of(text.strip(which), text, left if plain.strip(which) else 0)
    assert_cut_of(text.lstrip(which), text, left)
    assert_cut_of(text.rstrip(which), text, 0)


@settings(deadline=None)
@given(marked, st.sampled_from(["a", "ab", "\n"]), st.integers(-1, 3))
def test_splits_with_a_separator(text: MarkedText, sep: str, most: int) -> None:
    """The parts and the separators between them make up the text again."""
    plain = str.__str__(text)
    for parts, wanted in (
        (text.split(sep, most), plain.split(sep, most)),
        (text.rsplit(sep, most), plain.rsplit(sep, most)),
    ):
        assert parts == wanted
        position = 0
        for part in parts:
            assert_cut_of(part, text, position)
            position += len(part) + len(sep)


@settings(deadline=None)
@given(marked, st.integers(-1, 3))
def test_splits_at_white_space(text: MarkedText, most: int) -> None:
    """Parts come in order, each found at its own place."""
    plain = str.__str__(text)
    for parts, wanted in (
        (text.split(None, most), plain.split(None, most)),
        (text.rsplit(None, most), plain.rsplit(None, most)),
    ):
        assert parts == wanted
        position = 0
        for part in parts:
            while plain[position : position + len(part)] != part:
                position += 1
            assert_cut_of(part, text, position)
            position += len(part)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text("a\r\n\u2028", max_size=6), st.sampled_from([SCAFFOLD, 0, 1])), max_size=4),
    st.booleans(),
)
def test_splitlines(parts: list[tuple[str, int]], keepends: bool) -> None:
    """All kinds of line ends, kept or not."""
    text = build(parts)
    lines = text.splitlines(keepends)
    assert lines == str.__str__(text).splitlines(keepends)
    position = 0
    for line, full in zip(lines, str.__str__(text).splitlines(True), strict=True):
        assert_cut_of(line, text, position)
        position += len(full)


@settings(deadline=None)
@given(marked, st.sampled_from(["a", "ab", " A"]))
def test_partitions_and_affixes(text: MarkedText, sep: str) -> None:
    """Cuts in three, and the removal of a beginning or an end."""
    plain = str.__str__(text)
    for parts, wanted in ((text.partition(sep), plain.partition(sep)), (text.rpartition(sep), plain.rpartition(sep))):
        assert parts == wanted
        assert [pair for part in parts for pair in chars(part)] == chars(text)
    assert_cut_of(text.removeprefix(sep), text, len(plain) - len(plain.removeprefix(sep)))
    assert_cut_of(text.removesuffix(sep), text, 0)


@settings(deadline=None)
@given(marked, st.sampled_from(["a", "aa", "ab"]), marked, st.integers(-1, 3))
def test_replace(text: MarkedText, old: str, new: MarkedText, count: int) -> None:
    """What is put in brings its origin, what stays keeps its own."""
    replaced = text.replace(old, new, count)
    assert replaced == str.__str__(text).replace(old, str.__str__(new), count)
    expected: list[tuple[str, int]] = []
    position, left = 0, count
    while (found := str.__str__(text).find(old, position)) >= 0 and left != 0:
        expected += chars(text)[position:found] + chars(new)
        position = found + len(old)
        left -= 1
    assert chars(replaced) == expected + chars(text)[position:]


@settings(deadline=None)
@given(marked, st.lists(marked, max_size=4))
def test_join(glue: MarkedText, items: list[MarkedText]) -> None:
    """Glue and items keep their own origins."""
    joined = glue.join(items)
    assert joined == str.__str__(glue).join(str.__str__(item) for item in items)
    expected: list[tuple[str, int]] = []
    for index, item in enumerate(items):
        expected += (chars(glue) if index else []) + chars(item)
    assert chars(joined) == expected


CASES: list[Callable[[str], str]] = [
    lambda text: text.lower(),
    lambda text: text.upper(),
    lambda text: text.title(),
    lambda text: text.capitalize(),
    lambda text: text.casefold(),
    lambda text: text.swapcase(),
]


@pytest.mark.parametrize("change", CASES)
@given(st.lists(st.tuples(st.text("aBß İΣǆ", max_size=4), st.sampled_from([SCAFFOLD, 0])), max_size=3))
@settings(deadline=None)
def test_case_changes(change: Callable[[str], str], parts: list[tuple[str, int]]) -> None:
    """The text is what `str` makes of it; nobody's character becomes scaffold, even where letters become two."""
    text = build(parts)
    changed = change(text)
    assert changed == change(str.__str__(text))
    assert is_normal(changed)
    if len(changed) == len(text):
        assert [origin for _, origin in chars(changed)] == [origin for _, origin in chars(text)]
    elif any(origin != SCAFFOLD for _, origin in runs_of(text)):
        assert all(origin != SCAFFOLD for _, origin in chars(changed))


def test_untracked_methods_lose_the_origin_and_never_gain_one() -> None:
    """Whatever `str` can do beyond the tracked operations comes out as plain, unknown text."""
    text = scaffold("<x> %s {}")
    for result in (
        text % "u",
        text.format("u"),
        text.zfill(20),
        text.center(30),
        text.expandtabs(),
        text.translate({}),
    ):
        assert runs_of(result) == ((len(result), UNKNOWN),)


def test_str_of_marked_text_keeps_the_marks() -> None:
    """Jinja writes str() around everything that it prints."""
    assert runs_of(str(from_source("a", 3))) == ((1, 3),)
    assert runs_of(str(data("a"))) == ((1, DATA),)
    assert runs_of(MarkedText("a")) == ((1, UNKNOWN),)
    assert hash(scaffold("a")) == hash("a")


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that could make much out of little refuse before they do."""
    with pytest.raises(TextLimitExceeded):
        _ = scaffold("ab") * marked_text.MAX_CHARS
    monkeypatch.setattr(marked_text, "MAX_CHARS", 100)
    monkeypatch.setattr(marked_text, "MAX_PIECES", 50)
    long = scaffold("a" * 80)
    for grow in (
        lambda: long + long,
        lambda: long * 2,
        lambda: long.replace("a", "bb"),
        lambda: long.split("a"),
        lambda: long.join(["x", "y", "z"]),
        lambda: list(long),
        lambda: scaffold("\n" * 80).splitlines(),
        lambda: scaffold("").join(["x"] * 60),
    ):
        with pytest.raises(TextLimitExceeded):
            grow()
