"""A Hugging Face `tokenizer.json`, read so that text of a client can never become a control token.

The file lists its control tokens as "added tokens", and whoever reads it makes them of their spelling, in any text. So
it is read twice: as it is, for the template's own text, and without that list, for everything else. The reader is
llguidance's (the `tokenizers` library, which the project has for its grammars anyway).

Both are needed for texts only; what an id spells is read from the file once. Thread-safe.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import llguidance

# Encoded texts kept, in characters of text: the history of a chat comes again with every turn.
_KEPT_CHARACTERS: Final = 4 * 1024 * 1024


class TokenizerFault(ValueError):
    """The file cannot be used; the message says why."""


class JsonTokenizer:
    """control: ids of the control tokens, to spelling. spellings: finds them, as group 1. size: above every id."""

    def __init__(self, path: Path) -> None:
        """Read a file. Raises TokenizerFault."""
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
            added: list[dict[str, Any]] = content["added_tokens"]
            self.control: Final = {int(token["id"]): str(token["content"]) for token in added}
            words: dict[str, int] = content["model"]["vocab"]
            ids = {*words.values(), *self.control}
            self.size: Final = max(ids) + 1
            self._with_control = llguidance.LLTokenizer(json.dumps(content), slices=[])
            # Its size is given, for the ids that are left out; its end of text is not used.
            plain: dict[str, Any] = {**content, "added_tokens": [], "post_processor": None}
            self._plain = llguidance.LLTokenizer(json.dumps(plain), n_vocab=self.size, eos_token=0, slices=[])
        except OSError as fault:
            raise TokenizerFault(f"{path} cannot be read: {fault.strerror}") from fault
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            reason = f"{type(fault).__name__} {str(fault)[:200]}"
            raise TokenizerFault(f"{path} is no tokenizer.json of Hugging Face's form ({reason})") from fault
        self._ids_by_bytes = {self._with_control.decode_bytes([token]): token for token in sorted(words.values())}
        self._ids_by_bytes |= {spelling.encode(): token for token, spelling in self.control.items()}
        longest_first = sorted(self.control.values(), key=len, reverse=True)
        self.spellings: Final = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()
        self._kept_characters = 0

    def encode(self, text: str, *, special: bool) -> tuple[int, ...]:
        """Ids of a text. special: spellings of control tokens in it are those tokens; else they are plain text."""
        key = (text, special)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        reader = self._with_control if special else self._plain
        # A lone half of a surrogate pair has no bytes; a client may send one.
        ids = tuple(reader.tokenize_bytes(text.encode("utf-8", "replace")))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = ids
                self._kept_characters += len(text)
            while self._kept_characters > _KEPT_CHARACTERS and len(self._kept) > 1:
                self._kept_characters -= len(self._kept.popitem(last=False)[0][0])
        return ids

    def decode(self, ids: Sequence[int]) -> bytes:
        """What ids spell, control tokens too."""
        return self._with_control.decode_bytes(list(ids))

    def id_of(self, spelled: str) -> int | None:
        """The token that is spelled so, all by itself; None if there is none."""
        return self._ids_by_bytes.get(spelled.encode("utf-8", "replace"))
