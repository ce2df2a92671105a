"""Whose the cache is, and what of it a prompt may use."""

from __future__ import annotations

from muse.worker.engines.executorch.cache import WINDOW, KvCache
from muse.worker.engines.executorch.residency import Residency

CHUNK = 512


def give(residency: Residency, session_id: str | None, prompt: list[int], said: list[int]) -> tuple[int, str]:
    """One answer on the cache."""
    reused, reason = residency.take(session_id, prompt)
    assert residency.cache.ids == prompt[:reused]
    residency.cache.add([*prompt[reused:], *said])
    return reused, reason


def test_a_further_turn_reuses_all_but_its_last_token() -> None:
    """Which has to be evaluated for what follows it, also where all of the prompt is there."""
    residency = Residency(KvCache(chunk=CHUNK))
    assert give(residency, "a", [1, 2, 3], [4]) == (0, "new")
    assert give(residency, "a", [1, 2, 3, 4, 5], []) == (4, "exact_prefix")
    assert give(residency, "a", [1, 2, 3, 4, 5], [6]) == (4, "equal")
    assert give(residency, "a", [1, 2, 7], []) == (2, "rewound")


def test_another_session_uses_what_both_begin_with() -> None:
    """And only one is resident."""
    residency = Residency(KvCache(chunk=CHUNK))
    give(residency, "a", [1, 2, 3], [4])
    assert give(residency, "b", [1, 2, 9], []) == (2, "new")
    assert (residency.resident("a"), residency.resident("b")) == ((), (1, 2, 9))


def test_without_a_session_nothing_is_used() -> None:
    """Nor left to be shown."""
    residency = Residency(KvCache(chunk=CHUNK))
    give(residency, "a", [1, 2, 3], [])
    assert give(residency, None, [1, 2, 3], []) == (0, "new")
    assert residency.resident("a") == ()


def test_a_reset_session_begins_cold_once() -> None:
    """Whatever is in the cache by then."""
    residency = Residency(KvCache(chunk=CHUNK))
    give(residency, "a", [1, 2, 3], [])
    residency.reset("a")
    assert residency.resident("a") == ()
    assert give(residency, "a", [1, 2, 3, 4], []) == (0, "new")
    assert give(residency, "a", [1, 2, 3, 4, 5], []) == (4, "exact_prefix")


def test_a_request_that_failed_leaves_nothing() -> None:
    """Its session is told to be in doubt, until the next prompt."""
    residency = Residency(KvCache(chunk=CHUNK))
    give(residency, "a", [1, 2, 3], [])
    residency.take("a", [1, 2, 3, 4])
    residency.fail()
    assert residency.resident("a") is None
    assert give(residency, "a", [1, 2, 3, 4], []) == (0, "dirty")
    assert residency.resident("a") == (1, 2, 3, 4)


def test_where_rows_are_lost_everything_is_evaluated_again() -> None:
    """Behind a full ring going back by a chunk is too far."""
    residency = Residency(KvCache(chunk=CHUNK))
    ids = list(range(WINDOW + 2 * CHUNK))
    give(residency, "a", ids, [])
    assert give(residency, "a", [*ids[: -CHUNK + 1], -5], []) == (len(ids) - CHUNK + 1, "rewound")
    residency.reset("a")
    give(residency, "a", ids, [])
    assert give(residency, "a", [*ids[:-CHUNK], -5], []) == (0, "mismatch")
