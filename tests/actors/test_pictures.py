"""Pictures in the server's memory: how many sessions and finished replies may hold, and that each is there once."""

from __future__ import annotations

from datetime import datetime

import attrs
import pytest

from actors.kernel import Mailbox
from actors.reply import Reply
from actors.sessions import shelf
from actors.sessions.readiness import check_abilities
from actors.sessions.turn import Turn
from actors.state_board import StateBoard
from actors.transcripts import sessions
from actors.transcripts.messages import CommitTurn, RecordedTurn, RecordTurn
from actors.transcripts.sessions import Histories
from muse.api.message import Message
from muse.errors import ClientFault
from muse.protocol import Supports
from tests.actors.conversation_model import PICTURES, READY, request_of, said

RED, GREEN, BLUE = PICTURES
NOW = datetime(2026, 11, 30).astimezone()


def commit(histories: Histories, session_id: str, *messages: Message, is_over: bool = True) -> None:
    """A turn of a session."""
    histories.commit(CommitTurn(session_id=session_id, messages=messages, started=NOW, reply_id="r"))
    if is_over:
        histories.record(RecordTurn(session_id=session_id, reply_id="r", turn=RecordedTurn(content="ok")))


def ids(histories: Histories) -> list[str]:
    return [summary.session_id for summary in histories.summaries()]


def test_the_session_used_longest_ago_gives_its_pictures_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all of them together are too large; each counts once, in however many sessions and messages it is."""
    monkeypatch.setattr(sessions, "MAX_PICTURE_BYTES", len(RED.base64) + len(GREEN.base64))
    histories = Histories()
    commit(histories, "old", said("user", "x", RED))
    commit(histories, "text", said("user", "x"))
    commit(histories, "both", said("user", "x", RED), said("user", "y", GREEN), said("user", "z", RED))
    assert ids(histories) == ["both", "text", "old"]
    commit(histories, "new", said("user", "x", BLUE))
    assert ids(histories) == ["new"]


def test_a_running_session_keeps_its_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the one used just now, whatever it has."""
    monkeypatch.setattr(sessions, "MAX_PICTURE_BYTES", 10)
    histories = Histories()
    commit(histories, "running", said("user", "x", RED), is_over=False)
    commit(histories, "idle", said("user", "x", GREEN))
    commit(histories, "new", said("user", "x", BLUE))
    assert ids(histories) == ["new", "running"]


def test_a_history_whose_picture_was_taken_out_costs_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's word is the history."""
    monkeypatch.setattr(sessions, "MAX_PICTURE_BYTES", len(RED.base64))
    histories = Histories()
    commit(histories, "a", said("user", "x", RED))
    assert histories.replace("a", (said("user", "x"),), NOW)
    commit(histories, "b", said("user", "x", RED))
    assert ids(histories) == ["b", "a"]


def test_messages_are_equal_by_their_pictures() -> None:
    """Not by how these were given."""
    assert said("user", "x", RED) == said("user", "x", RED)
    assert said("user", "x", RED) != said("user", "x", GREEN)
    assert said("user", "x", RED) != said("user", "x")


def test_a_conversation_sent_again_brings_no_second_copy() -> None:
    """What a session holds is what the next request's messages refer to."""
    first, second = (request_of("s", [said("user", "x", RED)]) for _ in range(2))
    assert first.messages[0].images[0].picture is second.messages[0].images[0].picture is RED


def finished(reply_id: str, *messages: Message) -> Turn:
    """A turn that was made, and no more."""
    return Turn(
        request=request_of("s", messages),
        reply=Reply(reply_id, "s"),
        board=StateBoard(),
        supervisor=Mailbox("supervisor").address,
        transcripts=Mailbox("store").address,
        unattended_s=1.0,
        on_prepared=lambda: None,
    )


async def test_finished_replies_hold_so_many_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that finished first gives way; the same picture in several of them counts once."""
    monkeypatch.setattr(shelf, "MAX_PICTURE_BYTES", len(RED.base64) + len(GREEN.base64))
    kept = shelf.Shelf()
    for reply_id, shown in (("1", RED), ("2", RED), ("3", GREEN), ("4", BLUE)):
        turn = finished(reply_id, said("user", "x", shown))
        kept.put(turn)
        kept.finish(turn, 0.0)
    assert [kept.find(reply_id, 0.0) is not None for reply_id in "1234"] == [False, False, True, True]


@pytest.mark.parametrize(
    ("engine", "why"),
    [("llamacpp", r"projector \(--mmproj\)"), ("executorch", "its artifact"), ("native", "its artifact")],
)
def test_a_model_that_cannot_see_is_no_reason_to_drop_a_picture(engine: str, why: str) -> None:
    """It is refused by name, with its place and what would help with that engine."""
    request = request_of("s", [said("user", "x"), said("user", "y", RED)])
    check_abilities(request, READY)
    with pytest.raises(ClientFault, match=f"cannot see pictures.*{why}") as caught:
        check_abilities(request, attrs.evolve(READY, engine=engine, supports=Supports()))
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "messages[1].content")
