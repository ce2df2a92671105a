"""Which declared tool a model means by the name that it wrote."""

from __future__ import annotations

from collections.abc import Sequence

from muse.api.tools import Tool


def find_tool(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool of this name. Else the only one that it can stand for: models leave the namespace out (`get` for
    `weather.get`) or put the name before itself (`clock.clock` for `clock`). None: there is none, or several."""
    for tool in tools:
        if tool.name == name:
            return tool
    meant = [tool for tool in tools if tool.name.endswith(f".{name}") or name == _doubled(tool.name)]
    return meant[0] if len(meant) == 1 else None


def unknown_tool(name: str) -> str:
    """What is wrong with a call of a tool that was not found."""
    return f'There is no tool named "{name}".' if name else "The call names no tool."


def _doubled(name: str) -> str:
    return f"{name}.{name.rpartition('.')[2]}"
