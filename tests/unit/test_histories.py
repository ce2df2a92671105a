"""Invariant: what is known of an answer stays with it for as long as the client's history has the same answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from actors.transcripts.messages import CommitTurn, RecordedTurn, RecordTurn
from actors.transcripts.sessions import Histories
from muse.api.message import Message
from muse.api.tools import ToolCall

NOW = datetime(2026, 12, 1, tzinfo=UTC)
USER = Message(role="user", content="q")


def calling(number: int) -> tuple[ToolCall, ...]:
    return (ToolCall(id=f"c{number}", name="f", arguments=json.dumps({"n": number})),)


def answer(number: int) -> Message:
    return Message(role="assistant", content="", tool_calls=calling(number))


def test_answers_that_only_call_tools_are_told_apart_by_their_calls() -> None:
    """They have no text. One that is unknown, or was taken out, takes nothing from those behind it."""
    histories = Histories()
    said = [USER]
    for number in range(4):
        histories.commit(CommitTurn(session_id="s", messages=tuple(said), started=NOW, reply_id=f"r{number}"))
        turn = RecordedTurn(content="", tool_calls=calling(number), reply_id=f"r{number}")
        histories.record(RecordTurn(session_id="s", reply_id=f"r{number}", turn=turn))
        said += [answer(number), USER]
    assert histories.replace("s", (USER, answer(9), USER, answer(2), USER, answer(3), USER), NOW)
    view = histories.view("s")
    assert view is not None
    assert {place: turn.reply_id for place, turn in view.turns.items()} == {1: "", 3: "r2", 5: "r3"}
