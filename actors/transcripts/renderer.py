"""Renderer: the store's way to the model's chat template, which runs in an isolated process (muse/chat/render_job.py).

Nothing of a template, neither Jinja nor a pattern made of its tokens, runs in this process. A template that takes too
long or too much memory, or crashes its process, costs the request that it was rendered for, and nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache, partial
from typing import Final, Protocol, TypeVar

import trio

from actors.isolated.pool import IsolatedProcesses
from actors.isolated.process import JobLost
from actors.threads import run_in_thread
from actors.transcripts.messages import BuildPrompt
from muse.api.message import text_chars
from muse.chat.render_wire import decode_parts, encode_request, encode_template
from muse.chat.splice import KnownAnswer, PromptPart
from muse.errors import ClientFault, EnvironmentFault, MuseError
from muse.protocol import Ready

T = TypeVar("T")

MODULE: Final = "muse.chat.render_job"
LIMIT_S: Final = 5.0
"""Of one rendering. The template's own budget (TemplateLimits) ends before and gives a better reason, but it cannot
interrupt a single long operation."""
_LARGE_CHARS: Final = 512 * 1024
"""What costs as much, or more, is encoded in a thread. Measured: about 1 ms for 1 MiB of text, 0.4 ms for
1,000 messages, which cost 256 characters each."""
_LARGE_ANSWER_BYTES: Final = 64 * 1024
"""Prompts of this size and more are decoded in a thread: a part has 9 bytes at least and takes 0.5 microseconds."""

_encoded_template = lru_cache(maxsize=4)(encode_template)


class Processes(Protocol):
    """What runs isolated jobs: IsolatedProcesses."""

    async def run(self, *, task_status: trio.TaskStatus[None] = ...) -> None: ...

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes | bytearray: ...

    def warm_up_with(self, job: str, payload: bytes, *, limit_s: float) -> None: ...


class Renderer:
    """`run` it for as long as prompts are made."""

    def __init__(self, processes: Processes | None = None, *, limit_s: float = LIMIT_S) -> None:
        self._processes: Processes = processes if processes is not None else IsolatedProcesses(MODULE)
        self._limit_s = limit_s
        self.run = self._processes.run

    async def prepare(self, model: Ready) -> None:
        """Compile the model's template, here and in every process that is started later. Raises MuseError."""
        template = _encoded_template(model)
        self._processes.warm_up_with("compile", template, limit_s=self._limit_s)
        await self._call("compile", template)

    async def render(
        self, message: BuildPrompt, now: datetime, known: Mapping[int, KnownAnswer]
    ) -> tuple[PromptPart, ...]:
        """The prompt of a conversation. Raises the MuseErrors of ChatTemplate.render_parts, `template_failed`, and
        Unavailable when no process can be had."""
        encode = partial(
            encode_request,
            _encoded_template(message.model),
            message.messages,
            now,
            message.options,
            message.tools,
            known,
            ids_with_images=message.model.supports.ids_with_images,
        )
        size = text_chars(message.messages) + sum(len(tool.parameters) for tool in message.tools)
        payload = await _in_thread_if(size >= _LARGE_CHARS, encode)
        answer = await self._call("render", payload)
        decode = partial(decode_parts, answer, message.messages, known)
        return await _in_thread_if(len(answer) >= _LARGE_ANSWER_BYTES, decode)

    async def _call(self, job: str, payload: bytes) -> bytes | bytearray:
        try:
            return await self._processes.call(job, payload, limit_s=self._limit_s)
        except JobLost as lost:
            raise template_failed(lost) from lost


def template_failed(lost: JobLost) -> MuseError:
    """A rendering whose process was ended. Beyond a limit the same request would be again; a crash may not repeat."""
    if lost.reason == "crash":
        return EnvironmentFault(
            "template_failed",
            f"The model's chat template {lost.words} at this conversation, twice. Other requests are not affected. "
            "Try again, or use another model file.",
        )
    return ClientFault(
        "template_failed",
        f"The model's chat template {lost.words} for this conversation, so it was stopped. Other requests are not "
        "affected. Shorten the conversation, or use another model file.",
    )


async def _in_thread_if(is_large: bool, work: Callable[[], T]) -> T:
    """Do large work where it does not hold the event loop."""
    return await run_in_thread(work) if is_large else work()
