"""Reply: the append-only log of one answer, owned by the server and read by any number of clients.

One Turn appends, synchronously; readers pull from a position and wait for more. A reader that cannot
keep up gets larger pieces, never a longer queue: text is kept once, in blocks, whoever reads it.

Positions count characters (all channels together), so any client can go on exactly where it stopped,
whatever pieces it got before. A call of a tool is one piece that nobody gets in parts: its JSON form. The outcome
comes after the last character.

Memory: the text plus about 200 bytes for each BLOCK_CHARS characters.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal

import attrs
import trio

from actors.kernel import Signal
from muse.api.metrics import AnswerEnd, MuseMetrics
from muse.api.tools import ToolCall
from muse.errors import MuseError

Channel = Literal["answer", "reasoning", "tool_call"]

BLOCK_CHARS: Final = 4096
"""Longest block of the log: small enough to append by copying (about 0.2 microseconds a piece)."""

READ_BLOCKS: Final = 16
"""Most blocks a reader gets at a time, so that one write of a slow reader stays small."""


@attrs.frozen(kw_only=True)
class Piece:
    """Consecutive text of one channel; `end` is the position behind it. call: of channel `tool_call`, what the
    text stands for; calls are numbered from 0."""

    channel: Channel
    text: str
    end: int
    call: tuple[int, ToolCall] | None = None


@attrs.frozen(kw_only=True)
class Finished:
    """The answer is complete, cut by its budget, or cancelled."""

    finish_reason: AnswerEnd
    metrics: MuseMetrics


@attrs.frozen(kw_only=True)
class Failed:
    """The answer could not be given, or not to its end."""

    fault: MuseError


Outcome = Finished | Failed


@attrs.frozen(kw_only=True)
class Sign:
    """A sign of life while no text comes. Only the newest is kept.

    phase: queued (position from 1), loading (fraction or None), restarting, prefill or vision (processed of total; in
    prefill with how many of these the model held before), decode (once the model has thought: how many tokens and
    milliseconds that took).
    """

    phase: Literal["queued", "loading", "restarting", "prefill", "vision", "decode"]
    position: int | None = None
    fraction: float | None = None
    processed: int | None = None
    total: int | None = None
    reused: int | None = None
    thinking_tokens: int | None = None
    thinking_ms: float | None = None


@attrs.define(slots=True)
class _Block:
    channel: Channel
    start: int
    text: str
    call: tuple[int, ToolCall] | None = None


class Reply:
    """One answer. The Turn calls `accept`, `append`, `show` and `finish`; clients call the rest."""

    def __init__(self, reply_id: str, session_id: str | None) -> None:
        self.id: Final = reply_id
        self.session_id: Final = session_id
        self.created: Final = int(time.time())
        self.model_id = ""
        self.accepted = False
        self.outcome: Outcome | None = None
        self.sign: Sign | None = None
        self.sign_version = 0
        self.abandoned: Final = trio.Event()
        self._readers = 0
        self._blocks: list[_Block] = []
        self._calls: list[ToolCall] = []
        self._end = 0
        self._signal = Signal()

    # ------------------------------------------------------------ the Turn's side

    def accept(self, model_id: str) -> None:
        """The worker took the prompt: from now on errors come inside the stream."""
        self.accepted = True
        self.model_id = model_id
        self._signal.notify()

    def append(self, channel: Channel, text: str) -> None:
        """Add text to the end. Nothing may come after the outcome."""
        if self.outcome is not None:
            raise RuntimeError("append after the outcome")
        if not text:
            return
        last = self._blocks[-1] if self._blocks else None
        if last is not None and last.channel == channel and len(last.text) + len(text) <= BLOCK_CHARS:
            last.text += text
        else:
            for start in range(0, len(text), BLOCK_CHARS):
                self._blocks.append(_Block(channel, self._end + start, text[start : start + BLOCK_CHARS]))
        self._end += len(text)
        self._signal.notify()

    def append_call(self, call: ToolCall) -> None:
        """Add a call of a tool to the end."""
        if self.outcome is not None:
            raise RuntimeError("append after the outcome")
        text = json.dumps({"id": call.id, "name": call.name, "arguments": call.arguments})
        self._blocks.append(_Block("tool_call", self._end, text, (len(self._calls), call)))
        self._calls.append(call)
        self._end += len(text)
        self._signal.notify()

    def show(self, sign: Sign) -> None:
        """Replace the sign of life."""
        if sign != self.sign:
            self.sign = sign
            self.sign_version += 1
            self._signal.notify()

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome, once."""
        if self.outcome is not None:
            raise RuntimeError("a second outcome")
        self.outcome = outcome
        self._signal.notify()

    # ------------------------------------------------------------ the clients' side

    @property
    def end(self) -> int:
        """Position behind the last character so far."""
        return self._end

    def read(self, after: int) -> list[Piece]:
        """Text behind position `after`, neighbours of one channel joined, at most READ_BLOCKS blocks at a
        time. Empty only at the end. Never waits.

        Raises ValueError if `after` lies beyond the end or below 0.
        """
        if not 0 <= after <= self._end:
            raise ValueError(f"position {after} is outside 0..{self._end}")
        if after == self._end:
            return []
        first = bisect_right(self._blocks, after, key=lambda block: block.start) - 1
        pieces: list[Piece] = []
        texts: list[str] = []
        last = min(first + READ_BLOCKS, len(self._blocks)) - 1
        for index in range(first, last + 1):
            block = self._blocks[index]
            # Of a call nobody got a part, so nobody goes on inside it.
            texts.append(block.text[after - block.start :] if index == first and block.call is None else block.text)
            if index == last or block.call is not None or self._blocks[index + 1].channel != block.channel:
                end = block.start + len(block.text)
                pieces.append(Piece(channel=block.channel, text="".join(texts), end=end, call=block.call))
                texts = []
        return pieces

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls of tools so far."""
        return tuple(self._calls)

    @property
    def call_count(self) -> int:
        """How many that are."""
        return len(self._calls)

    def text(self, channel: Channel) -> str:
        """Everything said on one channel so far."""
        return "".join(block.text for block in self._blocks if block.channel == channel)

    async def wait_news(self, after: int, sign_version: int) -> None:
        """Wait until there is text behind `after`, another sign, or the outcome."""
        while self._end <= after and self.sign_version == sign_version and self.outcome is None:
            await self._signal.wait()

    async def wait_accepted(self) -> None:
        """Wait until the worker took the prompt or the outcome is known."""
        while not self.accepted and self.outcome is None:
            await self._signal.wait()

    async def wait_outcome(self) -> Outcome:
        """Wait for the end."""
        while self.outcome is None:
            await self._signal.wait()
        return self.outcome

    @contextmanager
    def attended(self) -> Generator[None]:
        """Count as a reader for the time of the context (of detached replies: see wait_unattended)."""
        self._readers += 1
        self._signal.notify()
        try:
            yield
        finally:
            self._readers -= 1
            self._signal.notify()

    async def wait_unattended(self, patience_s: float) -> None:
        """Wait until there was no reader for `patience_s` seconds on end."""
        while True:
            with trio.move_on_after(patience_s) as patience:
                while not self._readers:
                    await self._signal.wait()
            if patience.cancelled_caught:
                return
            while self._readers:
                await self._signal.wait()

    def abandon(self) -> None:
        """Nobody wants this answer any more: its Turn cancels it, in whatever phase it is."""
        self.abandoned.set()
