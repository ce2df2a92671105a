"""Tools that a request offers to the model, and calls of them: their checked forms."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs


@attrs.define(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may ask for. parameters: JSON schema of its arguments, an object, as JSON text."""

    name: str
    description: str = ""
    parameters: str = '{"type":"object","properties":{}}'

    @property
    def schema(self) -> dict[str, Any]:
        """The parameters, read. A new object each time: it may be changed."""
        return cast("dict[str, Any]", json.loads(self.parameters))


@attrs.define(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call, as the client has it. arguments: a JSON object as text, which `muse.strict_json` may refuse."""

    id: str
    name: str
    arguments: str
