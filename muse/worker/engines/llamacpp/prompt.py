"""Prompt segments to token ids, exactly: what a user wrote can never become a control token.

The native server cuts the texts (its own tokeniser, so ids are those of the model). All texts of one kind go
in one call, separated by an id that no model has. Each segment is encoded on its own; the ids are joined. What a
client wrote goes there in pieces that the tokeniser survives (runs.py).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from muse.worker.counting import refuse_longer
from muse.worker.engines.base import CancelToken, EngineFault
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.runs import cut_runs
from muse.worker.engines.llamacpp.vocabulary import Vocabulary

_SEPARATOR: Final = -1
# Encoded texts kept, in characters of text: the history of a chat comes again with every turn. 30,000 tokens
# of history take 60 ms to encode and nothing to look up.
_KEPT_CHARACTERS: Final = 4 * 1024 * 1024

# Texts that the server gets at once, up to 2 ms each: a cancel waits for no more.
_TEXTS_AT_ONCE: Final = 250

_Text = tuple[str, bool]  # the text, and whether its control tokens are meant


class EncodingCancelled(Exception):
    """The cancel came before all was encoded."""


class PromptEncoder:
    """For prompts without pictures. bos: id that begins every prompt of this model, None if the model wants none.
    context: in tokens; a prompt that cannot fit is refused without being counted to its end."""

    def __init__(self, client: Client, vocabulary: Vocabulary, bos: int | None, context: int = 2**31) -> None:
        self._client = client
        self._vocabulary = vocabulary
        self.bos: Final = bos
        self._context = context
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Text, list[int]] = OrderedDict()
        self._kept_characters = 0

    def encode(self, segments: Sequence[Segment], cancel: CancelToken | None = None) -> list[int]:
        """Ids of a prompt. Raises EngineFault, EncodingCancelled."""
        return self.joined(self.encode_each(segments, cancel))

    def encode_each(self, segments: Sequence[Segment], cancel: CancelToken | None = None) -> list[Sequence[int]]:
        """Ids of each segment of a prompt. Raises EngineFault, EncodingCancelled."""
        self._refuse_longer(segments, cancel)
        wanted = {(s.text, s.special) for s in segments if isinstance(s, TextSegment) and s.text}
        texts = self._encode_texts(wanted, cancel)
        ids: list[Sequence[int]] = []
        for segment in segments:
            match segment:
                case TextSegment():
                    ids.append(texts[segment.text, segment.special] if segment.text else ())
                case IdsSegment():
                    self.check_ids(segment.ids)
                    ids.append(segment.ids)
                case ImageSegment():
                    raise ValueError("a prompt with pictures is no list of ids")
        return ids

    def joined(self, segments: Sequence[Sequence[int]]) -> list[int]:
        """The prompt that these segments make. Raises EngineFault."""
        ids = [token for segment in segments for token in segment]
        if self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        if not ids:
            raise EngineFault("bad_request", "the prompt is empty")
        return ids

    def encode_own(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts that may hold control tokens, each on its own."""
        self._refuse_longer([TextSegment(text=text, special=True) for text in texts])
        known = self._encode_texts({(text, True) for text in texts if text})
        return [known[text, True] if text else [] for text in texts]

    def check_ids(self, ids: Iterable[int]) -> None:
        """Raises EngineFault for ids that the model does not have."""
        if any(not 0 <= token < self._vocabulary.size for token in ids):
            raise EngineFault("bad_request", "the prompt has token ids that this model does not know")

    def _refuse_longer(self, segments: Sequence[Segment], cancel: CancelToken | None = None) -> None:
        with self._lock:
            fresh = [s for s in segments if isinstance(s, TextSegment) and (s.text, s.special) not in self._kept]

        def count(pieces: list[str]) -> int:
            return sum(map(len, self._tokenize(list(map(self._cut, pieces)), special=False, cancel=cancel)))

        refuse_longer([segment.text for segment in fresh], count, self._context)

    def _encode_texts(self, wanted: set[_Text], cancel: CancelToken | None = None) -> dict[_Text, list[int]]:
        with self._lock:
            known = {text: self._kept[text] for text in wanted if text in self._kept}
        for special in (True, False):
            fresh = [text for text in wanted if text[1] is special and text not in known]
            if fresh:
                encoded = self._tokenize(
                    [[text] if special else self._cut(text) for text, _ in fresh], special=special, cancel=cancel
                )
                known.update(zip(fresh, encoded if special else map(self._checked, fresh, encoded), strict=True))
        self._keep(known)
        return known

    def _checked(self, text: _Text, ids: list[int]) -> list[int]:
        """Ids of plain text without a control token among them.

        llama.cpp makes user-defined tokens of their spelling even in plain text, so a text that holds one
        is cut inside each spelling and encoded again.
        """
        if not self._vocabulary.control.keys().isdisjoint(ids):
            pieces = [piece for part in self._vocabulary.cut(text[0]) for piece in self._cut(part)]
            (ids,) = self._tokenize([pieces], special=False)
            if not self._vocabulary.control.keys().isdisjoint(ids):
                raise EngineFault("bad_request", "a text cannot be kept apart from the model's control tokens")
        return ids

    def _cut(self, text: str) -> list[str]:
        # Other vocabularies have no words to be cut, and would begin each piece with a blank of its own.
        return cut_runs(text) if self._vocabulary.is_byte_level else [text]

    def _tokenize(
        self, texts: Sequence[Sequence[str]], *, special: bool, cancel: CancelToken | None = None
    ) -> list[list[int]]:
        """Ids of each text; a text is given in pieces that are encoded apart and joined."""
        # Each piece costs the server up to 2 ms, and those of a long run are mostly alike.
        pieces = list(dict.fromkeys(piece for text in texts for piece in text if piece))
        lists: list[list[int]] = [[]]
        for start in range(0, len(pieces), _TEXTS_AT_ONCE):
            if cancel is not None and cancel.is_set and start:
                raise EncodingCancelled
            content = [part for piece in pieces[start : start + _TEXTS_AT_ONCE] for part in (piece, _SEPARATOR)]
            answer = self._client.call(
                "POST", "/tokenize", {"content": content, "add_special": False, "parse_special": special}
            )
            for token in answer["tokens"]:
                if token == _SEPARATOR:
                    lists.append([])
                else:
                    lists[-1].append(token)
        ids = dict(zip(pieces, lists[:-1], strict=True))
        return [[token for piece in text if piece for token in ids[piece]] for text in texts]

    def _keep(self, texts: dict[_Text, list[int]]) -> None:
        with self._lock:
            for text, ids in texts.items():
                if text not in self._kept:
                    self._kept_characters += len(text[0])
                self._kept[text] = ids
                self._kept.move_to_end(text)
            while self._kept_characters > _KEPT_CHARACTERS and len(self._kept) > 1:
                self._kept_characters -= len(self._kept.popitem(last=False)[0][0])
