"""From a rendered conversation to prompt segments, with the exact ids of known answers in their places.

An answer that the model gave itself is handed back as the ids it generated then: text would be split into
other tokens, and the model's memory of it (its reasoning included) would be lost. Where the ids belong is
told by how that turn's prompt ended (`header`: the template's own text after the last message, such as
`<|im_start|>assistant`). In the history the same place reads the same, or a little longer (Harmony adds the
recipient, which is in the ids already) or shorter (a template that opens a thought leaves that out of the
past). So: the text up to the header, the header as it was, the ids, and then the history from the control
token that ends the turn (contracts/harmony-format.md section 4). An answer with calls of tools is one place too,
from the first to the last of what it says. A place where this cannot be seen is left as text, which is always right
and only slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from muse.chat.marked_text import SCAFFOLD, MarkedText, runs_of
from muse.chat.origins import content_of, is_scaffold, message_of, said_by
from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment

# Control tokens that can stand inside of a turn: none of them ends it.
_INSIDE: Final = frozenset(("<tool_call>", "</tool_call>", "<think>", "</think>"))


@attrs.frozen(kw_only=True)
class Piece:
    """A run of the rendered text with one origin (origins.py). image: the picture that stands there instead."""

    text: str
    origin: int
    image: ImageSegment | None = None


def pieces_of(rendered: MarkedText) -> Iterator[Piece]:
    text = str.__str__(rendered)
    position = 0
    for length, origin in runs_of(rendered):
        yield Piece(text=text[position : position + length], origin=origin)
        position += length


@attrs.frozen(kw_only=True)
class KnownAnswer:
    """ids: exactly what was generated, without the token that ends the turn. header: the template's own text
    that the prompt of that turn ended with. reasoning: what no message shows of it. spelled: what the ids spell,
    control tokens included."""

    ids: tuple[int, ...]
    header: str
    reasoning: str = ""
    spelled: str = ""


@attrs.frozen(kw_only=True)
class PromptPart:
    """A segment of a prompt. origin: whose most of its characters are (origins.py). spelled: what its ids spell."""

    segment: Segment
    origin: int = SCAFFOLD
    spelled: str = ""


def segments_of(parts: Iterable[PromptPart]) -> tuple[Segment, ...]:
    """The prompt as the worker takes it."""
    return tuple(part.segment for part in parts)


def joined(parts: tuple[PromptPart, ...], more: Iterable[Segment]) -> tuple[PromptPart, ...]:
    """The prompt with more template text behind it."""
    for segment in more:
        last = parts[-1] if parts else None
        if (
            last is not None
            and isinstance(last.segment, TextSegment)
            and isinstance(segment, TextSegment)
            and last.segment.special == segment.special
        ):
            text = TextSegment(text=last.segment.text + segment.text, special=segment.special)
            parts = (*parts[:-1], attrs.evolve(last, segment=text))
        else:
            parts = (*parts, PromptPart(segment=segment))
    return parts


def to_parts(
    pieces: Sequence[Piece], known: Mapping[int, KnownAnswer], special_tokens: Iterable[str]
) -> tuple[PromptPart, ...]:
    """Join the pieces: neighbours of one kind (scaffold or not) become one segment, and what a message says whose
    index is in `known` becomes its ids, where their place can be told."""
    texts = [piece.text for piece in pieces]
    answers: dict[int, KnownAnswer] = {}
    spellings = tuple(spelling for spelling in special_tokens if spelling not in _INSIDE)
    said = _said_in(pieces)
    for message, answer in known.items():
        place = _place(pieces, message, said.get(message, ()), spellings)
        if place is None or not answer.ids:
            continue
        first, behind = place
        before, after = texts[first - 1], texts[behind] if behind < len(texts) else ""
        end, token = _end_of_turn(after, spellings)
        if not answer.header or not _is_same_place(before, answer.header, token):
            continue
        texts[first - 1] = answer.header
        texts[first:behind] = [""] * (behind - first)
        answers[first] = answer
        if behind < len(texts):
            texts[behind] = after[end:]
    return tuple(_joined(pieces, texts, answers))


def _said_in(pieces: Sequence[Piece]) -> Mapping[int, Sequence[int]]:
    """By message: the places of what it says."""
    said: dict[int, list[int]] = {}
    for index, piece in enumerate(pieces):
        message = message_of(piece.origin)
        if message is not None and piece.origin in said_by(message):
            said.setdefault(message, []).append(index)
    return said


def _place(
    pieces: Sequence[Piece], message: int, found: Sequence[int], spellings: tuple[str, ...]
) -> tuple[int, int] | None:
    """Where what the message says begins, and the piece behind it: both neighbours are the template's own. A call may
    end in values that nobody's name is on, so its end is where a turn can end. found: the places of what it says."""
    own = said_by(message)
    if not found or found[0] == 0 or pieces[found[0] - 1].origin != SCAFFOLD:
        return None
    first, behind = found[0], found[-1] + 1
    if all(pieces[index].origin == content_of(message) for index in found):
        is_one = len(found) == 1 and (behind == len(pieces) or pieces[behind].origin == SCAFFOLD)
        return (first, behind) if is_one else None
    while behind < len(pieces) and pieces[behind].origin < 0:
        if pieces[behind].origin == SCAFFOLD and _end_of_turn(pieces[behind].text, spellings)[1]:
            break
        behind += 1
    else:
        if behind < len(pieces):
            return None  # another message's text before the turn's end: not this one's turn alone
    inside = pieces[first : found[-1]]
    return (first, behind) if all(piece.origin in own or piece.origin < 0 for piece in inside) else None


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


def _joined(pieces: Sequence[Piece], texts: Sequence[str], answers: Mapping[int, KnownAnswer]) -> Iterable[PromptPart]:
    gathered: list[tuple[str, int]] = []
    special = False
    for index, piece in enumerate(pieces):
        answer = answers.get(index)
        if answer is None and not texts[index]:
            continue
        if gathered and (answer is not None or piece.image is not None or special != is_scaffold(piece.origin)):
            yield _text_part(gathered, special)
            gathered = []
        if answer is not None:
            yield PromptPart(segment=IdsSegment(ids=answer.ids), origin=piece.origin, spelled=answer.spelled)
            continue
        if piece.image is not None:
            yield PromptPart(segment=piece.image)
            continue
        special = is_scaffold(piece.origin)
        gathered.append((texts[index], piece.origin))
    if gathered:
        yield _text_part(gathered, special)


def _text_part(gathered: Sequence[tuple[str, int]], special: bool) -> PromptPart:
    lengths = Counter[int]()
    for text, origin in gathered:
        lengths[origin] += len(text)
    ((most, _),) = lengths.most_common(1)
    segment = TextSegment(text="".join(text for text, _ in gathered), special=special)
    return PromptPart(segment=segment, origin=SCAFFOLD if special else most)
