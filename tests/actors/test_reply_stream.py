"""The stream of one reply, read from the Reply alone."""

from __future__ import annotations

import json

from actors.front.reply_stream import StreamOptions, reply_events
from actors.reply import Failed, Reply
from muse.errors import WorkerFault

PLAIN = StreamOptions(include_usage=False, reasoning=False, numbered=False, quiet_s=10.0)


async def test_text_without_an_acceptance_is_streamed_all_the_same() -> None:
    """A worker that forgets `accepted` and dies: role, its text, the error, [DONE]."""
    reply = Reply("chatcmpl-1", None)
    reply.append("answer", "early")
    reply.finish(Failed(fault=WorkerFault("worker_lost", "It died.")))
    frames = b"".join([batch async for batch in reply_events(reply, PLAIN)]).decode().split("\n\n")
    first, second, error = (json.loads(frame.removeprefix("data: ")) for frame in frames[:3])
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert second["choices"][0]["delta"]["content"] == "early"
    assert error["error"]["code"] == "worker_lost"
    assert frames[3:] == ["data: [DONE]", ""]
