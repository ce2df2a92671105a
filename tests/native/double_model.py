"""What the stand-in for upstream's worker says: muse-nano's dialogues by heart, and anything else by rule.

Stateless: the next token follows from what is resident, as with a model, so a continuation is right only if every token
before it is. A picture is its colour: one negative number for each of its tokens.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

from PIL import Image

from muse.worker.hf_tokenizer import JsonTokenizer
from muse.worker.picture_size import cells_of
from tests.worker.nano import DIALOGUES, END_OF_TURN, IMAGE_DIALOGUES

COLOURS: Final = {"red": -1, "green": -2, "blue": -3}
LONG_TOKENS: Final = 3000


class NoPicture(ValueError):
    """It cannot be decoded."""


def look(data: str, most_cells: int) -> list[int]:
    """Tokens of a picture by its colour, as many as upstream's rule of sizes gives it."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(data, validate=True)), formats=("PNG", "JPEG")) as image:
            columns_of = image.convert("RGB").resize((1, 1)).getpixel((0, 0))
            rows, columns = cells_of(*image.size, most_cells)
    except (ValueError, OSError) as fault:
        raise NoPicture from fault
    assert isinstance(columns_of, tuple)
    return [-1 - columns_of.index(max(columns_of))] * (rows * columns)


def _seen(content: Sequence[int]) -> list[int]:
    """The same with one token for each picture, whatever its size."""
    return [token for n, token in enumerate(content) if token >= 0 or n == 0 or content[n - 1] != token]


class Recital:
    """Answers of a tokenizer's model."""

    def __init__(self, tokenizer: JsonTokenizer) -> None:
        self._patch = tokenizer.id_of("<|patch|>")
        self._message = tokenizer.id_of("<|message|>")
        self._tokenizer = tokenizer
        self._turn = [END_OF_TURN, *tokenizer.encode("<|start|>assistant", special=True)]
        self._known: list[tuple[list[int], list[int]]] = []
        for name, dialogue in DIALOGUES.items():
            for turn in dialogue["turns"]:
                self._known.append((self._prompt(name, turn), turn["answer"]["ids"]))

    def _prompt(self, name: str, turn: dict[str, Any]) -> list[int]:
        if name not in IMAGE_DIALOGUES:
            return turn["prompt_ids"]
        colour = COLOURS[name.removeprefix("image-")]
        return _seen([colour if token == self._patch else token for token in turn["prompt_ids"]])

    def answer(self, resident: Sequence[int]) -> Iterator[int]:
        """The tokens that follow, the end of the turn among them."""
        resident = _seen(resident)
        for prompt, answer in self._known:
            begun = list(resident[len(prompt) :])
            if list(resident[: len(prompt)]) == prompt and answer[: len(begun)] == begun:
                yield from answer[len(begun) :]
                yield END_OF_TURN
                return
        yield from self._echo(list(resident))
        yield END_OF_TURN

    def _echo(self, resident: list[int]) -> Iterator[int]:
        """The user's last words, again and again if they say that it shall be long."""
        size = len(self._turn)
        place = next((n for n in range(len(resident) - size, 0, -1) if resident[n : n + size] == self._turn), None)
        if place is None:
            yield from self._tokenizer.encode("?", special=False)
            return
        begin = max(n for n in range(place) if resident[n] == self._message) + 1
        words = [token for token in resident[begin:place] if token >= 0]
        times = LONG_TOKENS // max(len(words), 1) if b"long" in self._tokenizer.decode(words) else 1
        whole = [*self._tokenizer.encode(" to=user<|message|>", special=True), *words * times]
        yield from whole[len(resident) - place - size :]
