"""Pictures in rendered conversations: where a template wants them, and what may not stand beside them.

A template writes a marker for each part of type `image`. Only the marker of Muse is known, `<|patch|>`: templates of
other models write beginnings and ends around theirs, which an engine writes itself. The markers are looked for in the
template's own text alone, so a client that spells one has written text; and there must be one for each picture, in
their order: a template that leaves a picture out is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from muse.api.images import PlacedImage
from muse.api.message import Message, content_parts
from muse.chat.marked_text import SCAFFOLD, from_source, scaffold
from muse.chat.origins import content_of
from muse.chat.splice import Piece
from muse.errors import ClientFault
from muse.protocol import ImageSegment

MARKER: Final = "<|patch|>"


def pictures_in(messages: Sequence[Message]) -> Iterator[tuple[int, PlacedImage]]:
    """All pictures of a conversation in their order, each with the index of its message."""
    for index, message in enumerate(messages):
        for image in message.images:
            yield index, image


def path_of_picture(messages: Sequence[Message], number: int) -> str:
    """Where in a request its picture of this number stands, from 0."""
    index = [index for index, _ in pictures_in(messages)][number]
    return f"messages[{index}].content"


def marked_parts(index: int, message: Message) -> list[dict[str, str]]:
    """What a template gets as the content of a message with pictures."""
    return [
        {"type": scaffold("text"), "text": from_source(part, content_of(index))}
        if isinstance(part, str)
        else {"type": scaffold("image")}
        for part in content_parts(message)
    ]


def place_pictures(pieces: Sequence[Piece], messages: Sequence[Message]) -> list[Piece]:
    """Cut the markers out of the template's own pieces and put the pictures there. Raises ClientFault
    `message_dropped`."""
    images = [image.picture for _, image in pictures_in(messages)]
    places = sum(piece.text.count(MARKER) for piece in pieces if piece.origin == SCAFFOLD)
    if places != len(images):
        raise ClientFault(
            "message_dropped",
            f"The model's chat template has {places} places for the {len(images)} pictures of this conversation.",
            param="messages",
        )
    left = iter(images)
    placed: list[Piece] = []
    for piece in pieces:
        texts = piece.text.split(MARKER) if piece.origin == SCAFFOLD else [piece.text]
        for number, text in enumerate(texts):
            if number:
                picture = next(left)
                image = ImageSegment(image=picture.base64, sha256=picture.sha256)
                placed.append(attrs.evolve(piece, text=MARKER, image=image))
            if text:
                placed.append(attrs.evolve(piece, text=text))
    return placed


def no_place_for(index: int) -> ClientFault:
    """The first message with pictures, for a template without a marker that is known."""
    return ClientFault(
        "unsupported_parameter",
        f"This model's chat template has no place for pictures, as in 'messages[{index}]'.",
        param=f"messages[{index}].content",
    )


def spelled_token(index: int, member: str, token: str) -> ClientFault:
    """A text that an engine would take for a control token, because it reads pictures and text from one string."""
    path = f"messages[{index}].{member}"
    return ClientFault(
        "control_token",
        f"'{path}' spells the control token {token!r}. In a conversation with pictures the engine of this server "
        "cannot tell such a text from the token itself: change the spelling, or leave the pictures out.",
        param=path,
    )
