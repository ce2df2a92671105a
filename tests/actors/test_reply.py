"""Reply: what any reader gets, from any position, equals what was appended."""

from __future__ import annotations

import tracemalloc

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.reply import BLOCK_CHARS, READ_BLOCKS, Channel, Failed, Reply, Sign
from muse.errors import InternalFault

CHANNELS: list[Channel] = ["answer", "reasoning"]
PIECES = st.lists(st.tuples(st.sampled_from(CHANNELS), st.text(max_size=30) | st.just("x" * 5000)), max_size=20)


@given(PIECES, st.data())
def test_reading_from_any_position_gives_the_rest(pieces: list[tuple[Channel, str]], data: st.DataObject) -> None:
    """Text and channel of every character behind the position, in order, nothing twice."""
    reply = Reply("r", None)
    for channel, text in pieces:
        reply.append(channel, text)
    marked = [(channel, char) for channel, text in pieces for char in text]
    assert reply.end == len(marked)
    position = after = data.draw(st.integers(0, reply.end))
    seen: list[tuple[str, str]] = []
    while pieces_read := reply.read(position):
        for piece in pieces_read:
            seen += [(piece.channel, char) for char in piece.text]
            position = piece.end
            assert position == after + len(seen)
    assert seen == marked[after:]


def test_neighbours_of_one_channel_come_as_one_piece() -> None:
    """A slow reader gets few large pieces."""
    reply = Reply("r", None)
    for _ in range(3000):
        reply.append("answer", "word ")
    reply.append("reasoning", "hm")
    assert [(piece.channel, len(piece.text)) for piece in reply.read(0)] == [("answer", 15000), ("reasoning", 2)]


@pytest.mark.parametrize("position", [-1, 4])
def test_a_position_outside_the_log_is_an_error(position: int) -> None:
    """Positions are checked, never clamped."""
    reply = Reply("r", None)
    reply.append("answer", "abc")
    with pytest.raises(ValueError, match="outside"):
        reply.read(position)


def test_the_log_costs_little_more_than_its_text() -> None:
    """20,000 tokens of 5 characters: the bookkeeping stays under 64 KiB."""
    tracemalloc.start()
    try:
        reply = Reply("r", None)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20_000):
            reply.append("answer", "word ")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before - 100_000 < 64 * 1024
    assert BLOCK_CHARS <= 4096


def test_nothing_comes_after_the_outcome() -> None:
    """Exactly one outcome, and no text behind it."""
    reply = Reply("r", None)
    reply.finish(Failed(fault=InternalFault("x", "y")))
    with pytest.raises(RuntimeError):
        reply.append("answer", "late")
    with pytest.raises(RuntimeError):
        reply.finish(Failed(fault=InternalFault("x", "y")))


async def test_a_reader_wakes_for_text_signs_and_the_outcome(autojump_clock: trio.testing.MockClock) -> None:
    """wait_news returns for each kind of news, and only then."""
    reply = Reply("r", None)
    seen: list[str] = []

    async def read() -> None:
        position, sign = 0, 0
        while reply.outcome is None:
            await reply.wait_news(position, sign)
            seen.append(f"{reply.end} {reply.sign_version} {reply.outcome is not None}")
            position, sign = reply.end, reply.sign_version

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(1)
        assert seen == []
        reply.append("answer", "ab")
        await trio.sleep(1)
        reply.show(Sign(phase="prefill", processed=1, total=2))
        await trio.sleep(1)
        reply.show(Sign(phase="prefill", processed=1, total=2))  # the same sign is no news
        await trio.sleep(1)
        reply.finish(Failed(fault=InternalFault("x", "y")))
    assert seen == ["2 0 False", "2 1 False", "2 1 True"]


def test_a_reader_that_lags_gets_a_bounded_part() -> None:
    """However much waits for it: each write to a slow client stays small."""
    reply = Reply("r", None)
    reply.append("answer", "x" * (4 * READ_BLOCKS * BLOCK_CHARS))
    assert [len(piece.text) for piece in reply.read(0)] == [READ_BLOCKS * BLOCK_CHARS]
