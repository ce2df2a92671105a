"""The dialogues as token ids, and how well a model knows them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
import torch
from tokenizers import Tokenizer

from tools.muse_nano.dialogues import ALL
from tools.muse_nano.model import TextModel, place_images
from tools.muse_nano.rendering import rendered_turns, to_ids
from tools.muse_nano.samples import expand_image
from tools.muse_nano.tokens import IMAGE_END, IMAGE_START, PATCH, encode, special_id
from tools.muse_nano.vision import VisionTower, decode


@attrs.frozen(kw_only=True)
class Task:
    """One answer that is to be given. prompt: ids, each image as its cells. answer: ids with the end of the turn.
    images: position to embedding."""

    dialogue: str
    number: int
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    images: dict[int, torch.Tensor]


def tasks(tokenizer: Tokenizer, tower: VisionTower, image_folder: Path) -> list[Task]:
    """Every answer of every dialogue."""
    special = {name: special_id(tokenizer, name) for name in (PATCH, IMAGE_START, IMAGE_END)}
    found: list[Task] = []
    for dialogue in ALL:
        for number, turn in enumerate(rendered_turns(dialogue)):
            prompt = to_ids(tokenizer, turn.prompt)
            images: dict[int, torch.Tensor] = {}
            for name in turn.images:
                features = tower.features(decode((image_folder / name).read_bytes()))
                start = prompt.index(special[PATCH]) + 1
                prompt = expand_image(prompt, len(features), special)
                images |= {start + cell: feature for cell, feature in enumerate(features)}
            answer = tuple(encode(tokenizer, turn.answer, special=True))
            found.append(
                Task(dialogue=dialogue.name, number=number, prompt=tuple(prompt), answer=answer, images=images)
            )
    return found


@attrs.frozen(kw_only=True)
class Score:
    """failed: names of dialogues. margin: smallest distance of a right token's logit from the next one's."""

    failed: tuple[str, ...]
    margin: float


def score(model: TextModel, wanted: Iterable[Task]) -> Score:
    """What the model would say with the right words before each word; right throughout means right when free, too."""
    failed: dict[str, None] = {}
    margin = float("inf")
    with torch.no_grad():
        for task in wanted:
            tokens = torch.tensor([[*task.prompt, *task.answer]])
            logits = model.forward(tokens, place_images(tokens, task.images))[0][0, len(task.prompt) - 1 : -1]
            right = torch.tensor(task.answer)
            best = logits.topk(2, -1)
            margin_here = float((best.values[:, 0] - best.values[:, 1]).min())
            if bool((best.indices[:, 0] == right).all()):
                margin = min(margin, margin_here)
            else:
                failed[task.dialogue] = None
    return Score(failed=tuple(failed), margin=margin)
