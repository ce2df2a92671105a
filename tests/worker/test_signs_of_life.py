"""Signs of life: said while there is activity, and only then."""

from __future__ import annotations

import itertools
import threading

import pytest

from muse.protocol import Progress, WorkerEvent
from muse.worker.engines.llamacpp.stream import CompletionReader, ModelIds
from muse.worker.signs_of_life import signs_of_life
from tests.worker.test_llamacpp_parts import vocabulary


def test_they_come_while_something_is_done() -> None:
    """Again and again."""
    said = threading.Semaphore(0)
    with signs_of_life(itertools.count().__next__, said.release, every_s=0.001):
        for _ in range(3):
            assert said.acquire(timeout=30)


def test_without_activity_there_are_none() -> None:
    """However long it lasts."""
    said: list[int] = []
    looks = threading.Semaphore(0)

    def activity() -> int:
        looks.release()
        return 7

    with signs_of_life(activity, lambda: said.append(1), every_s=0.001):
        for _ in range(4):
            assert looks.acquire(timeout=30)
    assert not said


def test_where_nobody_can_tell_they_come_all_the_same() -> None:
    """No /proc, no ps: that is no proof of a hang."""
    said = threading.Semaphore(0)
    with signs_of_life(lambda: None, said.release, every_s=0.001):
        for _ in range(3):
            assert said.acquire(timeout=30)


def test_without_a_thread_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives none; other faults come through."""

    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    with signs_of_life(lambda: None, lambda: None):
        done.append(1)
    assert done


def test_a_picture_is_shown_again_while_it_is_read() -> None:
    """Not before it, and not behind it."""
    events: list[WorkerEvent] = []
    model = ModelIds(vocabulary=vocabulary(), end=frozenset())
    reader = CompletionReader("r", [1, 2, -5, -5, -5, -5, 3, 4], 100, (), model, events.append, [range(2, 6)])
    reader.begin_answer()
    shown: list[list[tuple[str, int, int]]] = []
    for processed in (0, 3, 8):
        reader.feed([b'{"prompt_progress": {"total": 8, "cache": 0, "processed": %d}}' % processed])
        events.clear()
        reader.show_picture()
        shown.append([(e.phase, e.processed, e.total) for e in events if isinstance(e, Progress)])
    assert shown == [[], [("vision", 0, 1)], []]
