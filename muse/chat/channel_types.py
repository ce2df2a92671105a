"""What a parser of a model's language takes and gives."""

from __future__ import annotations

from typing import Final, Literal, Protocol

import attrs

from muse.protocol import Segment

Channel = Literal["answer", "reasoning"]
Piece = tuple[Channel, str]
TextKind = Literal["text", "control", "mixed"]
"""What generated text is: never a control token; the spelling of exactly one; or not known, since the worker
knows no ids here."""


@attrs.frozen(kw_only=True)
class FoundCall:
    """The model calls a declared tool. arguments: a JSON object as text, non-ASCII kept."""

    name: str
    arguments: str


@attrs.frozen(kw_only=True)
class BrokenCall:
    """The model tried to call something and did it wrong. text: what it wrote, without control tokens, with the white
    space before it, so that it can be shown right behind the answer so far. name: of the tool it meant, None if that
    cannot be told. reason: what is wrong, one sentence for the model and the user."""

    text: str
    name: str | None
    reason: str


CUT_OFF: Final = "The call is cut off before its end."
"""The reason of a BrokenCall whose end is missing since the text ended there: too many tokens, or a stop."""

Event = Piece | FoundCall | BrokenCall


class ChannelParser(Protocol):
    """What a turn needs of a model's language."""

    @property
    def channel(self) -> Channel:
        """Where the next text belongs; a call of a tool counts as answer."""
        ...

    @property
    def turn_over(self) -> bool:
        """The model has begun to write somebody else's part (a tool's result, the user's next question): nothing
        of that was given, and nothing further will be."""
        ...

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        """Take generated text, give what is certain."""
        ...

    def flush(self) -> list[Event]:
        """The generation is over: give what was held back; a second time there is nothing. If it goes on after
        all, so does the parser: a call that was cut off is then completed."""
        ...

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """End the open reasoning channel: returns what has to be appended to the prompt so that the
        model goes on with its answer, and behaves as if the model had written it. None: no reasoning
        is open."""
        ...

    def answer_call(self, name: str, text: str) -> tuple[Segment, ...] | None:
        """The turn has ended (flushed): returns what has to be appended to the prompt so that the model reads
        `text` as the result of its call of `name` and goes on, and behaves as if the model's own turn went on.
        None: this language has no results of tools."""
        ...

    def copy(self) -> ChannelParser:
        """One in the same state, which goes its own way from here."""
        ...
