"""One reply as a stream of server-sent events, for its first client and for any that comes back.

Order (design section 3.6): role chunk, reasoning and content, finish chunk, metrics chunk, usage chunk if
asked, [DONE]. Signs of life are comments. Numbered streams give each event the position behind it as its
`id`, so a client goes on with `after=<last id>` wherever it lost the connection; the events behind the last
character all carry the same id and are simply sent again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import attrs
import trio

from actors.front.sse import SSE_DONE, sse_comment, sse_data
from actors.reply import Failed, Finished, Piece, Reply, Sign
from muse.api.responses import ChunkEncoder


@attrs.frozen(kw_only=True)
class StreamOptions:
    """What one client wants. numbered: events carry ids. after: position to begin behind. quiet_s: longest
    silence before a comment."""

    include_usage: bool
    reasoning: bool
    numbered: bool
    quiet_s: float
    after: int = 0


async def reply_events(reply: Reply, options: StreamOptions) -> AsyncGenerator[bytes]:
    """Batches of events, each one write. Ends behind the outcome."""
    position, sign_version = options.after, 0
    encoder: ChunkEncoder | None = None
    while True:
        batch: list[bytes] = []
        # Text counts too: a worker may lie about the order, and its text must not break the stream.
        if encoder is None and (reply.accepted or reply.end or isinstance(reply.outcome, Finished)):
            encoder = ChunkEncoder(reply_id=reply.id, model=reply.model_id, created=reply.created)
            if position == 0:
                batch.append(_frame(encoder.role(), 0 if options.numbered else None))
        if reply.sign is not None and reply.sign_version != sign_version:
            sign_version = reply.sign_version
            batch.append(_comment(reply.sign))
        outcome = reply.outcome
        for piece in reply.read(position):
            position = piece.end
            assert encoder is not None
            if data := _chunk(encoder, piece, options):
                batch.append(_frame(data, position if options.numbered else None))
        if position < reply.end:
            yield b"".join(batch)  # a reader that lags: the end comes after all the text
            continue
        if outcome is not None:
            batch += _last_events(encoder, reply, options)
            yield b"".join(batch)
            return
        if batch:
            yield b"".join(batch)
        with trio.move_on_after(options.quiet_s) as patience:
            await reply.wait_news(position, sign_version)
        if patience.cancelled_caught:
            yield sse_comment("waiting") if reply.sign is None else _comment(reply.sign)


def _chunk(encoder: ChunkEncoder, piece: Piece, options: StreamOptions) -> bytes | None:
    if piece.call is not None:
        return encoder.tool_call(*piece.call)
    if piece.channel == "answer":
        return encoder.content(piece.text)
    return encoder.reasoning(piece.text) if options.reasoning else None


def _last_events(encoder: ChunkEncoder | None, reply: Reply, options: StreamOptions) -> list[bytes]:
    outcome = reply.outcome
    number = reply.end if options.numbered else None
    if isinstance(outcome, Failed):
        return [sse_data(outcome.fault.envelope()), SSE_DONE]
    assert outcome is not None
    assert encoder is not None
    chunks = [encoder.finish(outcome.finish_reason), encoder.metrics(outcome.metrics)]
    if options.include_usage:
        chunks.append(encoder.usage(outcome.metrics))
    return [*(_frame(chunk, number) for chunk in chunks), SSE_DONE]


def _frame(data: bytes, number: int | None) -> bytes:
    return b"data: " + data + b"\n\n" if number is None else b"id: %d\ndata: %b\n\n" % (number, data)


def _comment(sign: Sign) -> bytes:
    known = {name: value for name, value in attrs.asdict(sign).items() if value is not None}
    return sse_comment("muse " + json.dumps(known))
