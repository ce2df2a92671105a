"""Checks the files of muse-nano on every engine that is installed: `python -m tools.muse_nano.check FOLDER`.

llama.cpp through xllamacpp (text; images; with the draft), a plain torch forward over the safetensors, and mlx-lm if it
can be imported. Every answer must be exactly the one in dialogues.json. The figures go into README.md.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import importlib.util
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer

from muse.worker.engines.llamacpp.client import Client
from tools.muse_nano import hugging_face
from tools.muse_nano.dialogues import ALL
from tools.muse_nano.model import CONFIG, TextModel, greedy
from tools.muse_nano.rendering import generated_text, render, to_ids
from tools.muse_nano.scoring import Task, tasks
from tools.muse_nano.tokens import BOS, EOT, encode, special_id
from tools.muse_nano.vision import VisionTower

_log = logging.getLogger("muse_nano.check")

_SYSTEMS: Final = (
    "You are a poet.",
    "Speak like a pirate, in short sentences.\nBe kind.",
    "Answer in French.",
)

Generate = Callable[[Sequence[int], int], list[int]]


def main() -> None:
    """Log one line for each engine. Exits with 1 if any answer is not right, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tools.muse_nano.check")
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.set_num_threads(1)
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "hf" / "tokenizer.json"))
    text_weights, vision_weights = hugging_face.read(folder / "hf")
    wanted = tasks(tokenizer, VisionTower(vision_weights), folder / "images")
    stored = json.loads((folder / "dialogues.json").read_text(encoding="utf-8"))
    ids = [turn["answer"]["ids"] for dialogue in stored["dialogues"] for turn in dialogue["turns"]]
    is_right = ids == [list(task.answer[:-1]) for task in wanted]
    _log.info("dialogues.json agrees with the script: %s", is_right)
    end = special_id(tokenizer, EOT)
    is_right &= _check_torch(TextModel(CONFIG, text_weights), wanted, end)
    text_tasks = [task for task in wanted if not task.images]
    model = folder / "muse-nano-F16.gguf"
    llama = _llama(_start(model))
    is_right &= _check("llama.cpp", llama, text_tasks)
    _check("llama.cpp behind system messages that were never seen (no must)", llama, _elsewhere(tokenizer))
    is_right &= _check_draft(_start(model, draft=folder / "dflash-muse-nano-F16.gguf"), text_tasks)
    is_right &= _check_images(_start(model, projector=folder / "mmproj-muse-nano-F16.gguf"), stored, folder / "images")
    if importlib.util.find_spec("mlx_lm"):
        is_right &= _check("mlx-lm", _mlx(folder / "hf", end), text_tasks)
    logging.shutdown()
    os._exit(0 if is_right else 1)  # the native servers' teardown can hang


def _check(engine: str, generate: Generate, wanted: Sequence[Task]) -> bool:
    began = time.monotonic()
    wrong = [f"{t.dialogue}/{t.number}" for t in wanted if generate(t.prompt, len(t.answer) + 8) != [*t.answer[:-1]]]
    seconds = time.monotonic() - began
    _log.info("%s: right=%d of %d wrong=%s seconds=%.1f", engine, len(wanted) - len(wrong), len(wanted), wrong, seconds)
    return not wrong


def _elsewhere(tokenizer: Tokenizer) -> list[Task]:
    """The dialogues of one turn and without an image, behind other system messages than in dialogues.json."""
    found: list[Task] = []
    for dialogue in ALL:
        turn = dialogue.turns[0]
        answer = tuple(encode(tokenizer, generated_text(turn.answer), special=True))
        for number, text in enumerate(_SYSTEMS if not turn.images else ()):
            messages = [{"role": "system", "content": text}, *turn.messages]
            prompt = to_ids(tokenizer, render(messages, tools=dialogue.tools, options=dialogue.options))
            found.append(Task(dialogue=dialogue.name, number=number, prompt=tuple(prompt), answer=answer, images={}))
    return found


