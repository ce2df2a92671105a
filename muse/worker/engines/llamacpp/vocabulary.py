"""The vocabulary of a model: which spellings are control tokens, and what bytes a token stands for.

Also the one inference this engine makes about ids: llama.cpp's stream leaves out the tokens that end inside a
UTF-8 character (only their number shows in the counter). `recover` names them where exactly one sequence of
tokens fits, and else says that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final

from muse.sizes import ORDINARY_BYTES
from muse.worker.engines.llamacpp.gguf import ModelFile

_CONTROL: Final = 3
_USER_DEFINED: Final = 4
# A gap longer than this is not searched; real ones have one to four tokens.
_MAX_MISSING: Final = 12
_BYTE_TOKEN: Final = re.compile(rb"<0x([0-9A-F]{2})>")


class Vocabulary:
    """control: ids that text of a user must never become, to spelling. size: number of ids. is_byte_level: its tokens
    are made of bytes, inside the words that a regular expression finds."""

    def __init__(self, model: ModelFile) -> None:
        texts: list[bytes] = model.metadata.get("tokenizer.ggml.tokens", [])
        kinds: list[int] = model.metadata.get("tokenizer.ggml.token_type", [])
        template = model.text("tokenizer.chat_template")
        self._texts = texts
        self._user_defined = frozenset(token for token, kind in enumerate(kinds) if kind == _USER_DEFINED)
        self.size = len(texts)
        self.control = {
            token: text.decode("utf-8", "replace")
            for token, (text, kind) in enumerate(zip(texts, kinds, strict=False))
            if kind == _CONTROL or (kind == _USER_DEFINED and _is_scaffold(text, template))
        }
        spellings = sorted(filter(None, self.control.values()), key=len, reverse=True)
        pattern = "|".join(map(re.escape, spellings)) or r"(?!)"
        self._spelling = re.compile(pattern)
        self._any_spelling = re.compile(f"(?=({pattern}))")  # looks ahead, to find those that overlap
        self.is_byte_level = model.text("tokenizer.ggml.model") == "gpt2"
        self._spell = _spell_byte_level if self.is_byte_level else _spell_sentence_piece
        self._ids: dict[bytes, int] = {}

    def cut(self, text: str) -> list[str]:
        """Cut a text inside every spelling of a control token, so that no piece holds one."""
        pieces: list[str] = []
        start = 0
        for match in self._spelling.finditer(text):
            pieces.append(text[start : match.start() + 1])
            start = match.start() + 1
        return [*pieces, text[start:]]

    def length(self, token: int) -> int:
        """How many bytes of a text a token of a byte-level vocabulary stands for."""
        text = self._texts[token]
        if token in self.control or token in self._user_defined:
            return len(text)
        return len(text.decode("utf-8", "replace"))  # a letter for each byte

    @cached_property
    def spelled(self) -> list[bytes]:
        """The bytes that each token stands for in generated text; those of a control token are its spelling."""
        own = self.control.keys() | self._user_defined
        read = _read_byte_level if self.is_byte_level else _read_sentence_piece
        return [text if token in own else read(text) for token, text in enumerate(self._texts)]

    def longest_token_bytes(self) -> int | None:
        """The most bytes of a text that a token stands for. None: texts are not split into their bytes, or some byte
        of ordinary text has no token: such bytes are left out of prompts."""
        if not self.is_byte_level or not {_byte_letters()[byte] for byte in ORDINARY_BYTES} <= set(self._texts):
            return None
        return max(map(self.length, range(self.size)))

    def spellings(self, text: str) -> Iterator[re.Match[str]]:
        """All places where a text spells a control token, as group 1, from left to right."""
        return self._any_spelling.finditer(text)

    def recover(self, piece: str, missing: int, last: int) -> tuple[int, ...] | None:
        """Ids of a piece of which only the number of tokens and the last one are known.

        Proof: the engine holds a token back exactly while the text so far ends inside a character. So the
        `missing` tokens spell the piece without the last token's bytes, each ending inside a character.
        All sequences of tokens that do so are looked for, also shorter ones (a control token in between
        spells nothing); an answer is given only if there is exactly one, of the right length. A replacement
        character in the piece may stand for other bytes, so nothing is concluded from it.
        """
        if "\N{REPLACEMENT CHARACTER}" in piece or missing > _MAX_MISSING or not 0 <= last < self.size:
            return None
        whole = piece.encode()
        end = next((n for n in range(1, len(whole)) if self._id_of(whole[n:]) == last), 0)
        found: list[tuple[int, ...]] = []
        if end:
            self._search(whole[:end], 0, missing, (), found)
        return (*found[0], last) if len(found) == 1 and len(found[0]) == missing else None

    def _search(
        self, data: bytes, start: int, left: int, so_far: tuple[int, ...], found: list[tuple[int, ...]]
    ) -> None:
        if start == len(data):
            found.append(so_far)
            return
        for stop in range(start + 1, len(data) + 1 if left else 0):
            token = self._id_of(data[start:stop])
            if token is not None and _ends_inside_character(data[:stop]) and len(found) < 2:
                self._search(data, stop, left - 1, (*so_far, token), found)

    def _id_of(self, spelled: bytes) -> int | None:
        if not self._ids:
            self._ids = dict(zip(self._texts, range(self.size), strict=True))
            if len(self._ids) != self.size:  # two ids with one text: no conclusion is safe
                self._ids = {b"\xff": -1}
        return self._ids.get(self._spell(spelled))


def _is_scaffold(text: bytes, template: str) -> bool:
    """Whether a user-defined token frames messages, unlike those for runs of blanks or HTML. llama.cpp turns
    the spelling of such a token into the token even in plain text, and declares some control tokens so."""
    spelling = text.decode("utf-8", "replace")
    if re.fullmatch(r"<\|.+\|>", spelling):
        return True
    return re.fullmatch(r"<.+>|\[.+\]", spelling) is not None and spelling in template


def _ends_inside_character(data: bytes) -> bool:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return length > back
    return False


@lru_cache(maxsize=1)
def _byte_letters() -> dict[int, bytes]:
    """Byte to its letter in byte-level vocabularies (the rule of GPT-2): printable Latin-1 characters stand
    for themselves, the others for U+0100 and up in order."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in own}
    for number, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + number)
    return {byte: letter.encode() for byte, letter in letters.items()}


def _spell_byte_level(data: bytes) -> bytes:
    letters = _byte_letters()
    return b"".join(letters[byte] for byte in data)


def _spell_sentence_piece(data: bytes) -> bytes:
    try:
        return data.decode().replace(" ", "\N{LOWER ONE EIGHTH BLOCK}").encode()
    except UnicodeDecodeError:
        return b"<0x%02X>" % data[0] if len(data) == 1 else b"\xff\xff"


@lru_cache(maxsize=1)
def _letter_bytes() -> dict[str, int]:
    return {letter.decode(): byte for byte, letter in _byte_letters().items()}


def _read_byte_level(text: bytes) -> bytes:
    letters = _letter_bytes()
    # A letter that stands for no byte is never generated as part of a text.
    return bytes(letters.get(letter, 0) for letter in text.decode("utf-8", "replace"))


def _read_sentence_piece(text: bytes) -> bytes:
    if found := _BYTE_TOKEN.fullmatch(text):
        return bytes((int(found[1], 16),))
    return text.decode("utf-8", "replace").replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()
