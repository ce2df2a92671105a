"""Routes of answers: POST /v1/chat/completions, and what can be done with a reply by its id.

A client that goes away is noticed by the end of its request's task: an ordinary reply is abandoned then, and
its Turn cancels in whatever phase it is; a detached one goes on without its reader.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import attrs
import trio
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from actors.front.body import THREAD_BYTES, read_parsed
from actors.front.context import FrontContext
from actors.front.json_answer import json_answer
from actors.front.reply_stream import StreamOptions, reply_events
from actors.front.sse import sse_response
from actors.reply import Failed, Reply
from actors.sessions.messages import AnswerNow, FindReply, ShowPrompt, StartTurn
from actors.state_board import ANSWERING, WorkerStatus
from actors.threads import run_in_thread
from muse.api.chat_request import ChatRequest, model_not_found, parse_chat_request, parse_session_id
from muse.api.responses import completion_body
from muse.errors import ClientFault, Unavailable
from muse.json_pieces import json_bytes
from muse.settings import Limits

SESSION_HEADERS: Final = ("X-ExecuTorch-Session-ID", "session_id", "x-session-affinity")
REPLY_ID_HEADER: Final = "Muse-Reply-Id"


def chat_routes(context: FrontContext) -> Blueprint:
    """The routes, over one context."""
    routes = Blueprint("chat", __name__)
    sessions = context.sessions

    @routes.post("/v1/chat/completions")
    async def chat_completions() -> ResponseReturnValue:
        chat = await read_parsed(request, lambda body: parse_chat_request(body, context.defaults))
        chat = _with_session_header(chat)
        _check_model(context, chat)
        if chat.detached and not chat.stream:
            raise ClientFault(
                "invalid_value", "muse.detached needs stream: true, to learn the reply's id.", param="muse.detached"
            )
        reply = await sessions.ask(StartTurn(request=await context.forms.checked(chat)))
        if chat.stream:
            return await _start_stream(context, chat, reply)
        return await _whole(context, chat, reply)

    @routes.get("/api/replies/<reply_id>")
    async def read_reply(reply_id: str) -> Response:
        after, reasoning = _reading_options()
        reply = await sessions.ask(FindReply(reply_id=reply_id))
        if after > reply.end:
            raise ClientFault("invalid_value", f"after is beyond the {reply.end} characters so far.", param="after")
        options = StreamOptions(
            include_usage=True,
            reasoning=reasoning,
            numbered=True,
            quiet_s=context.settings.limits.quiet_s,
            after=after,
        )
        return sse_response(_attended(reply, options))

    @routes.get("/api/replies/<reply_id>/prompt")
    async def read_prompt(reply_id: str) -> Response:
        prompt = await sessions.ask(ShowPrompt(reply_id=reply_id))
        return await json_answer(lambda: {"id": reply_id, **prompt.to_dict()})

    @routes.post("/api/replies/<reply_id>/answer-now")
    async def answer_now(reply_id: str) -> dict[str, object]:
        return {"answering": await sessions.ask(AnswerNow(reply_id=reply_id))}

    return routes


def _with_session_header(chat: ChatRequest) -> ChatRequest:
    """The session of a header, if the body names none (contracts/openai-contract.md section 4)."""
    if chat.session_id is not None or chat.continue_from is not None:
        return chat
    for name in SESSION_HEADERS:
        if name in request.headers:
            return attrs.evolve(chat, session_id=parse_session_id(request.headers[name], name))
    return chat


def _reading_options() -> tuple[int, bool]:
    unknown = sorted(set(request.args) - {"after", "reasoning"})
    if unknown:
        raise ClientFault("unknown_parameter", f"Unknown query field: {unknown[0][:60]}.", param=unknown[0][:60])
    twice = [name for name in request.args if len(request.args.getlist(name)) > 1]
    if twice:
        raise ClientFault("invalid_value", f"{twice[0]} was given more than once.", param=twice[0])
    text = request.args.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise ClientFault("invalid_value", "after must be a number of characters, 0 or more.", param="after")
    reasoning = request.args.get("reasoning", "true")
    if reasoning not in ("true", "false"):
        raise ClientFault("invalid_value", "reasoning must be true or false.", param="reasoning")
    return int(text), reasoning == "true"


def _check_model(context: FrontContext, chat: ChatRequest) -> None:
    model = context.board.value.model
    if chat.model is not None and model is not None and chat.model != model.model_id:
        raise model_not_found(model.model_id)


async def _whole(context: FrontContext, chat: ChatRequest, reply: Reply) -> ResponseReturnValue:
    """Wait for the outcome; a model that is still loading gets a bounded wait, then 503."""
    try:
        limits = context.settings.limits
        with trio.move_on_after(limits.load_wait_s):
            await _wait_model(context)
            await reply.wait_accepted()
        worker = context.board.value.worker
        if not reply.accepted and reply.outcome is None and worker.state not in ANSWERING:
            raise _still_loading(worker, limits)
        outcome = await reply.wait_outcome()
    finally:
        reply.abandon()
    if isinstance(outcome, Failed):
        raise outcome.fault.without_frames()
    metrics = outcome.metrics

    def written() -> bytes:
        body = completion_body(
            reply_id=reply.id,
            model=reply.model_id,
            created=reply.created,
            text=reply.text("answer"),
            reasoning=reply.text("reasoning") if chat.return_reasoning else None,
            calls=reply.calls,
            metrics=metrics,
        )
        return json_bytes(body)

    # A long one in a thread: thousands of calls take a while to write.
    data = written() if reply.end <= THREAD_BYTES else await run_in_thread(written)
    return Response(data, mimetype="application/json")


def _still_loading(worker: WorkerStatus, limits: Limits) -> Unavailable:
    if worker.exhausted:
        return Unavailable("system_exhausted", worker.reason or "", retry_after_s=limits.retry_after_s)
    because = f" {worker.reason}" if worker.reason else ""
    return Unavailable(
        "model_loading",
        f"The model is still loading after {limits.load_wait_s:.0f} s of waiting.{because} Try again soon.",
        retry_after_s=limits.retry_after_s,
    )


async def _wait_model(context: FrontContext) -> None:
    board = context.board
    while board.value.worker.state not in (*ANSWERING, "failed", "stopped"):
        await board.wait_newer(board.version)


async def _start_stream(context: FrontContext, chat: ChatRequest, reply: Reply) -> Response:
    """Hold the headers back until the prompt was accepted or refused, but not for long: a client that
    waits in the queue or for the model must see signs of life."""
    try:
        with trio.move_on_after(context.settings.limits.first_byte_s):
            await reply.wait_accepted()
        if isinstance(reply.outcome, Failed) and not reply.accepted:
            raise reply.outcome.fault.without_frames()
    except BaseException:
        reply.abandon()
        raise
    options = StreamOptions(
        include_usage=chat.include_usage,
        reasoning=chat.return_reasoning,
        numbered=chat.detached,
        quiet_s=context.settings.limits.quiet_s,
    )
    # With it a client can cancel, or read again, a reply that has not begun yet.
    headers = {REPLY_ID_HEADER: reply.id}
    if chat.detached:
        return sse_response(_attended(reply, options), headers=headers)
    # Not by a `finally` of the stream: a client can leave before its stream was begun.
    return sse_response(reply_events(reply, options), headers=headers, on_close=reply.abandon)


async def _attended(reply: Reply, options: StreamOptions) -> AsyncIterator[bytes]:
    """The stream of one of several readers: the reply goes on without it."""
    with reply.attended():
        async with aclosing(reply_events(reply, options)) as batches:
            async for batch in batches:
                yield batch
