"""Prompt segments as token ids, for a program that takes ids and one picture.

Every text is cut into tokens here, a client's without control tokens, and sent as ids: in a text the program would make
control tokens of their spelling (contracts/worker-protocol.md section 3.1). A picture is scaled here, so that the
program takes it as it is, and stands among the ids as a run of one negative number that is made of its content and
size; the program itself tells two pictures of one size not apart. It is framed as the model's own processor frames it
(contracts/vision.md section 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from muse.worker.counting import refuse_longer
from muse.worker.engines.base import EngineFault
from muse.worker.engines.native.artifact import Artifact
from muse.worker.engines.native.wire import ids_segment, image_segment
from muse.worker.picture_fit import ScaledPicture, blamed_on, fit_pictures
from muse.worker.pictures import Pictures, Sized

_PICTURE: Final = ("<|image_start|>", "<|patch|>", "<|image_end|>")
_NO_TOKENS: Final = (0, 0, 0)
"""Of a model that reads no pictures, whose prompts have none."""


@attrs.frozen(kw_only=True)
class Place:
    """A picture of a prompt. start, stop: its patches among the ids."""

    picture: ScaledPicture
    start: int
    stop: int


@attrs.frozen(kw_only=True)
class Prompt:
    """ids: what is resident when all is evaluated, with the token that begins every prompt. places: its pictures."""

    ids: list[int]
    segment_tokens: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def scaled(self) -> int:
        """How many pictures are smaller than the model could see them."""
        return sum(place.picture.is_smaller for place in self.places)


class PromptEncoder:
    """sees: the loaded artifact can read pictures."""

    def __init__(self, artifact: Artifact, *, sees: bool) -> None:
        tokenizer = self._tokenizer = artifact.tokenizer
        self._context = artifact.context
        self._begin = tokenizer.begin
        found = [tokenizer.id_of(spelling) for spelling in _PICTURE]
        tokens = [token for token in found if token is not None]
        self._picture_tokens = tokens if sees and len(tokens) == len(found) else None
        self._most_cells = artifact.most_cells
        self._pictures = Pictures()

    def encode(self, segments: Sequence[Segment]) -> Prompt:
        """Ids of a prompt. Raises EngineFault."""
        sizes = self._sizes(segments)
        start, _, end = self._picture_tokens or _NO_TOKENS
        plain = [segment.text for segment in segments if isinstance(segment, TextSegment)]
        refuse_longer(plain, self._tokenizer.count, self._context)
        texts = {number: self._encode_one(segment) for number, segment in enumerate(segments)}
        text_tokens = sum(map(len, texts.values()))
        left = iter(fit_pictures(sizes, text_tokens=text_tokens, context=self._context, most_cells=self._most_cells))
        ids: list[int] = []
        counts: list[int] = []
        places: list[Place] = []
        for number, segment in enumerate(segments):
            before = len(ids)
            if isinstance(segment, ImageSegment):
                picture = next(left)
                ids.append(start)
                places.append(Place(picture=picture, start=len(ids), stop=len(ids) + picture.rows * picture.columns))
                ids += [picture.key] * (places[-1].stop - places[-1].start)
                ids.append(end)
            else:
                ids += texts[number]
            counts.append(len(ids) - before)
        if ids[:1] != [self._begin]:
            ids.insert(0, self._begin)
            places = [attrs.evolve(place, start=place.start + 1, stop=place.stop + 1) for place in places]
        if len(ids) == 1:
            raise EngineFault("bad_request", "the prompt is empty")
        return Prompt(ids=ids, segment_tokens=tuple(counts), places=tuple(places))

    def native(self, prompt: Prompt, *, resident: int) -> list[dict[str, Any]]:
        """The prompt as the program takes it: without the token that it puts before every prompt itself. resident: how
        many of its tokens are there already; a picture behind them goes as a picture. Raises EngineFault."""
        segments: list[dict[str, Any]] = []
        done = 1
        ids = prompt.ids
        sent = [number for number, place in enumerate(prompt.places) if place.start >= resident]
        if len(sent) > 1 or (sent and resident):
            # Whoever calls this has to see to it that nothing is resident then.
            raise ValueError("the program takes one picture, and only with a prompt from its beginning")
        _, patch, _ = self._picture_tokens or _NO_TOKENS
        plain = [patch if token < 0 else token for token in ids]
        for number in sent:
            place = prompt.places[number]
            if place.start > done:
                segments.append(ids_segment(plain[done : place.start]))
            with blamed_on(number):
                picture = place.picture
                data = self._pictures.scaled(picture.sized.segment, picture.rows, picture.columns)
            segments.append(image_segment(data))
            done = place.stop
        if done < len(ids):
            segments.append(ids_segment(plain[done:]))
        return segments

    def _sizes(self, segments: Sequence[Segment]) -> list[Sized]:
        sizes: list[Sized] = []
        for number, image in enumerate(segment for segment in segments if isinstance(segment, ImageSegment)):
            if self._picture_tokens is None:
                raise EngineFault("unsupported", "this native worker, or its artifact, reads no pictures", image=number)
            with blamed_on(number):
                sizes.append(self._pictures.size(image))
        return sizes

    def _encode_one(self, segment: Segment) -> Sequence[int]:
        match segment:
            case TextSegment():
                return self._tokenizer.encode(segment.text, special=segment.special)
            case IdsSegment():
                self._tokenizer.check(segment.ids)
                return segment.ids
            case ImageSegment():
                return ()
