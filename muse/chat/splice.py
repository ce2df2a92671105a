"""From a rendered conversation to prompt segments, with the exact ids of known answers in their places.

An answer that the model gave itself is handed back as the ids it generated then: text would be split into
other tokens, and the model's memory of it (its reasoning included) would be lost. Where the ids belong is
told by how that turn's prompt ended (`header`: the template's own text after the last message, such as
`<|im_start|>assistant`). In the history the same place reads the same, or a little longer (Harmony adds the
recipient, which is in the ids already) or shorter (a template that opens a thought leaves that out of the
past). So: the text up to the header, the header as it was, the ids, and then the history from the control
token that ends the turn (contracts/harmony-format.md section 4). A place where this cannot be seen is
left as text, which is always right and only slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from muse.chat.marked_text import SCAFFOLD
from muse.protocol import IdsSegment, Segment, TextSegment


@attrs.frozen(kw_only=True)
class Piece:
    """A run of the rendered text with one origin (marked_text.py); a message's content has twice its index."""

    text: str
    origin: int


@attrs.frozen(kw_only=True)
class KnownAnswer:
    """ids: exactly what was generated, without the token that ends the turn. header: the template's own text
    that the prompt of that turn ended with."""

    ids: tuple[int, ...]
    header: str


def to_segments(
    pieces: Sequence[Piece], known: Mapping[int, KnownAnswer], special_tokens: Iterable[str]
) -> tuple[Segment, ...]:
    """Join the pieces: neighbours of one kind (scaffold or not) become one segment, and the content of a
    message whose index is in `known` its ids, where their place can be told."""
    texts = [piece.text for piece in pieces]
    ids: dict[int, tuple[int, ...]] = {}
    spellings = tuple(special_tokens)
    for message, answer in known.items():
        place = _place(pieces, message)
        if place is None or not answer.ids:
            continue
        before, after = texts[place - 1], texts[place + 1] if place + 1 < len(texts) else ""
        end, token = _end_of_turn(after, spellings)
        if not answer.header or not _is_same_place(before, answer.header, token):
            continue
        texts[place - 1] = answer.header
        ids[place] = answer.ids
        if place + 1 < len(texts):
            texts[place + 1] = after[end:]
    return tuple(_joined(pieces, texts, ids))


def _place(pieces: Sequence[Piece], message: int) -> int | None:
    """Index of the one piece that is this message's content, between two of the template's own."""
    found = [index for index, piece in enumerate(pieces) if piece.origin == 2 * message]
    if len(found) != 1 or found[0] == 0:
        return None
    around = pieces[found[0] - 1], *pieces[found[0] + 1 : found[0] + 2]
    return found[0] if all(piece.origin == SCAFFOLD for piece in around) else None


def _end_of_turn(text: str, spellings: tuple[str, ...]) -> tuple[int, str]:
    """Where the first control token begins, and its spelling; 0 and nothing if there is none."""
    return min(((at, spelling) for spelling in spellings if (at := text.find(spelling)) >= 0), default=(0, ""))


def _is_same_place(before: str, header: str, end: str) -> bool:
    """Both begin where the last text ended. One must be the beginning of the other, and what it lacks a part
    of the answer's own turn: more would be a message without text that is in only one of them."""
    shorter, longer = sorted((before, header), key=len)
    if not longer.startswith(shorter):
        return False
    lacking = longer[len(shorter) :]
    # Where no token ends a turn, nothing but blanks is sure to be a part of this one.
    return end not in lacking if end else not lacking.strip(" ")


def _joined(pieces: Sequence[Piece], texts: Sequence[str], ids: Mapping[int, tuple[int, ...]]) -> Iterable[Segment]:
    gathered: list[str] = []
    special = False
    for index, piece in enumerate(pieces):
        is_ids = index in ids
        if gathered and (is_ids or special != (piece.origin == SCAFFOLD)):
            yield TextSegment(text="".join(gathered), special=special)
            gathered = []
        if is_ids:
            yield IdsSegment(ids=ids[index])
            continue
        special = piece.origin == SCAFFOLD
        if texts[index]:
            gathered.append(texts[index])
    if gathered:
        yield TextSegment(text="".join(gathered), special=special)
