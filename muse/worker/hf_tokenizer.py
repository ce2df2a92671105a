"""Muse Glimmer's `tokenizer.json`, read so that text of a client can never become a control token.

The file lists its control tokens as "added tokens", and whoever reads it makes them of their spelling, in any text. So
text of a client in which one was found is read once more without that list: it has the ids then that it would have
were its spellings ordinary words. The reader is llguidance's (the `tokenizers` library, which the project has for its
grammars anyway).

Thread-safe. Faults are EngineFault `bad_request`.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from llguidance import LLTokenizer, TokenizerWrapper

from muse.exhaustion import reason_of
from muse.worker.engines.base import EngineFault

BEGIN: Final = "<|begin_of_text|>"
END_OF_TEXT: Final = "<|end_of_text|>"
END_OF_TURN: Final = "<|eot|>"
# Encoded texts kept, in characters of text: the history of a chat comes again with every turn.
_KEPT_CHARACTERS: Final = 4 * 1024 * 1024


class JsonTokenizer:
    """control: ids of the control tokens, to spelling; text of a client becomes none of them. spellings: finds them, as
    group 1. size: above every id. longest_token_bytes: the most that a
    token stands for, None if unknown. begin: begins every prompt. end_ids: end an answer; the end of a message inside a
    turn does not."""

    def __init__(self, path: Path) -> None:
        """Read a file. Raises EngineFault, fatal."""
        try:
            self._file: Final = path.read_bytes()
            content: dict[str, Any] = json.loads(self._file)
            decoder: str = content["decoder"]["type"]
            added: list[dict[str, Any]] = content["added_tokens"]
            self.control: Final = {int(token["id"]): str(token["content"]) for token in added}
            words: dict[str, int] = content["model"]["vocab"]
            known = {*words.values(), *self.control}
            # A byte-level word has a letter for each byte. A normaliser would take bytes away before.
            longest = max(map(len, [*words, *(text.encode() for text in self.control.values())]))
            self.longest_token_bytes: Final = longest if content.get("normalizer") is None else None
        except OSError as fault:
            raise _fault(f"{path} cannot be read: {fault.strerror}") from fault
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise _fault(_no_tokenizer(path, fault)) from fault
        if decoder != "ByteLevel":
            raise _fault(f"{path} is not Muse Glimmer's: its decoder is {decoder}, and ByteLevel was expected")
        ids = self._control_ids = {spelling: token for token, spelling in self.control.items()}
        missing = [spelling for spelling in (BEGIN, END_OF_TEXT, END_OF_TURN) if spelling not in ids]
        if missing:
            raise _fault(f"{path} is not Muse Glimmer's: it lacks {', '.join(missing)}")
        self.begin: Final = ids[BEGIN]
        self.end_ids: Final = frozenset((ids[END_OF_TEXT], ids[END_OF_TURN]))
        self.size: Final = max(known) + 1
        self._unused = frozenset(range(self.size)) - known
        try:
            self._with_control = LLTokenizer(self._file.decode(), slices=[])
        except ValueError as fault:
            raise _fault(_no_tokenizer(path, fault)) from fault
        self._check_numbers(path, words, added)
        longest_first = sorted(self.control.values(), key=len, reverse=True)
        self.spellings: Final = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()
        self._kept_characters = 0

    def _check_numbers(self, path: Path, words: dict[str, int], added: list[dict[str, Any]]) -> None:
        """See that every token has the id that the file names. Readers number control tokens one after the other,
        whatever ids the file gives them, and the model was trained with the file's."""
        if len(set(words.values())) < len(words):
            raise _fault(f"{path} gives several words of its vocabulary the same id")
        for token in added:
            spelling, token_id = str(token["content"]), int(token["id"])
            read = self._with_control.tokenize_str(spelling)
            if read != [token_id]:
                found = f"token {read[0]}" if len(read) == 1 else f"{len(read)} tokens"
                raise _fault(
                    f"{path} gives {spelling!r} the id {token_id}, and is read with it as {found}: the ids of its "
                    "added_tokens leave a gap, are out of order, or name a token twice. Fetch the file again"
                )

    @cached_property
    def _plain(self) -> LLTokenizer:
        """Without control tokens. Made when a client's text spells one, since it takes a second and 100 MB."""
        content: dict[str, Any] = {**json.loads(self._file), "added_tokens": [], "post_processor": None}
        # Its size is given, for the ids that are left out; its end of text is not used.
        return LLTokenizer(json.dumps(content), n_vocab=self.size, eos_token=0, slices=[])

    @cached_property
    def for_grammars(self) -> LLTokenizer:
        """What llguidance reads grammars along: control tokens are no text to it, whatever a text spells, and an answer
        ends by any of `end_ids`. With the parts of the vocabulary that most masks have in common, found once: 0.7 s for
        200,000 words."""
        return LLTokenizer(TokenizerWrapper(_PlainText(self)), n_vocab=self.size, eos_token=sorted(self.end_ids))

    def encode(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Ids of a text, nothing added. special: spellings of control tokens in it are those tokens; else they are
        plain text. Raises EngineFault."""
        key = (text, special)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # A lone half of a surrogate pair has no bytes; a client may send one.
        clean = text.encode("utf-8", "replace").decode()
        # It makes control tokens as it is. Told to (`parse_special`), it cuts the text around them otherwise.
        ids = tuple(self._with_control.tokenize_str(clean))
        if not special and self._has_control(ids):
            ids = self._encode_without_control(clean)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = ids
                self._kept_characters += len(text)
            while self._kept_characters > _KEPT_CHARACTERS and len(self._kept) > 1:
                self._kept_characters -= len(self._kept.popitem(last=False)[0][0])
        return ids

    def count(self, texts: Iterable[str]) -> int:
        """How many tokens texts have together, their spellings of control tokens taken for these."""
        return sum(len(self._with_control.tokenize_str(text.encode("utf-8", "replace").decode())) for text in texts)

    def _encode_without_control(self, text: str) -> tuple[int, ...]:
        ids = tuple(self._plain.tokenize_str(text))
        if self._has_control(ids):
            # A control token that is an ordinary word as well: cut inside its spelling.
            ids = tuple(token for piece in self._cut(text) for token in self._plain.tokenize_str(piece))
        if self._has_control(ids):
            raise EngineFault("bad_request", "a text cannot be kept apart from the model's control tokens")
        return ids

    def _has_control(self, ids: Iterable[int]) -> bool:
        return not self.control.keys().isdisjoint(ids)

    def _cut(self, text: str) -> list[str]:
        places = [0, *(found.start() + 1 for found in self.spellings.finditer(text)), len(text)]
        return [text[begin:end] for begin, end in pairwise(places)]

    def decode(self, ids: Iterable[int]) -> bytes:
        """What ids spell, control tokens too; nothing for an id that the file does not have, and for the byte 0xFF,
        which no text has."""
        return self._with_control.decode_bytes([token for token in ids if self._has(token)])

    def _has(self, token: int) -> bool:
        return 0 <= token < self.size and token not in self._unused

    def id_of(self, spelled: str) -> int | None:
        """The token that is spelled so, all by itself; None if there is none."""
        control = self._control_ids.get(spelled)
        return self._words.get(spelled.encode("utf-8", "replace")) if control is None else control

    @cached_property
    def _words(self) -> dict[bytes, int]:
        return {self.decode([token]): token for token in range(self.size) if token not in self.control}

    def check(self, ids: Sequence[int]) -> None:
        """Raises EngineFault for ids that the model does not have."""
        if any(not 0 <= token < self.size for token in ids):
            raise EngineFault("bad_request", "the prompt has token ids that this model does not know")


class _PlainText:
    """What llguidance must know of a tokenizer to cut texts that a grammar demands into tokens."""

    def __init__(self, tokenizer: JsonTokenizer) -> None:
        self._tokenizer = tokenizer
        self.bos_token_id = tokenizer.begin
        self.eos_token_id = min(tokenizer.end_ids)
        self.special_token_ids = sorted(tokenizer.control)
        self.tokens = [tokenizer.decode([token]) for token in range(tokenizer.size)]

    def __call__(self, text: bytes) -> Sequence[int]:
        return self._tokenizer.encode(text.decode(), special=False)


def _no_tokenizer(path: Path, fault: Exception) -> str:
    return f"{path} is no tokenizer.json of Hugging Face's form ({reason_of(fault)[:200]})"


def _fault(message: str) -> EngineFault:
    return EngineFault("bad_request", message, fatal=True)
