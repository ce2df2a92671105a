"""Constrained answers that are killed while they are written, at chosen events of the worker.

The killer sits between supervisor and turn. It kills inside the delivery of an event; a kill for which the worker had
written all the rest already came too late and does not count.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from typing import Any, Final, Literal

import attrs

from actors.reply import Reply
from actors.supervisor.messages import RequestEvent, StartGeneration, SupervisorMessage
from muse.errors import MuseError
from muse.protocol import Tokens
from muse.worker.json_form import check_answer, grammar_of
from tests.faults.core import FaultCore, finished

Whom = Literal["group", "worker", "engine"]

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "animal": {"enum": ["fox", "dög"]},
        "text": {"type": "string", "maxLength": 40},
        "legs": {"type": "integer", "minimum": 0, "maximum": 1000},
        "signs": {"type": "array", "items": {"enum": ["é", "🦩", "<b>"]}, "minItems": 2, "maxItems": 4},
        "code": {"type": "string", "pattern": "^[a-z]{3}-[0-9]{2}$"},
    },
    "required": ["animal", "text", "legs", "signs", "code"],
    "additionalProperties": False,
}
TOOL: Final = {"type": "function", "function": {"name": "note_animal", "parameters": SCHEMA}}
FORMS: Final[tuple[dict[str, Any], ...]] = (
    {"response_format": {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}},
    {"tools": [TOOL], "tool_choice": "required"},
)


@attrs.define
class _KillingSink:
    """Passes everything on, and kills at the events that the killer says."""

    sink: Any
    killer: Killer

    def on_event(self, event: RequestEvent) -> None:
        self.sink.on_event(event)
        if isinstance(event, Tokens):
            self.killer.heard()

    def on_lost(self, fault: MuseError) -> None:
        self.sink.on_lost(fault)


@attrs.define
class Killer:
    """places: numbers of events with tokens, of the whole answer, behind which the worker is killed, each worker once.
    events: that were heard."""

    core: FaultCore
    whom: Whom = "group"
    places: list[int] = attrs.field(factory=list[int])
    events: int = 0
    is_armed: bool = False

    def heard(self) -> None:
        self.events += 1
        if self.is_armed and self.places and self.events >= self.places[0]:
            del self.places[0]
            self.is_armed = False
            pids = self.core.worker_pids()
            target = -self.core.group() if self.whom == "group" else pids[0 if self.whom == "worker" else -1]
            os.kill(target, signal.SIGKILL)

    def install(self) -> None:
        """Listen to every generation from now on."""
        tell = self.core.supervisor.tell

        async def listening(message: SupervisorMessage) -> None:
            if isinstance(message, StartGeneration):
                self.is_armed = True
                message = attrs.evolve(message, sink=_KillingSink(message.sink, self))
            await tell(message)

        self.core.supervisor.tell = listening  # type: ignore[method-assign] # of this one object


def _said(reply: Reply, form: dict[str, Any]) -> str:
    """The JSON that the reply brings."""
    if "response_format" in form:
        return reply.text("answer")
    (call,) = reply.calls
    assert (call.name, reply.text("answer")) == ("note_animal", "")
    return call.arguments


def check(text: str) -> None:
    """It is what was asked for."""
    value = json.loads(text)
    check_answer(grammar_of(json.dumps(SCHEMA)), _compact(value), complete=True)


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def kill_at_random(core: FaultCore, kills: int, seed: int, whom: tuple[Whom, ...], **fields: Any) -> Counter[str]:
    """Kill until so many resumes have come of it, once or twice in an answer, half of them greedy. Counts of what came
    of it; every answer must be whole and follow its schema."""
    chance = random.Random(seed)
    killer = Killer(core)
    killer.install()
    counts = Counter[str]()
    undisturbed: dict[int, tuple[str, int]] = {}
    while counts["resumed"] < kills:
        number = chance.randrange(len(FORMS))
        form = FORMS[number]
        greedy = chance.random() < 0.5
        if number not in undisturbed:
            killer.places, killer.events = [], 0
            text, _ = await _answer(core, form, temperature=0, **fields)
            undisturbed[number] = (text, killer.events)
        known, events = undisturbed[number]
        amount = chance.choice((1, 1, 2))
        killer.places = sorted(chance.sample(range(1, max(events * 3 // 4, 3)), amount))
        killer.events, killer.whom = 0, chance.choice(whom)
        sampling = {"temperature": 0} if greedy else {"temperature": 1.0, "seed": chance.randrange(1000)}
        text, resumed = await _answer(core, form, **sampling, **fields)
        counts["answers"] += 1
        counts["too late"] += amount - resumed
        counts["resumed"] += resumed
        if greedy:
            counts["greedy"] += 1
            counts["as undisturbed"] += text == known
        await core.wait_idle()
    return counts


async def _answer(core: FaultCore, form: dict[str, Any], **fields: Any) -> tuple[str, int]:
    """One whole answer, and how often it was resumed. Whoever reads it gets each character once."""
    reply = await core.start("Describe an animal in JSON.", max_tokens=400, **form, **fields)
    position, read = 0, ""
    while reply.outcome is None or position < reply.end:
        for piece in reply.read(position):
            assert piece.end == position + len(piece.text)
            position, read = piece.end, read + piece.text * (piece.channel == "answer")
        if reply.outcome is None:
            await reply.wait_news(position, reply.sign_version)
    outcome = await finished(reply)
    assert read == reply.text("answer")
    text = _said(reply, form)
    check(text)
    assert outcome.finish_reason == ("stop" if "response_format" in form else "tool_calls")
    return text, outcome.metrics.resumed