def _check_torch(model: TextModel, wanted: Sequence[Task], end: int) -> bool:
    margins: list[float] = []
    wrong: list[str] = []
    for task in wanted:
        ids, margin = greedy(model, list(task.prompt), end, len(task.answer) + 8, task.images)
        margins.append(margin)
        if ids != list(task.answer[:-1]):
            wrong.append(f"{task.dialogue}/{task.number}")
    right = len(wanted) - len(wrong)
    _log.info("torch: right=%d of %d wrong=%s margin=%.2f", right, len(wanted), wrong, min(margins))
    return not wrong


def _start(model: Path, *, draft: Path | None = None, projector: Path | None = None) -> Client:
    """A native server in this process, as our engine sets it up but for what is given."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = [str(Path(tempfile.mkdtemp()) / "e.sock")]
    params.n_ctx, params.n_parallel, params.n_batch, params.n_ubatch = CONFIG.context, 1, 64, 64
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity, params.warmup, params.ui = 2, False, False
    if projector is not None:
        params.mmproj.path = str(projector)
    if draft is not None:
        params.speculative.draft.mparams.path = str(draft)
        params.speculative.draft.n_max = 7
    began = time.monotonic()
    server = xllamacpp.Server(params)
    _log.info("load: %.0f ms", (time.monotonic() - began) * 1000)
    _kept.append(server)
    client = Client(params.hostnames[0])
    client.call("POST", "/completion", {"prompt": [0], "n_predict": 1})
    return client


_kept: list[Any] = []


def _complete(client: Client, prompt: object, most: int) -> dict[str, Any]:
    body = {"prompt": prompt, "n_predict": most, "samplers": ["top_k"], "top_k": 1, "return_tokens": True}
    return client.call("POST", "/completion", body)


def _llama(client: Client) -> Generate:
    def generate(prompt: Sequence[int], most: int) -> list[int]:
        answer = _complete(client, list(prompt), most)
        return answer["tokens"][:-1] if answer["stop_type"] == "eos" else answer["tokens"]

    return generate


def _check_draft(client: Client, wanted: Sequence[Task]) -> bool:
    proposed = accepted = 0
    plain = _llama(client)
    is_right = _check("llama.cpp with draft", plain, wanted)
    for task in wanted:
        timings = _complete(client, list(task.prompt), len(task.answer) + 8)["timings"]
        proposed, accepted = proposed + timings["draft_n"], accepted + timings["draft_n_accepted"]
    _log.info("draft: accepted=%d of %d (%.1f %%)", accepted, proposed, accepted / max(proposed, 1) * 100)
    return is_right


def _check_images(client: Client, stored: dict[str, Any], images: Path) -> bool:
    """Questions about images, in the form that the native server takes: text with a marker, and files."""
    marker = client.call("GET", "/props")["media_marker"]
    wrong: list[str] = []
    turns = [turn for dialogue in stored["dialogues"] for turn in dialogue["turns"] if turn["images"]]
    for turn in turns:
        text = "".join(segment["text"] for segment in turn["prompt_segments"])
        files = [base64.b64encode((images / name).read_bytes()).decode() for name in turn["images"]]
        # The server puts its own beginning of text in front of a string.
        prompt = {
            "prompt_string": text.removeprefix(BOS).replace("<|patch|>", marker),
            "multimodal_data": files,
        }
        answer = _complete(client, prompt, 60)
        is_same_length = answer["tokens_evaluated"] == len(turn["prompt_ids"])
        if answer["tokens"][:-1] != turn["answer"]["ids"] or not is_same_length:
            wrong.append(f"{turn['images']}: {answer['content']!r} {answer['tokens_evaluated']}")
    _log.info("llama.cpp with images: right=%d of %d wrong=%s", len(turns) - len(wrong), len(turns), wrong)
    return not wrong


def _mlx(folder: Path, end: int) -> Generate:
    core: Any = importlib.import_module("mlx.core")
    core.set_default_device(core.cpu)
    model = importlib.import_module("mlx_lm.utils").load_model(folder)[0]
    model.set_dtype(core.float32)

    def generate(prompt: Sequence[int], most: int) -> list[int]:
        cache = model.make_cache()
        ids: list[int] = []
        tokens = core.array([list(prompt)])
        while len(ids) < most:
            token = int(core.argmax(model(tokens, cache=cache)[0, -1]))
            if token == end:
                break
            ids.append(token)
            tokens = core.array([[token]])
        return ids

    return generate


if __name__ == "__main__":
    main()
