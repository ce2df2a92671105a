"""How the pieces of a rendered conversation name the message that they come from (marked_text.py).

A message has four numbers: its content, the name of its speaker, what it says in calls of tools, and the words in
those calls that were vetted: names of functions, which cannot spell a control token and which the model itself
writes in one go with what stands around them. These count as the template's own text when tokens are made.
"""

from __future__ import annotations

from muse.chat.marked_text import SCAFFOLD

_KINDS = 4


def content_of(message: int) -> int:
    return _KINDS * message


def name_of(message: int) -> int:
    return _KINDS * message + 1


def calls_of(message: int) -> int:
    return _KINDS * message + 2


def words_of(message: int) -> int:
    """Vetted words in its calls."""
    return _KINDS * message + 3


def said_by(message: int) -> frozenset[int]:
    """All that the message itself says."""
    return frozenset((content_of(message), calls_of(message), words_of(message)))


def message_of(origin: int) -> int | None:
    """Index of the message that a piece comes from; None: from none, or it cannot be told."""
    return origin // _KINDS if origin >= 0 else None


def is_scaffold(origin: int) -> bool:
    """Whether control tokens in such a piece are meant."""
    return origin == SCAFFOLD or (origin >= 0 and origin % _KINDS == _KINDS - 1)
