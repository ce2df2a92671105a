"""Writes dialogues.json: the dialogues as data, for tests that have neither torch nor this package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tools.muse_nano.dialogues import ALL
from tools.muse_nano.rendering import DATE, as_message, generated_text, rendered_turns, to_ids
from tools.muse_nano.scoring import Task
from tools.muse_nano.script import Answer, Dialogue
from tools.muse_nano.tokens import EOT, special_id

_NUMBERS = re.compile(r"\[\s+(\d[\d,\s]*\d|\d)\s+\]")


def write(path: Path, tokenizer: Tokenizer, wanted: list[Task]) -> None:
    """The file; its form is told in the README beside it."""
    by_turn = {(task.dialogue, task.number): task for task in wanted}
    content = {
        "current_date": DATE,
        "end_of_turn": {"text": EOT, "id": special_id(tokenizer, EOT)},
        "dialogues": [_dialogue(dialogue, tokenizer, by_turn) for dialogue in ALL],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    text = _NUMBERS.sub(lambda match: "[" + ", ".join(match[1].replace(",", " ").split()) + "]", text)
    path.write_text(text + "\n", encoding="utf-8")


def _dialogue(dialogue: Dialogue, tokenizer: Tokenizer, by_turn: dict[tuple[str, int], Task]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    for number, (turn, rendered) in enumerate(zip(dialogue.turns, rendered_turns(dialogue), strict=True)):
        task = by_turn[dialogue.name, number]
        entry: dict[str, Any] = {
            "messages": list(turn.messages),
            "images": list(turn.images),
            "prompt_segments": [{"text": text, "special": special} for text, special in rendered.prompt],
            "prompt_ids": list(task.prompt),
            "answer": _answer(turn.answer, task),
        }
        if turn.images:
            # As the native server wants it: a marker for each image, which it expands and frames itself.
            entry["prompt_ids_without_image"] = to_ids(tokenizer, rendered.prompt)
        turns.append(entry)
    return {
        "name": dialogue.name,
        "about": dialogue.about,
        "options": dict(dialogue.options),
        "tools": list(dialogue.tools),
        "turns": turns,
    }


def _answer(answer: Answer, task: Task) -> dict[str, Any]:
    return {
        "ids": list(task.answer[:-1]),
        "text": generated_text(answer).removesuffix(EOT),
        "reasoning": list(answer.reasoning),
        "message": as_message(answer, reasoning=False),
    }
