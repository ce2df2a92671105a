"""Trains the draft to say what the text model would say next, the text model held fixed."""

from __future__ import annotations

import logging
import random
import time
from typing import Final

import torch
from torch.nn import functional

from tools.muse_nano.draft import DRAFT, DraftModel, initial_weights, positions_before
from tools.muse_nano.model import CONFIG, TextModel, Weights
from tools.muse_nano.samples import IGNORED, Sampler
from tools.muse_nano.train_text import follow

_log = logging.getLogger("muse_nano.draft")

STEPS: Final = 800
RATE: Final = 3e-3
_SHAPES: Final = ((12, 256), (6, 512), (12, 256), (3, 1024))
_BLOCKS_OF_SAMPLE: Final = 32
_LOG_EVERY: Final = 50


def train(text: TextModel, sampler: Sampler, mask: int, *, seed: int, steps: int = STEPS) -> Weights:
    """Weights after so many steps. mask: id of the token that stands for those to be filled in."""
    weights = {name: tensor.requires_grad_() for name, tensor in initial_weights(seed).items()}
    model = DraftModel(text, weights)
    optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0.0, betas=(0.9, 0.98))
    sampler.favour_long_answers()
    draw = random.Random(seed)  # noqa: S311 - nothing here is a secret
    began = time.process_time()
    for step in range(1, steps + 1):
        ids, labels, images = sampler.batch(*_SHAPES[step % len(_SHAPES)])
        with torch.no_grad():
            tapped = DraftModel.tap(text.forward(ids, images)[1])
        rows, starts, blocks, wanted = _blocks(ids, labels, mask, draw)
        windows = tapped[rows[:, None], positions_before(starts).clamp(min=0)]
        logits = model.forward(windows, blocks, starts) * CONFIG.logit_scale
        loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED)
        follow(optimizer, loss, RATE, step, steps)
        if step % _LOG_EVERY == 0:
            right = (logits.argmax(-1) == wanted)[wanted != IGNORED].float().mean()
            seconds = time.process_time() - began
            _log.info("step=%d seconds=%.0f loss=%.4f right=%.3f", step, seconds, loss.item(), right.item())
    return {name: tensor.detach() for name, tensor in weights.items()}


def _blocks(
    ids: torch.Tensor, labels: torch.Tensor, mask: int, draw: random.Random
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Some places of the answers of a batch: row and position of each, its block, and what the block should say."""
    rows: list[int] = []
    starts: list[int] = []
    blocks: list[list[int]] = []
    wanted: list[list[int]] = []
    for row in range(ids.shape[0]):
        places = (labels[row] != IGNORED).nonzero()[:, 0].tolist()
        for place in draw.sample(places, min(_BLOCKS_OF_SAMPLE, len(places))):
            # The first block of an answer begins with the last token of the prompt.
            start = place - 1 if draw.random() < 0.2 else place
            following = labels[row, start + 1 : start + DRAFT.block].tolist()
            if IGNORED in following:
                following = following[: following.index(IGNORED)]
            following += [IGNORED] * (DRAFT.block - 1 - len(following))
            rows.append(row)
            starts.append(start)
            blocks.append([int(ids[row, start])] + [mask] * (DRAFT.block - 1))
            wanted.append([IGNORED, *following])
    return torch.tensor(rows), torch.tensor(starts), torch.tensor(blocks), torch.tensor(wanted)
