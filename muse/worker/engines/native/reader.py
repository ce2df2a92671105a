"""An answer as the program spells it, as events with token ids.

The program streams text, and the ids of it only at the end (contracts/worker-protocol.md sections 4 and 5). We need
them before: to tell a control token from its spelling, to count, to go on after a crash. Without stop strings it writes
a line for each token, but for those that end inside a character. So a line that is one token's spelling is that token,
and any other is cut into tokens as its text would be. That is a guess about the cut, never about the text; the ids at
the end are compared with it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from muse.protocol import Tokens
from muse.worker.engines.base import Emit
from muse.worker.hf_tokenizer import JsonTokenizer

_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
"""May stand for any bytes."""


class AnswerReader:
    """One answer. ids: those believed so far, none for text that stands for unknown bytes. has_text: a token came."""

    def __init__(self, request_id: str, tokenizer: JsonTokenizer, emit: Emit) -> None:
        self._request_id = request_id
        self._tokenizer = tokenizer
        self._emit = emit
        self.ids: list[int] = []
        self.has_text = False

    def take(self, text: str) -> None:
        """One line of text."""
        if not text:
            return
        self.has_text = True
        token = self._tokenizer.id_of(text)
        if token is not None and _UNKNOWN not in text:
            self._send((token,), text)
            return
        for number, piece in enumerate(self._tokenizer.spellings.split(text)):
            if number % 2:
                self._send(self._tokenizer.encode(piece, special=True), piece)
            elif _UNKNOWN in piece:
                self._emit(Tokens(request_id=self._request_id, ids=None, text=piece))
            elif piece:
                self._send(self._tokenizer.encode(piece, special=False), piece)

    def _send(self, ids: Sequence[int], text: str) -> None:
        self.ids += ids
        control = len(ids) == 1 and ids[0] in self._tokenizer.control
        self._emit(Tokens(request_id=self._request_id, ids=tuple(ids), text=text, control=control))

    def check(self, exact: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """What the program says at the end that it generated, unless the text was shown in another meaning: with a
        control token where plain text spelled one, or the other way round. Where it says nothing, no text is no ids."""
        if exact is None:
            return None if self.has_text else ()
        controls = self._tokenizer.control.keys()
        if [token for token in exact if token in controls] == [token for token in self.ids if token in controls]:
            return exact
        sys.stderr.write("an answer spelled control tokens in plain text: its ids are not kept\n")
        return None
