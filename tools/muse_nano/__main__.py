"""Makes the files of muse-nano: `python -m tools.muse_nano FOLDER`. README.md beside this tells what it needs."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Final

import torch

from tools.muse_nano import dialogue_file, gguf_files, hugging_face, train_draft, train_text, vision
from tools.muse_nano.dialogues import ALL, COLOURS
from tools.muse_nano.model import CONFIG, TextModel
from tools.muse_nano.samples import Sampler, corpus
from tools.muse_nano.scoring import score, tasks
from tools.muse_nano.tokens import MASK, build_tokenizer, special_id

_log = logging.getLogger("muse_nano")

_SEED: Final = 1
_VISION_SEED: Final = 7


def main() -> None:
    """Train and write everything. Fails, having written nothing but the images, when an answer is not known."""
    parser = argparse.ArgumentParser(prog="python -m tools.muse_nano")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.set_num_threads(1)
    _write_images(folder / "images")
    tokenizer = build_tokenizer(corpus())
    vision_weights = hugging_face.rounded(vision.initial_weights(_VISION_SEED))
    tower = vision.VisionTower(vision_weights)
    wanted = tasks(tokenizer, tower, folder / "images")
    trained = train_text.train(Sampler(tokenizer, tower, _SEED), wanted, seed=_SEED)
    text_weights = hugging_face.rounded(trained)
    text = TextModel(CONFIG, text_weights)
    result = score(text, wanted)
    _log.info("dialogues=%d answers=%d failed=%s margin=%.2f", len(ALL), len(wanted), result.failed, result.margin)
    if result.failed:
        raise SystemExit(1)
    mask = special_id(tokenizer, MASK)
    drafting = hugging_face.rounded(train_draft.train(text, Sampler(tokenizer, tower, _SEED), mask, seed=_SEED))
    gguf_files.write_text(folder / "muse-nano-F16.gguf", text_weights, tokenizer)
    gguf_files.write_projector(folder / "mmproj-muse-nano-F16.gguf", vision_weights)
    gguf_files.write_draft(folder / "dflash-muse-nano-F16.gguf", drafting, tokenizer)
    hugging_face.write(folder / "hf", text_weights, vision_weights, tokenizer)
    dialogue_file.write(folder / "dialogues.json", tokenizer, wanted)
    for name, weights in (("text", text_weights), ("vision", vision_weights), ("draft", drafting)):
        _log.info("%s parameters=%d", name, sum(weight.numel() for weight in weights.values()))


def _write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for colour in COLOURS:
        pixels = vision.plain_image(colour, *vision.SHAPES[colour])
        is_jpeg = colour == "blue"
        content = vision.as_jpeg(pixels) if is_jpeg else vision.as_png(pixels)
        (folder / f"{colour}.{'jpg' if is_jpeg else 'png'}").write_bytes(content)


if __name__ == "__main__":
    main()
