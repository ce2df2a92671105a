"""The line splitter: any chunking gives the same lines, and the limit holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.supervisor.lines import LineSplitter, LineTooLong


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_any_chunking_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    """Lines do not depend on where the stream was cut."""
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    splitter = LineSplitter(1000)
    seen: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        seen += splitter.feed(stream[start:end])
    assert seen == lines
    assert splitter.rest_bytes == 0


def test_other_line_ends_do_not_split() -> None:
    """Only 0x0A ends a line: CR, U+0085 and U+2028 are content."""
    line = "a\rb\x85c\u2028d".encode()
    assert LineSplitter(100).feed(line + b"\n") == [line]


@pytest.mark.parametrize("size", [11, 5000])
def test_a_long_line_is_an_error_before_it_ends(size: int) -> None:
    """Memory is bounded even when the newline never comes."""
    splitter = LineSplitter(10)
    with pytest.raises(LineTooLong):
        splitter.feed(b"x" * size)


def test_a_long_line_is_an_error_also_when_complete() -> None:
    """The limit counts a line that arrives whole in one chunk."""
    with pytest.raises(LineTooLong):
        LineSplitter(10).feed(b"ok\n" + b"x" * 11 + b"\n")


def test_a_line_of_exactly_the_limit_passes() -> None:
    """The limit itself is allowed."""
    assert LineSplitter(10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
