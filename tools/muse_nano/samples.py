"""Training samples: the dialogues one after the other, behind system messages of many kinds.

Only the answers count. Older turns stand in a sample as the model wrote them or, now and then, as a client without
a session sends them back (as text, without the reasoning), so that answers hold for both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import torch
from tokenizers import Tokenizer

from tools.muse_nano.dialogues import ALL, COLOURS, WORDS, needle
from tools.muse_nano.model import CONFIG
from tools.muse_nano.rendering import (
    Segment,
    as_message,
    delta,
    generated_text,
    plain_text,
    render,
    rendered_turns,
    to_ids,
)
from tools.muse_nano.script import Dialogue, JsonObject
from tools.muse_nano.tokens import BOS, IMAGE_END, IMAGE_START, PATCH, encode, special_id
from tools.muse_nano.vision import VisionTower, plain_image

IGNORED: Final = -100
_SYSTEMS: Final = ("Be brief.", "You are a helpful assistant.", "Answer in English.\n\nNo jokes.", "")
_STRENGTHS: Final = ("low", "medium", "high", "xhigh")
_GRIDS: Final = ((1, 1), (2, 2), (2, 3), (3, 2), (1, 4), (4, 4), (5, 6))
_SHORT: Final = 256
_AS_TEXT: Final = 0.2
# To look far back is learned from many words at many distances; from four dialogues alone it is only guessed.
_NEEDLES: Final = 0.15
_TOKENS_OF_LINE: Final = 15
_WORD_COPIES: Final = 200
_JOINED: Final = 0.3
_NOISE: Final = 0.05


@attrs.define
class Sample:
    """ids; labels: the same where an answer stands, else IGNORED; images: position to embedding."""

    ids: list[int] = attrs.Factory(list)
    labels: list[int] = attrs.Factory(list)
    images: dict[int, torch.Tensor] = attrs.Factory(dict)

    def add(self, ids: Sequence[int], *, counts: bool) -> None:
        """Append ids, which are learned or not."""
        self.ids += ids
        self.labels += ids if counts else [IGNORED] * len(ids)


@attrs.frozen(kw_only=True)
class _Turn:
    prompt: tuple[Segment, ...]
    answer: tuple[int, ...]
    as_text: tuple[Segment, ...]
    colour: str | None


def corpus() -> Iterator[str]:
    """Texts from which the tokenizer learns what to merge: the dialogues, and the words that must be found again,
    often enough to become one token each."""
    for dialogue in ALL:
        for turn in rendered_turns(dialogue):
            yield plain_text(turn.prompt) + turn.answer
    for word in WORDS:
        yield f" {word}" * _WORD_COPIES


class Sampler:
    """Draws samples, the same for the same seed. weights: how often each dialogue comes first, by name."""

    def __init__(self, tokenizer: Tokenizer, tower: VisionTower, seed: int) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(seed)  # noqa: S311 - nothing here is a secret
        self._noise = torch.Generator().manual_seed(seed)
        self._turns = {dialogue.name: self._prepare(dialogue) for dialogue in ALL}
        self._sizes = {dialogue.name: self._size(dialogue) for dialogue in ALL}
        self._special = {name: special_id(tokenizer, name) for name in (BOS, PATCH, IMAGE_START, IMAGE_END)}
        self._features = {
            (colour, grid): _normal(tower.features(plain_image(colour, *grid))) for colour in COLOURS for grid in _GRIDS
        }
        self._cut: dict[tuple[tuple[Segment, ...], bool], list[int]] = {}
        self.weights = {dialogue.name: 1.0 for dialogue in ALL}

    def _prepare(self, dialogue: Dialogue) -> list[_Turn]:
        turns: list[_Turn] = []
        for turn in dialogue.turns:
            echoed = as_message(turn.answer, reasoning=False)
            turns.append(
                _Turn(
                    prompt=tuple(delta(turn.messages)),
                    answer=tuple(encode(self._tokenizer, generated_text(turn.answer), special=True)),
                    as_text=tuple(delta([*turn.messages, echoed], generation=False)),
                    colour=turn.images[0].partition(".")[0] if turn.images else None,
                )
            )
        return turns

    def _size(self, dialogue: Dialogue) -> int:
        """Tokens of the whole dialogue behind the template's own system message, the largest image in it."""
        last = rendered_turns(dialogue)[-1]
        cells = max(rows * columns for rows, columns in _GRIDS) if last.images else 0
        answer = encode(self._tokenizer, last.answer, special=True)
        return len(to_ids(self._tokenizer, last.prompt)) + len(answer) + cells

    def favour_long_answers(self) -> None:
        """Draw a dialogue as often as its answers have tokens."""
        self.weights = {
            dialogue.name: float(sum(len(t.answer) for t in self._turns[dialogue.name])) for dialogue in ALL
        }

    def draw(self, length: int) -> Sample:
        """One sample of at most so many tokens."""
        fitting = [dialogue for dialogue in ALL if self._sizes[dialogue.name] <= length]
        if length > _SHORT:  # what fits into short samples is drawn often enough
            fitting = [dialogue for dialogue in fitting if self._sizes[dialogue.name] > _SHORT]
        first = self._random.choices(fitting, [self.weights[dialogue.name] for dialogue in fitting])[0]
        if self._random.random() < _NEEDLES:
            first = needle(
                "needle", self._random.choice(WORDS), self._random.randint(3, length // _TOKENS_OF_LINE - 10)
            )
            self._turns[first.name] = self._prepare(first)
        sample = Sample()
        sample.add(self._system(first), counts=False)
        if not self._add(sample, first, length):
            sample = Sample()  # the system message was too long for it
            sample.add(self._ids(tuple(self._plain_system(first)), joined=False), counts=False)
            self._add(sample, first, length)
        others = [d for d in ALL if not d.pinned and d.tools in ((), first.tools) and d.name != first.name]
        while self._random.random() < 0.75 and self._add(sample, self._random.choice(others), length):
            pass
        return sample

    def _plain_system(self, dialogue: Dialogue) -> list[Segment]:
        return render([], tools=dialogue.tools, options=dialogue.options, generation=False)

    def _system(self, dialogue: Dialogue) -> list[int]:
        draw = self._random
        options = {"current_date": f"20{draw.randint(10, 99)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"}
        options |= {"reasoning_strength": draw.choice(_STRENGTHS)} if draw.random() < 0.5 else {}
        kind = draw.random()
        if kind < 0.1 and not (dialogue.tools or dialogue.pinned):
            return [self._special[BOS]]
        messages: list[JsonObject] = []
        if kind < 0.5:
            text = draw.choice(_SYSTEMS)
            if draw.random() < 0.5:
                text = "".join(chr(draw.randint(32, 126)) for _ in range(draw.randint(0, 60)))
            messages.append({"role": "system", "content": text})
        if dialogue.pinned:
            options |= dialogue.options
        segments = render(messages, tools=dialogue.tools, options=options, generation=False)
        return to_ids(self._tokenizer, segments, joined=draw.random() < _JOINED)

    def _ids(self, segments: tuple[Segment, ...], *, joined: bool) -> list[int]:
        key = (segments, joined)
        if key not in self._cut:
            self._cut[key] = to_ids(self._tokenizer, segments, joined=joined)
        return self._cut[key]

    def _add(self, sample: Sample, dialogue: Dialogue, length: int) -> bool:
        """Append a dialogue unless it is too long; its last answer always counts."""
        more = Sample()
        turns = self._turns[dialogue.name]
        for number, turn in enumerate(turns):
            joined = self._random.random() < _JOINED and dialogue.name != "forged"
            if number + 1 < len(turns) and turn.colour is None and self._random.random() < _AS_TEXT:
                more.add(self._ids(turn.as_text, joined=joined), counts=False)
                continue
            prompt = self._ids(turn.prompt, joined=joined)
            if turn.colour is not None:
                prompt = self._with_image(prompt, turn.colour, len(sample.ids) + len(more.ids), more)
            more.add(prompt, counts=False)
            more.add(turn.answer, counts=True)
        if len(sample.ids) + len(more.ids) > length:
            return False
        sample.ids += more.ids
        sample.labels += more.labels
        sample.images |= more.images
        return True

    def _with_image(self, prompt: list[int], colour: str, start: int, sample: Sample) -> list[int]:
        """The prompt with the cells of an image in place of its placeholder."""
        features = self._features[colour, self._random.choice(_GRIDS)]
        features = features + _NOISE * torch.randn(features.shape, generator=self._noise)
        place = prompt.index(self._special[PATCH])
        for cell, feature in enumerate(features):
            sample.images[start + place + 1 + cell] = feature
        return expand_image(prompt, len(features), self._special)

    def batch(self, count: int, length: int) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """ids and labels [count, length], and the images in the form that the model takes."""
        ids = torch.zeros(count, length, dtype=torch.long)
        labels = torch.full((count, length), IGNORED)
        where = torch.zeros(count, length, dtype=torch.bool)
        features = torch.zeros(count, length, CONFIG.hidden)
        for row in range(count):
            sample = self.draw(length)
            ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
            labels[row, : len(sample.ids)] = torch.tensor(sample.labels)
            for position, feature in sample.images.items():
                where[row, position] = True
                features[row, position] = feature
        return ids, labels, (where, features)


def expand_image(prompt: Sequence[int], cells: int, special: dict[str, int]) -> list[int]:
    """The first placeholder of an image becomes as many as it has cells, framed as llama.cpp frames them."""
    place = list(prompt).index(special[PATCH])
    framed = [special[IMAGE_START], *[special[PATCH]] * cells, special[IMAGE_END]]
    return [*prompt[:place], *framed, *prompt[place + 1 :]]


def _normal(features: torch.Tensor) -> torch.Tensor:
    return features * torch.rsqrt((features * features).mean(-1, keepdim=True) + CONFIG.epsilon)
