"""The form that an answer is held to, checked (muse/structured)."""

from __future__ import annotations

import attrs


@attrs.define(frozen=True, slots=True, kw_only=True)
class HeldForm:
    """schema: for the engine, as JSON text. notes: what of the client's schema restricts nothing (unknown formats and
    keywords), each with its place."""

    schema: str
    notes: tuple[str, ...] = ()
