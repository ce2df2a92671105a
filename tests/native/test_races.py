"""Cancels that come at any moment, thousands of them: no answer ever holds a word of another one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from muse.protocol import Done, Error
from tests.native.doubles import LEVELS
from tests.native.test_engine import asking
from tests.worker.client import WorkerProcess

Start = Callable[..., WorkerProcess]
SAID = " to=user<|message|>"


def race(worker: WorkerProcess, rng: random.Random, number: int) -> str:
    """One request that repeats its own number, cancelled once a random number of events has come, perhaps behind its
    end, perhaps before its beginning. Gives its finish reason."""
    word = f"n{number} long"[: rng.choice((4, 5, 60))] + f" {number}!"
    running = worker.start(asking(word), session=rng.choice((None, "a", "b")), limit=rng.choice((1, 4, 30, 120)))
    end = None
    for _ in range(rng.choice((0, 1, 2, 3, 8, 20))):
        event = worker.next(lambda event: getattr(event, "request_id", None) == running)
        if isinstance(event, (Done, Error)):
            end = event
            break
    for _ in range(rng.choice((1, 1, 1, 2))):
        worker.cancel(running)
    while end is None:
        event = worker.next(lambda event: getattr(event, "request_id", None) == running)
        assert event is not None, worker.stderr.decode()[-2000:]
        end = event if isinstance(event, (Done, Error)) else None
    assert isinstance(end, Done), end
    text = "".join(getattr(event, "text", "") for event in worker.events if event.request_id == running)  # pyright: ignore[reportAttributeAccessIssue]
    worker.events.clear()
    repeated = SAID + word * (len(text) // len(word) + 2)
    assert repeated.startswith(text), (word, text)
    assert end.generated_token_ids is None or len(end.generated_token_ids) == end.completion_tokens
    return end.finish_reason


def run_races(worker: WorkerProcess, count: int, seed: int) -> dict[str, int]:
    """So many, one after the other; every tenth is followed by a plain question, whose answer is whole."""
    worker.events.clear()
    rng = random.Random(seed)
    ends: dict[str, int] = {}
    for number in range(count):
        reason = race(worker, rng, number)
        ends[reason] = ends.get(reason, 0) + 1
        if number % 10 == 9:
            assert worker.ask(asking(f"q{number}")).text == f"{SAID}q{number}"
            worker.events.clear()
    assert worker.process.poll() is None
    assert b"reuse foretold" not in worker.stderr
    return ends


@pytest.mark.parametrize("manner", [{}, {"answers_stale_cancel": True}], ids=["", "answers stale cancels"])
@pytest.mark.parametrize("level", LEVELS)
def test_cancels_race_the_end(start_native: Start, level: str, manner: dict[str, bool]) -> None:
    """At every level, and with a patch that answers late cancels."""
    ends = run_races(start_native(level=level, **manner), 60, seed=1)
    assert ends["cancelled"] > 5
    assert ends.keys() > {"cancelled"}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_a_thousand_cancels_race_the_end(start_native: Start, level: str) -> None:
    """The number that the engine was promised to bear."""
    ends = run_races(start_native(level=level), 1000, seed=2)
    assert sum(ends.values()) == 1000
    assert ends["cancelled"] > 100
