"""Routes of named sessions: show, list, reset, close. They live in memory only."""

from __future__ import annotations

import json
from typing import Final

from quart import Blueprint, Response, request

from actors.front.body import read_parsed
from actors.front.context import FrontContext
from actors.front.json_answer import json_answer
from actors.sessions.messages import DescribeSession, DescribeSessions, EndSession, SessionState, SetHistory
from actors.transcripts.messages import RecordedTurn, SessionSummary
from muse.api.chat_request import parse_session_id
from muse.api.fields import Offenders
from muse.api.message import Message, content_of, parse_messages
from muse.api.responses import call_dict
from muse.errors import ClientFault
from muse.strict_json import JsonValue

_READ_ONLY: Final = (
    "session_id",
    "object",
    "created",
    "running",
    "turns",
    "exact_turns",
    "waiting",
    "resident_tokens",
)
"""Members of what `GET /v1/sessions/{id}` answers, beside its messages."""


def session_routes(context: FrontContext) -> Blueprint:
    """The routes, over one context. Contract of reset and close: contracts/openai-contract.md section 1."""
    routes = Blueprint("sessions", __name__)
    sessions = context.sessions

    @routes.get("/v1/sessions")
    async def list_sessions() -> dict[str, object]:
        found = await sessions.ask(DescribeSessions())
        return {"object": "list", "data": [_summary_dict(summary) for summary in found]}

    @routes.get("/v1/sessions/<session_id:session_id>")
    async def show_session(session_id: str) -> Response:
        state = await sessions.ask(DescribeSession(session_id=parse_session_id(session_id)))
        return await json_answer(lambda: _described(state))

    @routes.put("/v1/sessions/<session_id:session_id>")
    async def set_history(session_id: str) -> dict[str, object]:
        messages = await read_parsed(request, _parse_history)
        await sessions.ask(SetHistory(session_id=parse_session_id(session_id), messages=messages))
        return {"session_id": session_id, "messages": len(messages)}

    @routes.post("/v1/sessions/<session_id:session_id>/reset")
    async def reset_session(session_id: str) -> dict[str, object]:
        await sessions.ask(EndSession(action="reset", session_id=parse_session_id(session_id)))
        return {"reset": True, "session_id": session_id}

    @routes.delete("/v1/sessions/<session_id:session_id>")
    async def close_session(session_id: str) -> dict[str, object]:
        await sessions.ask(EndSession(action="close", session_id=parse_session_id(session_id)))
        return {"closed": True, "session_id": session_id}

    return routes


def _parse_history(body: JsonValue) -> tuple[Message, ...]:
    """The body {"messages": [...]}. What else `GET` says of a session may come back with it, and changes nothing."""
    if not isinstance(body, dict):
        raise ClientFault("invalid_type", 'The body must be {"messages": [...]}.')
    offenders = Offenders()
    for key in body:
        if key not in ("messages", *_READ_ONLY):
            offenders.add_unknown(key)
    messages = parse_messages(body.get("messages"), offenders)
    offenders.raise_if_any()
    return messages


def _summary_dict(summary: SessionSummary) -> dict[str, object]:
    return {
        "session_id": summary.session_id,
        "object": "session",
        "created": int(summary.started.timestamp()),
        "running": summary.running,
        "turns": summary.turns,
        "exact_turns": summary.exact_turns,
    }


def _described(state: SessionState) -> dict[str, object]:
    view = state.view
    messages = [_message(message, view.turns.get(index)) for index, message in enumerate(view.messages)]
    messages += _newest(view.turns.get(len(view.messages)))
    waiting = [
        {
            "reply_id": request.reply_id,
            "messages": [_message(message, None) for message in request.messages] + _newest(request.begun),
        }
        for request in state.waiting
    ]
    resident = state.resident_tokens
    return {**_summary_dict(view.summary), "messages": messages, "waiting": waiting, "resident_tokens": resident}


def _newest(turn: RecordedTurn | None) -> list[dict[str, object]]:
    """The answer that nobody has sent back yet, if there is one."""
    if turn is None:
        return []
    return [_message(Message(role="assistant", content=turn.content, tool_calls=turn.tool_calls), turn)]


def _message(message: Message, turn: RecordedTurn | None) -> dict[str, object]:
    """A message as a client may hand it back, with what is known of an answer that was given here."""
    shown: dict[str, object] = {"role": message.role, "content": content_of(message)}
    if message.name is not None:
        shown["name"] = message.name
    if message.tool_calls:
        shown["tool_calls"] = [call_dict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    if turn is None or not turn.reply_id:
        details = message.details if turn is None else turn.details
        return {**shown, **json.loads(details)} if details else shown
    if turn.reasoning:
        shown["reasoning_content"] = turn.reasoning
    shown["reply_id"] = turn.reply_id
    if turn.metrics is not None:
        shown["finish_reason"] = turn.metrics.finish_reason
        shown["muse_metrics"] = turn.metrics.to_dict()
    if turn.fault is not None:
        shown["error"] = turn.fault.envelope()["error"]
    return shown
