"""POST /v1/chat/completions, streaming and not.

Order on the wire (design section 3.6): role chunk, content, finish chunk, metrics chunk, usage chunk if
asked, [DONE]. Signs of life are SSE comments. A client that goes away is noticed by the cancellation of
its request's task: the reply is abandoned in a `finally`, and its Turn cancels in whatever phase it is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import attrs
import trio
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from actors.front.body import read_json
from actors.front.context import FrontContext
from actors.front.sse import SSE_DONE, sse_comment, sse_data, sse_response
from actors.reply import Failed, Finished, Reply, Sign
from actors.sessions.messages import StartTurn
from actors.state_board import ANSWERING
from muse.api.chat_request import ChatRequest, parse_chat_request
from muse.api.responses import ChunkEncoder, completion_body
from muse.errors import ClientFault, Unavailable


def chat_routes(context: FrontContext) -> Blueprint:
    """The routes, over one context."""
    routes = Blueprint("chat", __name__)

    @routes.post("/v1/chat/completions")
    async def chat_completions() -> ResponseReturnValue:
        body = await read_json(request)
        chat = parse_chat_request(body, context.defaults)
        _check_model(context, chat)
        reply = await context.sessions.ask(StartTurn(request=chat))
        if chat.stream:
            return await _start_stream(context, chat, reply)
        return await _whole(context, reply)

    return routes


def _check_model(context: FrontContext, chat: ChatRequest) -> None:
    model = context.board.value.model
    if chat.model is not None and model is not None and chat.model != model.model_id:
        raise ClientFault(
            "model_not_found",
            f"The loaded model is {model.model_id!r}. Leave `model` out to use it.",
            status=404,
            param="model",
        )


async def _whole(context: FrontContext, reply: Reply) -> ResponseReturnValue:
    """Wait for the outcome; a model that is still loading gets a bounded wait, then 503."""
    try:
        limits = context.settings.limits
        with trio.move_on_after(limits.load_wait_s):
            await _wait_model(context)
            await reply.wait_accepted()
        if not reply.accepted and reply.outcome is None and context.board.value.worker.state not in ANSWERING:
            raise Unavailable(
                "model_loading",
                f"The model is still loading after {limits.load_wait_s:.0f} s of waiting. Try again soon.",
                retry_after_s=limits.retry_after_s,
            )
        outcome = await reply.wait_outcome()
    finally:
        reply.abandon()
    if isinstance(outcome, Failed):
        raise outcome.fault
    return completion_body(
        reply_id=reply.id,
        model=reply.model_id,
        created=reply.created,
        text=reply.text("answer"),
        metrics=outcome.metrics,
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
            raise reply.outcome.fault
        return sse_response(_events(context, chat, reply))
    except BaseException:
        reply.abandon()
        raise


async def _events(context: FrontContext, chat: ChatRequest, reply: Reply) -> AsyncIterator[bytes]:
    quiet_s = context.settings.limits.quiet_s
    position, sign_version = 0, 0
    encoder: ChunkEncoder | None = None
    try:
        while True:
            batch: list[bytes] = []
            if encoder is None and (reply.accepted or isinstance(reply.outcome, Finished)):
                model = context.board.value.model
                name = reply.model_id or (model.model_id if model is not None else "")
                encoder = ChunkEncoder(reply_id=reply.id, model=name, created=reply.created)
                batch.append(_frame(encoder.role()))
            if reply.sign is not None and reply.sign_version != sign_version:
                sign_version = reply.sign_version
                batch.append(_comment(reply.sign))
            outcome = reply.outcome
            for piece in reply.read(position):
                assert encoder is not None
                batch.append(_frame(encoder.content(piece.text)))
                position = piece.end
            if position < reply.end:
                yield b"".join(batch)  # a reader that lags: the end comes after all the text
                continue
            if isinstance(outcome, Failed):
                batch += [sse_data(outcome.fault.envelope()), SSE_DONE]
            elif outcome is not None:
                assert encoder is not None
                batch += [_frame(encoder.finish(outcome.finish_reason)), _frame(encoder.metrics(outcome.metrics))]
                if chat.include_usage:
                    batch.append(_frame(encoder.usage(outcome.metrics)))
                batch.append(SSE_DONE)
            if batch:
                yield b"".join(batch)
            if outcome is not None:
                return
            with trio.move_on_after(quiet_s) as patience:
                await reply.wait_news(position, sign_version)
            if patience.cancelled_caught:
                yield sse_comment("waiting") if reply.sign is None else _comment(reply.sign)
    finally:
        reply.abandon()  # no effect after the outcome; on a disconnect it ends the generation


def _frame(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _comment(sign: Sign) -> bytes:
    known = {name: value for name, value in attrs.asdict(sign).items() if value is not None}
    return sse_comment("muse " + json.dumps(known))
