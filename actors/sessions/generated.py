"""What the worker generated for one turn so far, over all its attempts: the stuff a resume is made of.

Kept in the order of generation, as ids where they are known and as text where they are not (an event
always ends at a character's end, so neither is ever cut inside a character), and all of it as text besides, for people
to read. Handed to a new worker
behind the prompt, it makes the answer go on where it stopped: design section 3, "resume a turn with
appended ids".
"""

from __future__ import annotations

from array import array
from typing import Final

import attrs

from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment, Tokens

ID_TYPE: Final = "i"
"""Four bytes an id instead of the 36 of a list of ints: an answer may have tens of thousands, and is kept."""


_BLOCK_CHARS: Final = 4096
"""Of text, that is appended to by copying."""


@attrs.define(slots=True)
class _Words:
    """Text whose ids are not known, in pieces: joined once, when it is needed."""

    special: bool
    pieces: list[str]


@attrs.define(slots=True)
class Generated:
    """Append-only. `tokens` counts exactly while ids are known; a piece without ids counts as one token
    for each of its UTF-8 bytes, the most it can be: a budget stays a promise, and an answer may end a
    few tokens early, never late. `exact`: every id is known."""

    tokens: int = 0
    exact: bool = True
    _runs: list[array[int] | _Words] = attrs.field(factory=list["array[int] | _Words"], alias="runs")
    _spelled: list[str] = attrs.field(factory=list[str], alias="spelled")

    def add(self, event: Tokens) -> None:
        """Take one event of the worker."""
        self._spell(event.text)
        if event.ids is not None:
            self.tokens += len(event.ids)
            self._extend(event.ids)
        elif event.text:
            self.tokens += len(event.text.encode("utf-8", "replace"))
            # Without control tokens: what the model spelled out in plain text must not become one now.
            self._append_text(TextSegment(text=event.text, special=False))

    def insert(self, segments: tuple[Segment, ...]) -> None:
        """Put words into the model's mouth, such as the end of its reasoning. They cost no budget."""
        for segment in segments:
            match segment:
                case IdsSegment():
                    self._extend(segment.ids)
                case TextSegment():
                    self._spell(segment.text)
                    self._append_text(segment)
                case ImageSegment():
                    raise ValueError("a model does not generate images")

    def _extend(self, ids: tuple[int, ...]) -> None:
        last = self._runs[-1] if self._runs else None
        if isinstance(last, array):
            last.extend(ids)
        else:
            self._runs.append(array(ID_TYPE, ids))

    def _append_text(self, segment: TextSegment) -> None:
        self.exact = False
        last = self._runs[-1] if self._runs else None
        if isinstance(last, _Words) and last.special == segment.special:
            last.pieces.append(segment.text)
        else:
            self._runs.append(_Words(segment.special, [segment.text]))

    def _spell(self, text: str) -> None:
        if self._spelled and len(self._spelled[-1]) + len(text) <= _BLOCK_CHARS:
            self._spelled[-1] += text
        else:
            self._spelled.append(text)

    @property
    def text(self) -> str:
        """All of it, control tokens spelled out."""
        return "".join(self._spelled)

    def segments(self) -> tuple[Segment, ...]:
        """The continuation of the prompt."""
        return tuple(
            IdsSegment(ids=tuple(run))
            if isinstance(run, array)
            else TextSegment(text="".join(run.pieces), special=run.special)
            for run in self._runs
        )

    def ids(self) -> tuple[int, ...] | None:
        """All ids, or None when any is unknown."""
        if not self.exact:
            return None
        return tuple(token for run in self._runs if isinstance(run, array) for token in run)

    def copy(self) -> Generated:
        """An independent copy."""
        runs = [run[:] if isinstance(run, array) else _Words(run.special, run.pieces[:]) for run in self._runs]
        return Generated(tokens=self.tokens, exact=self.exact, runs=runs, spelled=self._spelled[:])
