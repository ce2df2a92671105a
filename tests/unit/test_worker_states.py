"""The table of worker states: complete, closed, and shown as it is."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from actors.state_board import WorkerState
from actors.supervisor.states import MEANINGS, TRANSITIONS, Event, IllegalTransition, after, markdown_table


def test_every_state_and_event_is_in_the_table() -> None:
    """No state without a row, no event without a meaning, no way into the unknown."""
    assert set(TRANSITIONS) == set(get_args(WorkerState))
    assert set(MEANINGS) == set(get_args(Event))
    assert {target for ways in TRANSITIONS.values() for target in ways.values()} <= set(TRANSITIONS)
    assert {event for ways in TRANSITIONS.values() for event in ways} == set(MEANINGS)


def test_every_state_can_be_reached_and_left() -> None:
    """From the start every state is reachable, and from every state the end is."""
    reached = {"starting"}
    while more := {target for state in reached for target in TRANSITIONS[state].values()} - reached:
        reached |= more
    assert reached == set(TRANSITIONS)
    for state in set(TRANSITIONS) - {"stopped", "draining"}:
        assert after(state, "drain") == "draining"


def test_an_unknown_way_is_a_bug() -> None:
    """Nothing leaves `stopped`."""
    with pytest.raises(IllegalTransition):
        after("stopped", "launch")


def test_the_architecture_page_shows_this_table() -> None:
    """Documentation cannot drift."""
    page = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text()
    assert markdown_table() in page
