"""Prompts with pictures, in the one form that the native server takes: a text with a marker for each picture.

Token ids cannot stand beside pictures there, and control tokens are read from the whole text. So ids are spelled out,
and cut into tokens again, perhaps into others. And a text of a client, or one that the model wrote, that spells a
control token would become it: that is refused by name.

What a slot will hold is foretold all the same, by the server's own tokeniser and the rule of picture_size.py. A
picture is written there as a run of one negative number, which stands for its content and size.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import attrs

from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from muse.worker.engines.base import CancelToken, EngineFault
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.runs import LONGEST_RUN, has_long_run
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.picture_fit import ScaledPicture, blamed_on, fit_pictures
from muse.worker.picture_size import MOST_CELLS
from muse.worker.pictures import Pictures, Sized

_KEPT_RUNS: Final = 256


@attrs.frozen(kw_only=True)
class PicturePrompt:
    """ids: what a slot holds when all is evaluated. places: where in them each picture stands. text: with a marker for
    each picture. segment_tokens: of each segment, the tokens that begin in it; None: cannot be told."""

    ids: list[int]
    segment_tokens: tuple[int, ...] | None
    places: tuple[range, ...]
    text: str
    pictures: tuple[ScaledPicture, ...]

    @property
    def scaled(self) -> int:
        """How many pictures are smaller than the model could see them."""
        return sum(picture.is_smaller for picture in self.pictures)


@attrs.frozen(kw_only=True)
class _Stretch:
    """What stands between two pictures. lengths: bytes of each segment in the text."""

    text: str
    lengths: tuple[int, ...]


class PicturePromptEncoder:
    """marker: stands for a picture in the text. bos_text: how the token is spelled that begins every prompt."""

    def __init__(
        self,
        *,
        client: Client,
        encoder: PromptEncoder,
        vocabulary: Vocabulary,
        marker: str,
        bos_text: str,
        context: int,
    ) -> None:
        self._client = client
        self._encoder = encoder
        self._vocabulary = vocabulary
        self._pictures = Pictures()
        self._marker = marker
        self._bos_text = bos_text
        self._context = context
        self._spelled_runs: OrderedDict[tuple[int, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, segments: Sequence[Segment]) -> PicturePrompt:
        """The prompt, its pictures looked at but not decoded. Raises EngineFault."""
        images = [segment for segment in segments if isinstance(segment, ImageSegment)]
        sizes: list[Sized] = []
        for number, image in enumerate(images):
            with blamed_on(number):
                sizes.append(self._pictures.size(image))
        stretches = list(self._stretches(segments))
        texts = [stretch.text for stretch in stretches]
        is_spelled = self._encoder.bos is not None and texts[0].startswith(self._bos_text)
        if is_spelled:
            # The server puts it before every text itself.
            texts[0] = texts[0].removeprefix(self._bos_text)
        encoded = self._encoder.encode_own(texts)
        if self._encoder.bos is not None:
            encoded[0] = [self._encoder.bos, *encoded[0]]
        scaled = fit_pictures(sizes, text_tokens=sum(map(len, encoded)), context=self._context, most_cells=MOST_CELLS)
        ids, places = list(encoded[0]), list[range]()
        for picture, stretch in zip(scaled, encoded[1:], strict=True):
            places.append(range(len(ids), len(ids) + picture.tokens))
            ids += [picture.key] * picture.tokens
            ids += stretch
        if self._encoder.bos is not None and not is_spelled:
            encoded[0] = encoded[0][1:]  # of no segment
        return PicturePrompt(
            ids=ids,
            places=tuple(places),
            segment_tokens=self._segment_tokens(stretches, encoded, scaled),
            text=self._marker.join(texts),
            pictures=tuple(scaled),
        )

    def native(self, prompt: PicturePrompt, cancel: CancelToken) -> dict[str, object]:
        """The prompt as the native server takes it; worthless when the cancel came. Raises EngineFault."""
        files: list[str] = []
        for number, picture in enumerate(prompt.pictures):
            if cancel.is_set:
                break
            with blamed_on(number):
                files.append(self._pictures.scaled(picture.sized.segment, picture.rows, picture.columns))
        return {"prompt_string": prompt.text, "multimodal_data": files}

    def _stretches(self, segments: Iterable[Segment]) -> Iterator[_Stretch]:
        """What stands before, between and behind the pictures."""
        pieces: list[tuple[str, bool]] = []
        lengths: list[int] = []
        for segment in segments:
            match segment:
                case TextSegment():
                    more = [(segment.text, segment.special)]
                case IdsSegment():
                    more = list(self._spelled(segment.ids))
                case ImageSegment():
                    yield _Stretch(text=self._checked(pieces), lengths=tuple(lengths))
                    pieces, lengths = [], []
                    continue
            pieces += more
            lengths.append(sum(len(text.encode("utf-8", "replace")) for text, _ in more))
        yield _Stretch(text=self._checked(pieces), lengths=tuple(lengths))

    def _segment_tokens(
        self, stretches: Sequence[_Stretch], encoded: Sequence[Sequence[int]], pictures: Sequence[ScaledPicture]
    ) -> tuple[int, ...] | None:
        """Where the segments' seams are is only known in bytes: a token that crosses one counts where it begins."""
        if not self._vocabulary.is_byte_level:
            return None
        counts: list[int] = []
        for number, (stretch, ids) in enumerate(zip(stretches, encoded, strict=True)):
            if number:
                counts.append(pictures[number - 1].tokens)
            begun = [0] * len(stretch.lengths)
            ends = list(accumulate(stretch.lengths))
            position, whole = 0, sum(stretch.lengths)
            for token in ids:
                if position >= whole:
                    return None
                begun[bisect_right(ends, position)] += 1
                position += self._vocabulary.length(token)
            if position != whole:
                return None
            counts += begun
        return tuple(counts)

    def _spelled(self, ids: Sequence[int]) -> Iterator[tuple[str, bool]]:
        """Control tokens apart from what is between them."""
        self._encoder.check_ids(ids)
        start = 0
        for position, token in enumerate(ids):
            if token in self._vocabulary.control:
                yield self._spell(ids[start:position]), False
                yield self._vocabulary.control[token], True
                start = position + 1
        yield self._spell(ids[start:]), False

    def _spell(self, ids: Sequence[int]) -> str:
        """What a run of ids without control tokens stands for; answers come again with every turn."""
        run = tuple(ids)
        if not run:
            return ""
        with self._lock:
            text = self._spelled_runs.get(run)
        if text is None:
            text = str(self._client.call("POST", "/detokenize", {"tokens": run})["content"])
        with self._lock:
            self._spelled_runs[run] = text
            self._spelled_runs.move_to_end(run)
            if len(self._spelled_runs) > _KEPT_RUNS:
                self._spelled_runs.popitem(last=False)
        return text

    def _checked(self, pieces: Iterable[tuple[str, bool]]) -> str:
        """The pieces as one text, in which nothing but the template's own becomes a control token."""
        texts: list[str] = []
        starts, ends = list[int](), list[int]()  # of what is the template's own
        length = 0
        for piece, special in pieces:
            if special and ends and ends[-1] == length:
                ends[-1] += len(piece)
            elif special:
                starts.append(length)
                ends.append(length + len(piece))
            texts.append(piece)
            length += len(piece)
        text = "".join(texts)

        def is_own(found: re.Match[str]) -> bool:
            place = bisect_right(starts, found.start()) - 1
            return place >= 0 and found.end(1) <= ends[place]

        forged = next((found for found in self._vocabulary.spellings(text) if not is_own(found)), None)
        if forged is not None:
            raise EngineFault(
                "bad_request",
                f"a text of this conversation spells the control token {forged[1]!r}, and beside pictures this engine "
                "cannot tell the two apart: change that spelling, or leave the pictures out",
            )
        if self._marker in text:
            raise EngineFault("bad_request", "a text of this conversation holds the engine's marker of a picture")
        if self._vocabulary.is_byte_level and has_long_run(text):
            raise EngineFault(
                "bad_request",
                f"a text of this conversation has more than {LONGEST_RUN} letters, digits, symbols or blanks in a row, "
                "and beside pictures this engine cannot take them: break them up, or leave the pictures out",
            )
        return text
