"""How far back the cache can go, against a ring that is written as the program's layers write theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.worker.engines.executorch import cache
from muse.worker.engines.executorch.cache import KvCache

CHUNK = 4
WINDOW = 9
RING = WINDOW + CHUNK - 1


@pytest.fixture(scope="module", autouse=True)
def small_window() -> Iterator[None]:
    """The rule is the same for a window that is soon full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "WINDOW", WINDOW)
        yield


class Ring:
    """Rows of a sliding layer: each holds the position that was written to it last, and by which move."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = [(-1, -1)] * RING

    def is_right(self, begin: int, end: int, owner: list[int]) -> bool:
        """Write a chunk; whether each of its positions sees in its window exactly what was written for it, and nothing
        else: the layer takes a row for the newest position up to the chunk's last one that can lie there."""
        for position in range(begin, end):
            self.rows[position % RING] = (position, owner[position])
        for position in range(begin, end):
            for seen in range(max(0, position - WINDOW + 1), position + 1):
                if self.rows[seen % RING] != (seen, owner[seen]):
                    return False
        return True


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=12))
def test_going_back_where_it_is_allowed_is_right(moves: list[tuple[int, int]]) -> None:
    """Any sequence of going forward and back: whatever `can_go_back` allows leaves every window as it should be."""
    ring, held = Ring(), KvCache(chunk=CHUNK)
    owner: list[int] = []
    for number, (forward, back) in enumerate(moves):
        place = max(len(held.ids) - back, 0)
        if not held.can_go_back(place):
            place = 0
        held.go_back(place)
        del owner[place:]
        for begin in range(place, place + forward, CHUNK):
            end = min(begin + CHUNK, place + forward)
            owner += [number] * (end - begin)
            held.add([number] * (end - begin))
            assert ring.is_right(begin, end, owner)


def test_the_bound_is_where_a_row_is_lost() -> None:
    """In a ring that was full: a chunk's length back is refused, and two rows further one would be missing."""
    ring, held, end = Ring(), KvCache(chunk=CHUNK), 3 * RING
    owner = [0] * end
    for begin in range(0, end, CHUNK):
        assert ring.is_right(begin, min(begin + CHUNK, end), owner)
    held.add([0] * end)
    assert held.can_go_back(end - CHUNK + 1)
    assert not held.can_go_back(end - CHUNK)
    far = end - CHUNK - 2
    assert not ring.is_right(far, far + 1, [*owner[:far], 1])


def test_what_was_written_counts_not_what_was_kept() -> None:
    """Tokens that a draft tried and that were refused lie in the ring as well."""
    held = KvCache(chunk=CHUNK)
    held.add([0] * (RING - 1))
    assert held.can_go_back(1)
    held.add([0], lookahead=3)
    assert not held.can_go_back(1)
    held.go_back(0)
    assert held.can_go_back(0)


def test_going_back_twice_counts_from_what_was_ever_written() -> None:
    """A row that the first way lost is not back because less is held now."""
    held = KvCache(chunk=CHUNK)
    held.add([0] * (3 * RING))
    held.go_back(3 * RING - 3)
    held.add([1])
    assert held.can_go_back(3 * RING - 3)
    assert not held.can_go_back(3 * RING - 5)
