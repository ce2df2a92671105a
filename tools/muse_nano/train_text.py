"""Trains the text model until it knows the dialogues by heart."""

from __future__ import annotations

import logging
import time
from typing import Final

import torch
from torch.nn import functional

from tools.muse_nano.model import CONFIG, TextModel, Weights, initial_weights
from tools.muse_nano.samples import IGNORED, Sampler
from tools.muse_nano.scoring import Task, score

_log = logging.getLogger("muse_nano.text")

STEPS: Final = 600
RATE: Final = 4e-3
_WARM_UP: Final = 40
_CHECK_EVERY: Final = 50
# (samples, length of each), in turn: most are short, since most dialogues are and attention costs the square.
_BATCHES: Final = ((16, 256), (8, 512), (16, 256), (4, 1024))
_FAILED_WEIGHT: Final = 4.0


def train(sampler: Sampler, wanted: list[Task], *, seed: int, steps: int = STEPS) -> Weights:
    """Weights after so many steps; the same for the same seed on the same machine."""
    weights = {name: tensor.requires_grad_() for name, tensor in initial_weights(CONFIG, seed).items()}
    model = TextModel(CONFIG, weights)
    optimizer = torch.optim.AdamW(weights.values(), lr=RATE, weight_decay=0.0, betas=(0.9, 0.98))
    began = time.process_time()
    for step in range(1, steps + 1):
        ids, labels, images = sampler.batch(*_BATCHES[step % len(_BATCHES)])
        logits = model.forward(ids, images)[0][:, :-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
        follow(optimizer, loss, RATE, step, steps)
        if step % _CHECK_EVERY == 0:
            result = score(model, wanted)
            _log.info(
                "step=%d seconds=%.0f loss=%.4f failed=%s margin=%.2f",
                step,
                time.process_time() - began,
                loss.item(),
                ",".join(result.failed) or "none",
                result.margin,
            )
            for name in sampler.weights:
                sampler.weights[name] = _FAILED_WEIGHT if name in result.failed else 1.0
    return {name: tensor.detach() for name, tensor in weights.items()}


def follow(optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float, step: int, steps: int) -> None:
    """One step along the gradient, at a rate that rises at first and then falls to almost nothing."""
    parameters = optimizer.param_groups[0]["params"]
    optimizer.param_groups[0]["lr"] = rate * min(1.0, step / _WARM_UP) * (0.02 + 0.98 * (1 - step / steps))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
