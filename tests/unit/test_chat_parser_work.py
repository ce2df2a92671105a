"""The work of the parsers of calls grows with the text and not with its square, whatever the text is made of.

Counted are function calls, and the characters that are scanned for tags and as JSON. Both are compared between a
text and one of twice its length.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Final

import pytest

from muse.chat import atem, json_calls
from muse.chat.atem import AtemParser
from muse.chat.json_calls import JsonCallParser
from muse.chat.json_scanner import JsonScanner
from tests.unit.parser_runs import TOOLS, Reader, call, read

BEGIN: Final = '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="s">'
END: Final = "</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"
HARD_ATEM: Final = {
    "a long value": (BEGIN, "abc ", END),
    "ends of values": (BEGIN, "</atem:parameter>x", END),
    "ends of calls": (BEGIN, "</atem:parameter>\n</atem:invoke> ", ""),
    "ends of blocks, and text": (BEGIN, END + "x", ""),
    "white space behind an end": (BEGIN + "x</atem:parameter>", " \n", "x"),
    "white space behind a block": (BEGIN + "x" + END, " \n", "x"),
    "tags without an end": (BEGIN, '<atem:invoke name="', ""),
    "tags that are too long": ("", '<atem:parameter name="' + "a" * 290, ""),
    "a tag that never ends": ('<atem:invoke name="', "a", ""),
    "begins of tags": ("", "<", ""),
    "begins of blocks": ("", "<atem:function_calls>\n", "x"),
    "calls": ("", BEGIN + "x" + END, ""),
    "calls that are not closed": ("", BEGIN + "x", ""),
    "parameters": (BEGIN, 'x</atem:parameter>\n<atem:parameter name="s">', END),
    "white space": ("a", " \n", "b"),
}
HARD_JSON: Final = {
    "a long string": ('<tool_call>{"name": "f", "arguments": {"s": "', "abc ", '"}}</tool_call>'),
    "ends of calls in a string": ('<tool_call>{"s": "', "</tool_call>x", ""),
    "ends of calls in a string, and a line": ('<tool_call>{"s": "', "</tool_call>x", "\n"),
    "calls in a string": ('<tool_call>{"s": "</tool_call>', " <tool_call>{", "\n"),
    "open strings": ("", '<tool_call>{"</tool_call>', "\n"),
    "open strings and text": ("", '<tool_call>{"s": "</tool_call> a ', "\n"),
    "escaped strings": ('<tool_call>{"s": "', '</tool_call><tool_call>{\\"', "\n"),
    "open strings, every other escaped": ("", '<tool_call>{"</tool_call><tool_call>{\\"</tool_call>', "\n"),
    "quotation marks": ("<tool_call>{", '"",', "}</tool_call>"),
    "depth": ("<tool_call>", "[{", ""),
    "tags": ("", "<tool_call>", ""),
    "calls": ("", '<tool_call>{"name": "g"}</tool_call>\n', ""),
    "white space": ("a", " \n", "b"),
}


class CountingPattern:
    """A pattern that counts the characters that it looks through."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.scanned = 0
        self._pattern = pattern

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        self.scanned += len(text)
        return self._pattern.finditer(text)


def count_calls(act: Callable[[], object]) -> int:
    """Of functions, ours and those of the interpreter."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def check_growth(measure: Callable[[Iterable[str]], tuple[int, ...]], parts: tuple[str, str, str], size: int) -> None:
    """Twice the text, about twice the work."""
    begin, middle, end = parts
    times = 4000 // len(middle) + 20
    once = measure(in_pieces(begin + middle * times + end, size))
    twice = measure(in_pieces(begin + middle * times * 2 + end, size))
    for less, more in zip(once, twice, strict=True):
        assert more <= 2.2 * less + 500


@pytest.mark.parametrize("size", [1, 5, 100_000])
@pytest.mark.parametrize("parts", HARD_ATEM.values(), ids=HARD_ATEM)
def test_atem_is_read_in_linear_time(monkeypatch: pytest.MonkeyPatch, parts: tuple[str, str, str], size: int) -> None:
    """In characters, in tokens, and whole."""

    def measure(chunks: Iterable[str]) -> tuple[int, int]:
        pattern = CountingPattern(atem.TAG)
        with monkeypatch.context() as patch:
            patch.setattr(atem, "TAG", pattern)
            parser = AtemParser(TOOLS)
        return count_calls(lambda: feed(parser, chunks)), pattern.scanned

    check_growth(measure, parts, size)


@pytest.mark.parametrize("size", [1, 5, 100_000])
@pytest.mark.parametrize("parts", HARD_JSON.values(), ids=HARD_JSON)
def test_json_calls_are_read_in_linear_time(
    monkeypatch: pytest.MonkeyPatch, parts: tuple[str, str, str], size: int
) -> None:
    """In characters, in tokens, and whole; also where the same text is read again from an earlier end."""

    class Counting(JsonScanner):
        scanned = 0

        def feed(self, text: str) -> None:
            Counting.scanned += len(text)
            super().feed(text)

    def measure(chunks: Iterable[str]) -> tuple[int, int, int]:
        pattern = CountingPattern(json_calls._TAG)
        Counting.scanned = 0
        with monkeypatch.context() as patch:
            patch.setattr(json_calls, "_TAG", pattern)
            patch.setattr(json_calls, "JsonScanner", Counting)
            parser = JsonCallParser(TOOLS)
            calls = count_calls(lambda: feed(parser, chunks))
        return calls, pattern.scanned, Counting.scanned

    check_growth(measure, parts, size)


def feed(parser: Reader, chunks: Iterable[str]) -> None:
    """And drop what it gives."""
    for chunk in chunks:
        parser.feed(chunk)
    parser.flush()


def test_a_value_of_a_megabyte_is_read() -> None:
    """With look-alikes all over."""
    value = 'é </atem:parameter>, <atem:invoke name="q"> x\n' * 22_000
    assert read(AtemParser(TOOLS), in_pieces(BEGIN + value + END, 40)) == [call("f", s=value)]
