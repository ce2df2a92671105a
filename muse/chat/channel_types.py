"""What a parser of a model's language takes and gives."""

from __future__ import annotations

from typing import Literal, Protocol

from muse.protocol import Segment

Channel = Literal["answer", "reasoning"]
Piece = tuple[Channel, str]
TextKind = Literal["text", "control", "mixed"]
"""What generated text is: never a control token; the spelling of exactly one; or not known, since the worker
knows no ids here."""


class ChannelParser(Protocol):
    """What a turn needs of a model's language."""

    @property
    def channel(self) -> Channel:
        """Where the next text belongs."""
        ...

    def feed(self, text: str, kind: TextKind = "text") -> list[Piece]:
        """Take generated text, give what is certain."""
        ...

    def flush(self) -> list[Piece]:
        """The generation is over: give what was held back."""
        ...

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """End the open reasoning channel: returns what has to be appended to the prompt so that the
        model goes on with its answer, and behaves as if the model had written it. None: no reasoning
        is open."""
        ...
