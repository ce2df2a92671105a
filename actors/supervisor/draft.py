"""Whether workers are started with the draft that the server was given. Plain data, no I/O.

An engine cannot switch its draft off for a request or for good, so a draft that costs more than it gives is left out
by starting another worker. That is done when nothing runs on the present one, and holds until somebody asks for a
fresh worker or the server starts again: what was slow once (a machine under load, odd texts) need not be slow for ever.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from actors.state_board import DraftStatus


@attrs.define(slots=True)
class DraftChoice:
    """given: the file, None if there is none. left_out: why workers go without it, in words."""

    given: Path | None
    left_out: str | None = None

    @property
    def used(self) -> Path | None:
        """The draft of the next worker."""
        return self.given if self.left_out is None else None

    def leave_out(self, reason: str) -> None:
        """The next workers go without."""
        self.left_out = reason

    def try_again(self) -> None:
        """The next worker has it."""
        self.left_out = None

    def status(self) -> DraftStatus | None:
        """As people may see it."""
        return None if self.given is None else DraftStatus(file=self.given.name, reason=self.left_out)
