"""Answer: the synchronous half of a turn: what the model generates becomes channels, text, ids and counts.

Lives as long as the answer, over all workers that generate parts of it, and over a later `continue`. No
await anywhere: it is called from the pipe reader.
"""

from __future__ import annotations

import attrs

from actors.reply import Reply
from actors.sessions.calls import Calls
from actors.sessions.generated import Generated
from muse.api.chat_request import ChatRequest
from muse.api.tools import ToolCall
from muse.chat.channel_types import CUT_OFF, BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.chat.channels import PlainParser, parser_for
from muse.chat.forced_call import ForcedCallParser, answer_prefix, call_prefix
from muse.chat.splice import PromptPart, joined, segments_of
from muse.chat.stop_strings import StopMatcher
from muse.protocol import Ready, TextSegment, Tokens
from muse.sizes import MAX_CALLS
from muse.strict_json import is_text, replace_surrogates


class Answer:
    """Feeds one Reply. `parts` are what the model read before; `generated` what it wrote since.

    one_call: the answer is complete with its first call of a tool. repair: a broken call is told to the model.
    own_words: the ids are what the model writes of itself, and worth to be kept.
    """

    def __init__(
        self,
        *,
        reply: Reply,
        model: Ready,
        parts: tuple[PromptPart, ...],
        parser: ChannelParser,
        stops: tuple[str, ...],
        max_thinking_tokens: int | None,
        one_call: bool = False,
        repair: bool = False,
        own_words: bool = True,
    ) -> None:
        self.model = model
        """That the prompt was made for."""
        self.parts = parts
        self.prompt = segments_of(parts)
        self.begun = ""
        """What stands behind the prompt from the beginning: the answer that this one continues."""
        self.generated = Generated()
        self.thinking_tokens = 0
        self.stopped = False
        """A stop string was seen, or what else ends an answer: it is complete, whatever still comes."""
        # What came before this reply, when it continues another one.
        self._earlier: dict[Channel, str] = {"answer": "", "reasoning": ""}
        self.earlier_tokens = 0
        self.earlier_thinking_tokens = 0
        self._has_said = False  # a word of the answer
        self._says_thoughts = False  # with its last event
        # A call that the model was told of, and what was said behind it, until it tries again: only then it is sure
        # that nobody sees the call.
        self._repaired: tuple[str, str] | None = None
        self._begins_anew = False  # all that the answer held was a call that is tried again
        self._reply = reply
        self._parser = parser
        self._stop = StopMatcher(stops)
        self._stops = stops
        self._stop_behind = StopMatcher(stops)  # on what is said behind a broken call that is held
        self._max_thinking_tokens = max_thinking_tokens
        self._one_call = one_call
        self._own_words = own_words
        self._repair = repair
        self._calls = Calls(reply, repair=repair)

    @property
    def new_tokens(self) -> int:
        """Tokens generated for this reply, those before a `continue` not counted."""
        return self.generated.tokens - self.earlier_tokens

    @property
    def is_thinking(self) -> bool:
        """The reasoning channel is open."""
        return self._parser.channel == "reasoning"

    @property
    def thought_enough(self) -> bool:
        """The budget for thinking is used up in the middle of a thought. Between messages there is nothing to close."""
        limit = self._max_thinking_tokens
        return limit is not None and self.is_thinking and self._says_thoughts and self.thinking_tokens >= limit

    @property
    def header(self) -> str:
        """What the template wrote last, before the model began: where the ids belong in later prompts."""
        last = self.prompt[-1] if self.prompt else None
        return last.text if isinstance(last, TextSegment) and last.special else ""

    def text(self, channel: Channel) -> str:
        """All of a channel so far, with what came before a `continue`."""
        return self._earlier[channel] + self._reply.text(channel)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls of tools so far, with those before a `continue`."""
        return self._calls.all

    @property
    def tool_warning(self) -> str | None:
        """What was wrong with the last broken call."""
        return self._calls.warning

    @property
    def tool_repairs(self) -> int:
        """How often the model was told about a broken call."""
        return self._calls.repairs

    def exact_ids(self, last: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """What was generated, if the text shows all of it and every id is known; else None.

        last: what the worker says at the end that it generated, None if it cannot or did not. Two accounts
        of one worker that differ are not exact.
        """
        ids = self.generated.ids() if self._own_words and not self.stopped else None
        if ids is None or last is None or ids[len(ids) - len(last) :] != last:
            return None
        return ids

    def take(self, event: Tokens) -> None:
        """One event of the worker. After a stop string only ids are counted: they were generated before
        the cancel took effect."""
        before = self.generated.tokens
        thinking = self.is_thinking
        if self._repaired is not None:
            self._show_broken(self._repaired[1])
            self._repaired, self._begins_anew = None, not self._has_said
        event = _encodable(event)
        self.generated.add(event)
        if self.stopped:
            return
        self._says_thoughts = False
        kind: TextKind = "control" if event.control else "mixed" if event.ids is None else "text"
        self._give(self._parser.feed(event.text, kind))
        if self._parser.turn_over and not self.stopped:
            self._end()
        if thinking or self.is_thinking:
            self.thinking_tokens += self.generated.tokens - before

    def close_reasoning(self) -> bool:
        """End the open reasoning channel, so that generation goes on with the answer; false if none is."""
        closing = self._parser.close_reasoning()
        if closing is None:
            return False
        self.generated.insert(closing)
        return True

    def repair_call(self) -> bool:
        """The model's turn is over: if a call in it was broken, tell the model, so that generation goes on with
        another try; false if none was, or there were too many."""
        if self.stopped or not self._repair:
            return False
        self._give(self._parser.flush())
        taken = self._calls.take_for_repair()
        if taken is None:
            return False
        call, said = taken
        result = self._parser.answer_call(call.name or "unknown", f"Error: {call.reason} Nothing was called.")
        if result is None:
            self._show_broken(call.text)
            self._show_broken(said)
            return False
        self.generated.insert(result)
        self._repaired = (call.text, said)
        return True

    def flush(self, *, is_cut: bool) -> None:
        """Generation is over: give out what waited for the rest of a tag, a call or a stop string. is_cut: the model
        did not end it, so a call that has no end is neither a call nor text: it may go on by a `continue`."""
        if self.stopped:
            return
        for event in self._parser.flush():
            if is_cut and isinstance(event, BrokenCall) and event.reason == CUT_OFF:
                self._calls.warning = event.reason
            else:
                self._give([event])
        self._release()

    def _end(self) -> None:
        """The answer is complete, whatever the model still writes."""
        self._release()
        self.stopped = True

    def _release(self) -> None:
        """Give out what was held back, up to a stop string in it."""
        (call, said), self._repaired = self._repaired or self._calls.release(), None
        self._show_broken(call)
        self._say(False, said)
        if not self.stopped:
            self._show(self._stop.flush())

    def _give(self, events: list[Event]) -> None:
        for event in events:
            if self.stopped:
                return
            match event:
                case FoundCall():
                    self._release()
                    if not self.stopped:
                        self._calls.found(event)
                        self.stopped = self._one_call or self._reply.call_count >= MAX_CALLS
                case BrokenCall():
                    if not self._calls.is_holding:
                        self._stop_behind = StopMatcher(self._stops)
                    self._show_broken(self._calls.broken(event))
                case (channel, text):
                    self._say(channel == "reasoning", text)

    def _show_broken(self, text: str) -> None:
        if text:
            # It stands apart from what was said before; that may have been broken too, and was never shown.
            self._say(False, text if self._has_said else text.lstrip())

    def continue_in(self, reply: Reply, *, stops: tuple[str, ...], max_thinking_tokens: int | None) -> Answer:
        """The same answer, going on in another reply."""
        following = Answer(
            reply=reply,
            model=self.model,
            parts=self.parts,
            parser=self._parser.copy(),
            stops=stops,
            max_thinking_tokens=max_thinking_tokens,
            one_call=self._one_call,
            repair=self._repair,
            own_words=self._own_words,
        )
        following._calls = Calls(reply, repair=self._repair, earlier=self.calls)
        following.generated = self.generated.copy()
        following.earlier_tokens = following.generated.tokens
        following.earlier_thinking_tokens = self.earlier_thinking_tokens + self.thinking_tokens
        following._earlier = {channel: self.text(channel) for channel in self._earlier}
        following._has_said = bool(following._earlier["answer"])
        if max_thinking_tokens == 0:
            following.close_reasoning()  # an open thought is not to have one more token
        following.begun = following.generated.text
        return following

    def _say(self, reasoning: bool, text: str) -> None:
        if reasoning:
            self._says_thoughts = True
            self._reply.append("reasoning", text)
        elif self.stopped:
            return
        elif self._calls.is_holding:
            self._calls.hold(text)
            if self._stop_behind.feed(text)[1]:
                self._release()
        else:
            if self._begins_anew:
                # The blank line that parts it from a call that nobody saw.
                text = text.lstrip("\n")
                self._begins_anew = not text
            visible, self.stopped = self._stop.feed(text)
            self._show(visible)

    def _show(self, text: str) -> None:
        self._has_said = self._has_said or bool(text)
        self._reply.append("answer", text)


def _encodable(event: Tokens) -> Tokens:
    """Half of a surrogate pair is no text: a client could neither show it nor hand it back."""
    return event if is_text(event.text) else attrs.evolve(event, text=replace_surrogates(event.text))


def begin_answer(request: ChatRequest, reply: Reply, model: Ready, parts: tuple[PromptPart, ...]) -> Answer:
    """The answer to a request, before its first token."""
    use = request.tool_use
    parser = parser_for(model.chat_template, segments_of(parts), use.tools)
    if use.forced:
        parts += tuple(PromptPart(segment=segment) for segment in call_prefix(parser, use.forced))
        parser = ForcedCallParser(use.forced)
    elif request.json_schema is not None:
        # One text with the template's own, as it is in later prompts, so that the ids of the answer fit there.
        parts = joined(parts, answer_prefix(parser))
        parser = PlainParser()
    return Answer(
        reply=reply,
        model=model,
        parts=parts,
        parser=parser,
        stops=request.stop,
        max_thinking_tokens=request.max_thinking_tokens,
        one_call=not use.parallel,
        repair=request.tool_repair,
        own_words=not use.forced,
    )
