"""Messages of the WorkerSupervisor."""

from __future__ import annotations

from typing import Literal, Protocol

import attrs

from actors.kernel import Question
from muse.errors import MuseError
from muse.protocol import Accepted, Done, Error, Generate, Progress, Result, Segment, Tokens

RequestEvent = Accepted | Progress | Tokens | Done | Error


class Sink(Protocol):
    """Who gets the events of one generation. Called from the pipe reader: must not block, wait or
    raise (a sink that raises loses its request, the others go on)."""

    def on_event(self, event: RequestEvent) -> None:
        """One event, in order; `Done` and `Error` are the last."""
        ...

    def on_lost(self, fault: MuseError) -> None:
        """The worker died or could not take the request; nothing follows."""
        ...


@attrs.frozen(kw_only=True)
class StartGeneration:
    """Turn -> supervisor: send `command` to the worker and its events to `sink`. The sink hears
    `on_lost` at once when no worker answers."""

    command: Generate
    sink: Sink


@attrs.frozen(kw_only=True)
class CancelGeneration:
    """Turn -> supervisor: end a generation. It still ends with its own `Done`. Unknown ids are fine."""

    request_id: str


@attrs.frozen(kw_only=True)
class CountTokens(Question[Result]):
    """Turn -> supervisor: how long is this prompt? Answer: the worker's Result, with prompt_tokens and
    room. Fails with a MuseError when no worker answers."""

    segments: tuple[Segment, ...]


@attrs.frozen(kw_only=True)
class SessionCommand(Question[Result]):
    """Session manager -> supervisor: do this to what the worker holds of a session: `show` it (the Result has
    its resident ids), `reset` or `close` it. Fails with a MuseError when no worker answers."""

    action: Literal["show", "reset", "close"]
    session_id: str


@attrs.frozen(kw_only=True)
class RestartWorker(Question[None]):
    """Front -> supervisor: try again from `failed` (or restart a running worker). Answered at once."""


SupervisorMessage = StartGeneration | CancelGeneration | CountTokens | SessionCommand | RestartWorker
