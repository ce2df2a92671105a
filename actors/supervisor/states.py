"""The states of the worker and the only ways between them, as data. The supervisor reads this table;
ARCHITECTURE.md shows it, and a test compares the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from actors.state_board import WorkerState

Event = Literal["launch", "load", "loaded", "work", "rest", "die", "give_up", "drain", "end"]

TRANSITIONS: Final[Mapping[WorkerState, Mapping[Event, WorkerState]]] = {
    "starting": {"launch": "starting", "load": "loading", "loaded": "ready", "die": "restarting", "drain": "draining"},
    "loading": {"load": "loading", "loaded": "ready", "die": "restarting", "drain": "draining"},
    "ready": {"work": "busy", "rest": "ready", "die": "restarting", "drain": "draining"},
    "busy": {"work": "busy", "rest": "ready", "die": "restarting", "drain": "draining"},
    "restarting": {"launch": "starting", "give_up": "failed", "drain": "draining"},
    "failed": {"launch": "starting", "drain": "draining"},
    "draining": {"die": "draining", "end": "stopped"},
    "stopped": {},
}

MEANINGS: Final[Mapping[Event, str]] = {
    "launch": "a process is started",
    "load": "it reports that it loads the model",
    "loaded": "its ready line came",
    "work": "the first request was sent to it",
    "rest": "the last request ended",
    "die": "the process is gone",
    "give_up": "the restart rule allows no further try",
    "drain": "the system stops",
    "end": "no process is left",
}


class IllegalTransition(RuntimeError):
    """A bug of ours: the supervisor tried a way that does not exist."""


def after(state: WorkerState, event: Event) -> WorkerState:
    """The state that follows. Raises IllegalTransition."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise IllegalTransition(f"{event} in {state}")
    return following


def markdown_table() -> str:
    """The table as ARCHITECTURE.md shows it: a row a state, what leads where."""
    lines = ["| state | goes to |", "|---|---|"]
    for state, ways in TRANSITIONS.items():
        targets = ", ".join(f"`{target}` ({event})" for event, target in ways.items()) or "nothing: the end"
        lines.append(f"| `{state}` | {targets} |")
    return "\n".join(lines)
