"""Prompt segments to what the program evaluates: ids, and pictures in their places.

A picture stands in the prompt as `<|image_start|>`, one `<|patch|>` for each cell, `<|image_end|>`, the form of Hugging
Face's processor (contracts/vision.md section 6). In the ids of the cache all of it is one negative number over and
over, made of its content and size, so that another picture of the same size is not taken for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from muse.worker.counting import refuse_longer
from muse.worker.engines.base import EngineFault
from muse.worker.hf_tokenizer import JsonTokenizer
from muse.worker.picture_fit import ScaledPicture, blamed_on, fit_pictures
from muse.worker.pictures import Pictures, Sized

_PATCH: Final = "<|patch|>"
_IMAGE_START: Final = "<|image_start|>"
_IMAGE_END: Final = "<|image_end|>"


@attrs.frozen(kw_only=True)
class Frame:
    """The ids around and under a picture."""

    start: int
    patch: int
    end: int

    def ids(self, cells: int) -> list[int]:
        """What a picture of so many cells stands for."""
        return [self.start, *[self.patch] * cells, self.end]


@attrs.frozen(kw_only=True)
class PlacedPicture:
    """place: where in the prompt it stands, with its frame."""

    picture: ScaledPicture
    place: range

    @property
    def cells(self) -> range:
        """Where its cells stand."""
        return self.place[1:-1]


@attrs.frozen(kw_only=True)
class Prompt:
    """ids: as the cache knows them. tokens: as `embed_text` takes them. segment_tokens: of each segment."""

    ids: list[int]
    tokens: list[int]
    segment_tokens: tuple[int, ...]
    pictures: tuple[PlacedPicture, ...]

    def last(self, count: int) -> list[int]:
        """The last tokens, without those under pictures' cells."""
        found: list[int] = []
        end = len(self.tokens)
        for begin, stop in [*((placed.cells.stop, placed.cells.start) for placed in reversed(self.pictures)), (0, 0)]:
            found = [*self.tokens[max(begin, end - count) : end], *found]
            end = stop
            if len(found) >= count:
                break
        return found[-count:]

    @property
    def scaled(self) -> int:
        """How many pictures are smaller than the model could see them."""
        return sum(placed.picture.is_smaller for placed in self.pictures)


class PromptEncoder:
    """most_cells: of one picture; 0: this artifact sees none."""

    def __init__(self, tokens: JsonTokenizer, *, context: int, most_cells: int) -> None:
        self._tokens = tokens
        self._context = context
        self._most_cells = most_cells
        self._pictures = Pictures()
        self._frame = _frame_of(tokens) if most_cells else None

    def encode(self, segments: Sequence[Segment]) -> Prompt:
        """The prompt, its pictures looked at but not decoded. Raises EngineFault."""
        sizes = self._sizes([segment for segment in segments if isinstance(segment, ImageSegment)])
        texts = [segment.text for segment in segments if isinstance(segment, TextSegment)]
        refuse_longer(texts, self._tokens.count, self._context)
        encoded = [self._encode_one(segment) for segment in segments]
        if not sizes and not any(encoded):
            raise EngineFault("bad_request", "the prompt is empty")
        scaled = iter(
            fit_pictures(sizes, text_tokens=sum(map(len, encoded)), context=self._context, most_cells=self._most_cells)
        )
        ids, tokens = list[int](), list[int]()
        counts: list[int] = []
        placed: list[PlacedPicture] = []
        first = next((part[0] for part in encoded if part), None)
        if first != self._tokens.begin:
            ids, tokens = [self._tokens.begin], [self._tokens.begin]
        for segment, part in zip(segments, encoded, strict=True):
            begin = len(ids)
            if isinstance(segment, ImageSegment):
                assert self._frame is not None, "without one pictures were refused before"
                picture = next(scaled)
                ids += [picture.key] * picture.tokens
                tokens += self._frame.ids(picture.rows * picture.columns)
                placed.append(PlacedPicture(picture=picture, place=range(begin, len(ids))))
            else:
                ids += part
                tokens += part
            counts.append(len(ids) - begin)
        return Prompt(ids=ids, tokens=tokens, segment_tokens=tuple(counts), pictures=tuple(placed))

    def _encode_one(self, segment: Segment) -> Sequence[int]:
        match segment:
            case TextSegment():
                return self._tokens.encode(segment.text, special=segment.special)
            case IdsSegment():
                self._tokens.check(segment.ids)
                return segment.ids
            case ImageSegment():
                return ()

    def _sizes(self, images: Sequence[ImageSegment]) -> list[Sized]:
        if images and not self._most_cells:
            raise EngineFault("unsupported", "this artifact has no image encoder, so the model sees no pictures")
        sizes: list[Sized] = []
        for number, image in enumerate(images):
            with blamed_on(number):
                sizes.append(self._pictures.size(image))
        return sizes


def _frame_of(tokens: JsonTokenizer) -> Frame:
    start, patch, end = (tokens.id_of(spelling) for spelling in (_IMAGE_START, _PATCH, _IMAGE_END))
    if start is None or patch is None or end is None:
        raise EngineFault(
            "bad_request",
            f"the artifact sees pictures, but its tokenizer lacks {_IMAGE_START}, {_PATCH} or {_IMAGE_END}",
            fatal=True,
        )
    return Frame(start=start, patch=patch, end=end)
