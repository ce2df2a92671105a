"""Answer: the synchronous half of a turn: what the model generates becomes channels, text, ids and counts.

Lives as long as the answer, over all workers that generate parts of it, and over a later `continue`. No
await anywhere: it is called from the pipe reader.
"""

from __future__ import annotations

from actors.reply import Channel, Reply
from actors.sessions.generated import Generated
from muse.chat.channel_types import ChannelParser, Event, TextKind
from muse.chat.stop_strings import StopMatcher
from muse.protocol import Segment, TextSegment, Tokens


class Answer:
    """Feeds one Reply. `prompt` is what the model read before; `generated` what it wrote since."""

    def __init__(
        self,
        *,
        reply: Reply,
        prompt: tuple[Segment, ...],
        parser: ChannelParser,
        stops: tuple[str, ...],
        max_thinking_tokens: int | None,
    ) -> None:
        self.prompt = prompt
        self.generated = Generated()
        self.thinking_tokens = 0
        self.stopped = False
        """A stop string was seen: the answer is complete, whatever still comes."""
        # Text before this reply, when it continues another one.
        self._earlier: dict[Channel, str] = {"answer": "", "reasoning": ""}
        self._earlier_tokens = 0
        self._reply = reply
        self._parser = parser
        self._stop = StopMatcher(stops)
        self._max_thinking_tokens = max_thinking_tokens

    @property
    def new_tokens(self) -> int:
        """Tokens generated for this reply, those before a `continue` not counted."""
        return self.generated.tokens - self._earlier_tokens

    @property
    def is_thinking(self) -> bool:
        """The reasoning channel is open."""
        return self._parser.channel == "reasoning"

    @property
    def thought_enough(self) -> bool:
        """The budget for thinking is used up and the channel still open."""
        limit = self._max_thinking_tokens
        return limit is not None and self.is_thinking and self.thinking_tokens >= limit

    @property
    def header(self) -> str:
        """What the template wrote last, before the model began: where the ids belong in later prompts."""
        last = self.prompt[-1] if self.prompt else None
        return last.text if isinstance(last, TextSegment) and last.special else ""

    def text(self, channel: Channel) -> str:
        """All of a channel so far, with what came before a `continue`."""
        return self._earlier[channel] + self._reply.text(channel)

    def exact_ids(self, last: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """What was generated, if the text shows all of it and every id is known; else None.

        last: what the worker says at the end that it generated, None if it cannot or did not. Two accounts
        of one worker that differ are not exact.
        """
        ids = None if self.stopped else self.generated.ids()
        if ids is None or last is None or ids[len(ids) - len(last) :] != last:
            return None
        return ids

    def take(self, event: Tokens) -> None:
        """One event of the worker. After a stop string only ids are counted: they were generated before
        the cancel took effect."""
        before = self.generated.tokens
        thinking = self.is_thinking
        self.generated.add(event)
        if self.stopped:
            return
        kind: TextKind = "control" if event.control else "mixed" if event.ids is None else "text"
        for found in self._parser.feed(event.text, kind):
            self._give(found)
        if thinking or self.is_thinking:
            self.thinking_tokens += self.generated.tokens - before

    def close_reasoning(self) -> bool:
        """End the open reasoning channel, so that generation goes on with the answer; false if none is."""
        closing = self._parser.close_reasoning()
        if closing is None:
            return False
        self.generated.insert(closing)
        return True

    def flush(self) -> None:
        """Generation is over: give out what waited for the rest of a tag or of a stop string."""
        if self.stopped:
            return
        for found in self._parser.flush():
            self._give(found)
        self._reply.append("answer", self._stop.flush())

    def continue_in(self, reply: Reply, *, stops: tuple[str, ...], max_thinking_tokens: int | None) -> Answer:
        """The same answer, going on in another reply."""
        following = Answer(
            reply=reply,
            prompt=self.prompt,
            parser=self._parser.copy(),
            stops=stops,
            max_thinking_tokens=max_thinking_tokens,
        )
        following.generated = self.generated.copy()
        following._earlier_tokens = following.generated.tokens
        following._earlier = {channel: self.text(channel) for channel in self._earlier}
        return following

    def _give(self, found: Event) -> None:
        assert isinstance(found, tuple), "no tools were declared, so there are no calls"
        channel, text = found
        self._say(channel == "reasoning", text)

    def _say(self, reasoning: bool, text: str) -> None:
        if reasoning:
            self._reply.append("reasoning", text)
        elif not self.stopped:
            visible, self.stopped = self._stop.feed(text)
            self._reply.append("answer", visible)
