"""Names of an object that are not among those in its `properties`, as a pattern.

The engine lets a name that no pattern describes be written with any escapes (`\\u0061` for `a`, `\\/`) and takes it for
another one then; versions of its library differ in which. A name that has to match a pattern has one spelling.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ANY_NAME: Final = ""
"""A pattern that every name matches."""
_ANYTHING: Final = "(?s:.)"


def other_names(names: Iterable[str]) -> str:
    """A pattern that all names match but these."""
    excluded = sorted(set(names))
    return f"^{_others(excluded, 0)}$" if excluded else ANY_NAME


def _others(names: list[str], place: int) -> str:
    """What may follow the first `place` characters, which all these names share. names: ascending."""
    by_next: dict[str, list[str]] = {}
    for name in names:
        if len(name) > place:
            by_next.setdefault(name[place], []).append(name)
    if not by_next:
        return f"{_ANYTHING}+"
    chars = {char: f"\\x{{{ord(char):x}}}" for char in by_next}
    branches = [f"[^{''.join(chars.values())}]{_ANYTHING}*"]
    branches += [chars[char] + _others(inner, place + 1) for char, inner in by_next.items()]
    ends = "" if len(names[0]) == place else "?"  # a shorter name is another one
    return f"(?:{'|'.join(branches)}){ends}"
