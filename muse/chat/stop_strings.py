"""Stop strings on the visible text of one answer, piece by piece.

Meaning, free of how the text was cut into pieces: of all occurrences of all stop strings, the one that
is complete first ends the text; if several are complete at the same character, the one that began first.
Shown is what stands before it. Nothing longer is waited for once a stop string is complete, so the model
is never asked for tokens that cannot be shown.

Held back is the longest end of the text that may still become a stop string, and no more.
tests/unit/test_chat_stop_strings.py proves both against the whole-text definition, at every split.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs


@attrs.define(slots=True)
class _Node:
    """State of the automaton: the text ends in this beginning of a stop string, and in no longer one."""

    depth: int
    next: dict[str, _Node] = attrs.Factory(dict)  # pyright: ignore[reportUnknownVariableType]
    fallback: _Node | None = None
    stop: str | None = None


def _build(stops: Sequence[str]) -> _Node:
    """Aho-Corasick: a trie in which each node knows its longest proper end that is a node too."""
    root = _Node(depth=0)
    for stop in stops:
        node = root
        for char in stop:
            if char not in node.next:
                node.next[char] = _Node(depth=node.depth + 1)
            node = node.next[char]
        node.stop = stop
    layer = [root]
    while layer:
        for node in layer:
            for char, child in node.next.items():
                child.fallback = root if node is root else _step(node.fallback, char, root)
                # A node's own stop string is longer, so it began earlier than one that it ends in.
                child.stop = child.stop or child.fallback.stop
        layer = [child for node in layer for child in node.next.values()]
    return root


def _step(node: _Node | None, char: str, root: _Node) -> _Node:
    while node is not None:
        if char in node.next:
            return node.next[char]
        node = node.fallback
    return root


class StopMatcher:
    """Feeds on pieces of visible text and gives out what may be shown. One per answer."""

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: none of them empty; no stop strings at all is fine."""
        self.matched: str | None = None
        """The stop string that ended the text."""
        self._root = _build(stops)
        self._node = self._root
        self._held = ""
        # Most pieces hold no first character of any stop string: one scan in C settles them.
        self._first = re.compile("[" + "".join(map(re.escape, self._root.next)) + "]") if stops else None

    def feed(self, text: str) -> tuple[str, bool]:
        """Take the next piece. Returns (what may be shown now, whether a stop string ended the text);
        after the end always ("", True)."""
        if self.matched is not None:
            return "", True
        if self._first is None:
            return text, False
        held = len(self._held)
        text = self._held + text
        node, position = self._node, held
        while position < len(text):
            if node is self._root:
                found = self._first.search(text, position)
                if found is None:
                    break
                position = found.start()
            node = _step(node, text[position], self._root)
            position += 1
            if node.stop is not None:
                self.matched = node.stop
                self._held = ""
                return text[: position - len(node.stop)], True
        self._node = node
        shown = len(text) - node.depth
        self._held = text[shown:]
        return text[:shown], False

    def flush(self) -> str:
        """The model has ended: what was held back is text after all."""
        held, self._held, self._node = self._held, "", self._root
        return held
