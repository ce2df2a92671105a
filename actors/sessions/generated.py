"""What the worker generated for one turn so far, over all its attempts: the stuff a resume is made of.

Kept in the order of generation, as ids where they are known and as text where they are not (an event
always ends at a character's end, so neither is ever cut inside a character). Handed to a new worker
behind the prompt, it makes the answer go on where it stopped: design section 3, "resume a turn with
appended ids".
"""

from __future__ import annotations

import attrs

from muse.protocol import IdsSegment, Segment, TextSegment, Tokens


@attrs.define(slots=True)
class Generated:
    """Append-only. `tokens` counts exactly while ids are known; a piece without ids counts as one
    token for each of its UTF-8 bytes at most, see `add`."""

    tokens: int = 0
    exact: bool = True
    _runs: list[list[int] | str] = attrs.field(factory=list["list[int] | str"])

    def add(self, event: Tokens) -> None:
        """Take one event of the worker."""
        if event.ids is not None:
            self.tokens += len(event.ids)
            if self._runs and isinstance(self._runs[-1], list):
                self._runs[-1].extend(event.ids)
            else:
                self._runs.append(list(event.ids))
        elif event.text:
            # A character whose tokens are not known has at most one for each byte. Counting the most
            # keeps the budget a promise: a resumed answer may end a few tokens early, never late.
            self.exact = False
            self.tokens += len(event.text.encode("utf-8", "replace"))
            if self._runs and isinstance(self._runs[-1], str):
                self._runs[-1] += event.text
            else:
                self._runs.append(event.text)

    def segments(self) -> tuple[Segment, ...]:
        """The continuation of the prompt. Text is encoded without control tokens: the model wrote it, but
        what it spelled out in plain text must not become a control token now."""
        return tuple(
            TextSegment(text=run, special=False) if isinstance(run, str) else IdsSegment(ids=tuple(run))
            for run in self._runs
        )

    def ids(self) -> tuple[int, ...] | None:
        """All ids, or None when any is unknown."""
        if not self.exact:
            return None
        return tuple(token for run in self._runs if isinstance(run, list) for token in run)
