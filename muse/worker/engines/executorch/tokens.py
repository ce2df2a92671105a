"""The tokenizer of the artifact: text to ids and back, with what users write kept apart from control tokens."""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from muse.worker.engines.base import EngineFault

BEGIN: Final = "<|begin_of_text|>"
END_OF_TEXT: Final = "<|end_of_text|>"
END_OF_TURN: Final = "<|eot|>"
PATCH: Final = "<|patch|>"
IMAGE_START: Final = "<|image_start|>"
IMAGE_END: Final = "<|image_end|>"


class Tokens:
    """Reads `tokenizer.json`. control: id to spelling of every token that text of a user must never become. end_ids:
    the ids at which an answer ends; the end of a message inside a turn is none. size: number of ids.

    Raises EngineFault `bad_request`."""

    def __init__(self, path: Path) -> None:
        library: Any = importlib.import_module("tokenizers")
        try:
            text = path.read_text(encoding="utf-8")
            content: dict[str, Any] = json.loads(text)
            # Two, since whether control tokens are meant is a state of the object.
            self._own: Any = library.Tokenizer.from_str(text)
            self._plain: Any = library.Tokenizer.from_str(text)
            decoder = content["decoder"]["type"]
            added: list[dict[str, Any]] = content["added_tokens"]
        except Exception as fault:  # any: the library raises plain exceptions
            raise _fault(f"{path} is no tokenizer that can be read: {fault}") from fault
        if decoder != "ByteLevel":
            raise _fault(f"{path} is not the tokenizer of Muse Glimmer: its decoder is {decoder}, not ByteLevel")
        self._plain.encode_special_tokens = True
        self._lock = threading.Lock()
        self.control: dict[int, str] = {token["id"]: token["content"] for token in added}
        self.size: int = self._own.get_vocab_size(with_added_tokens=True)
        pattern = "|".join(map(re.escape, sorted(self.control.values(), key=len, reverse=True))) or r"(?!)"
        self._spelling = re.compile(pattern)
        ids = {spelling: token for token, spelling in self.control.items()}
        missing = [name for name in (BEGIN, END_OF_TEXT, END_OF_TURN) if name not in ids]
        if missing:
            raise _fault(f"{path} is not the tokenizer of Muse Glimmer: it has no {missing[0]}")
        self._ids = ids
        self.begin = ids[BEGIN]
        self.end_ids = frozenset((ids[END_OF_TEXT], ids[END_OF_TURN]))
        self._bytes: dict[int, bytes] = {}

    def control_id(self, spelling: str) -> int | None:
        """The id of a control token, if there is one of that spelling."""
        return self._ids.get(spelling)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Ids of a text, nothing added. special: spellings of control tokens become them. Raises EngineFault."""
        clean = text.encode("utf-8", "replace").decode()
        with self._lock:
            if special:
                return self._own.encode(clean, add_special_tokens=False).ids
            ids: list[int] = self._plain.encode(clean, add_special_tokens=False).ids
            if self.control.keys().isdisjoint(ids):
                return ids
            # Tokens that the file adds without calling them special are found in any text: cut inside each spelling.
            pieces = [self._plain.encode(piece, add_special_tokens=False).ids for piece in self._cut(clean)]
        joined = [token for piece in pieces for token in piece]
        if not self.control.keys().isdisjoint(joined):
            raise EngineFault("bad_request", "a text cannot be kept apart from the model's control tokens")
        return joined

    def spelled(self, token: int) -> bytes:
        """The bytes that a token stands for; a control token's spelling."""
        known = self._bytes.get(token)
        if known is None:
            if token in self.control:
                known = self.control[token].encode()
            else:
                letters: str = self._own.id_to_token(token) or ""
                known = bytes(_BYTES[letter] for letter in letters)
            self._bytes[token] = known
        return known

    def check(self, ids: Iterable[int]) -> None:
        """Raises EngineFault for ids that the model does not have."""
        if any(not 0 <= token < self.size for token in ids):
            raise EngineFault("bad_request", "the prompt has token ids that this model does not know")

    def _cut(self, text: str) -> Sequence[str]:
        pieces: list[str] = []
        start = 0
        for found in self._spelling.finditer(text):
            pieces.append(text[start : found.start() + 1])
            start = found.start() + 1
        return [*pieces, text[start:]]


def _byte_of_letters() -> dict[str, int]:
    """Letter to byte in byte-level vocabularies (the rule of GPT-2): printable Latin-1 characters stand for themselves,
    the others for U+0100 and up in order."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES: Final = _byte_of_letters()


def _fault(message: str) -> EngineFault:
    return EngineFault("bad_request", message, fatal=True)
