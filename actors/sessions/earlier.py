"""What can be refused to those who ask for an earlier reply: it is not here, or cannot be continued."""

from __future__ import annotations

from actors.reply import Finished
from actors.sessions.turn import Turn
from muse.errors import ClientFault


def continuable(turn: Turn | None) -> Turn:
    """The turn of a `muse.continue`, None if it is unknown or forgotten. Raises ClientFault."""
    if turn is None:
        raise reply_not_found(param="muse.continue")
    outcome = turn.reply.outcome
    if outcome is None:
        raise ClientFault("reply_running", "That reply is still being given.", status=409, param="muse.continue")
    complete = isinstance(outcome, Finished) and outcome.finish_reason in ("stop", "tool_calls")
    if complete or turn.answer is None or not turn.answer.generated.tokens:
        raise ClientFault(
            "reply_complete", "There is nothing to continue in that reply.", status=409, param="muse.continue"
        )
    return turn


def reply_not_found(param: str | None = None) -> ClientFault:
    """Said of ids that never were and of those that are forgotten: both can only be asked anew."""
    return ClientFault(
        "reply_not_found",
        "The server does not have this reply: finished ones are kept for five minutes, and none over a restart.",
        status=404,
        param=param,
    )
