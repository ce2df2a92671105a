"""The channels of Harmony, the language of Muse Glimmer: reasoning to oneself, the answer to the user.

Grammar (contracts/harmony-format.md section 2), S = `<|start|>`, M = `<|message|>`:

    message := S "assistant" [" to=" recipient] [" constrain=" name] M body (`<|eom|>` | `<|eot|>`)

The prompt ends behind S "assistant", so a turn begins inside a header. `self` is reasoning, everything else
is visible: the user, nobody, and names that stand for nothing here. Messages of one kind are joined by a blank
line. Only `<|eot|>` ends a turn.

Where the worker knows ids it says which tokens are control tokens, and text that merely looks like one is
text. Where it does not (`mixed`), spellings count, and what may still become one is held back until it is
one or is not. `flush` gives that out: no text is lost, and no control token is ever shown.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from muse.chat.channel_types import Channel, Piece, TextKind
from muse.protocol import Segment, TextSegment

START: Final = "<|start|>"
MESSAGE: Final = "<|message|>"
END_OF_MESSAGE: Final = "<|eom|>"
END_OF_TURN: Final = "<|eot|>"

_SPELLING: Final = re.compile(r"<\|[a-z_]{1,24}\|>")
_UNFINISHED: Final = re.compile(r"<(\|([a-z_]{0,24}\|?)?)?\Z")
# Wider than the grammar: whatever stands between a role and `<|message|>` is no text for anybody.
_RECIPIENT: Final = re.compile(r"(?:assistant)?\s*to ?= ?(?P<to>[^\s]+)")
_HEADER: Final = re.compile(r"(?:assistant)?\s*(?:(?:to ?=|constrain=)[^\n]*)?")
_WORDS: Final = ("assistant", "to=", "to =", "constrain=")
# Longest header that is waited for: anything longer is a message without one.
_MOST_HEADER: Final = 256
_REASONING: Final = "self"


class HarmonyParser:
    """One turn. Fed in order, any chunking."""

    def __init__(self) -> None:
        self._state: Literal["header", "body", "between"] = "header"
        self._header = ""
        self._channel: Channel = "answer"
        self._held = ""
        self._said: set[Channel] = set()
        self._is_joining = False  # a message of this kind came before: a blank line parts them

    @property
    def channel(self) -> Channel:
        """Where the next text belongs; a header belongs to the message before it."""
        return self._channel

    def feed(self, text: str, kind: TextKind = "text") -> list[Piece]:
        """Take generated text, give what is certain."""
        pieces: list[Piece] = []
        if kind == "control":
            self._release(pieces)
            self._control(text, pieces)
        elif kind == "text":
            self._release(pieces)
            self._text(text, pieces)
        else:
            self._mixed(text, pieces)
        return [piece for piece in pieces if piece[1]]

    def flush(self) -> list[Piece]:
        """The generation is over: a header that never became one is text after all."""
        pieces: list[Piece] = []
        self._release(pieces)
        if self._state == "header" and not _HEADER.fullmatch(self._header):
            self._give_up_header(pieces)
        self._header = ""
        return [piece for piece in pieces if piece[1]]

    def close_reasoning(self) -> tuple[Segment, ...] | None:
        """The end of the message and the header of one to the user."""
        if self._state != "body" or self._channel != "reasoning":
            return None
        self._held = ""
        self._open("answer")
        return (TextSegment(text=f"{END_OF_MESSAGE}{START}assistant to=user{MESSAGE}", special=True),)

    # ------------------------------------------------------------ text whose control tokens are not marked

    def _mixed(self, text: str, pieces: list[Piece]) -> None:
        text, self._held = self._held + text, ""
        position = 0
        for found in _SPELLING.finditer(text):
            self._text(text[position : found.start()], pieces)
            self._control(found[0], pieces)
            position = found.end()
        rest = text[position:]
        unfinished = _UNFINISHED.search(rest)
        cut = unfinished.start() if unfinished else len(rest)
        self._text(rest[:cut], pieces)
        self._held = rest[cut:]

    def _release(self, pieces: list[Piece]) -> None:
        held, self._held = self._held, ""
        self._text(held, pieces)

    # ------------------------------------------------------------ the grammar

    def _control(self, token: str, pieces: list[Piece]) -> None:
        if token == MESSAGE and self._state != "body":
            header = _RECIPIENT.match(self._header)
            self._open("reasoning" if header is not None and header["to"] == _REASONING else "answer")
        elif token == START:
            if self._state == "header":
                self._give_up_header(pieces)
            self._state, self._header = "header", ""
        elif token in (END_OF_MESSAGE, END_OF_TURN):
            if self._state == "header":
                self._give_up_header(pieces)
            self._state = "between"
        # Any other control token says nothing here, and is not shown.

    def _text(self, text: str, pieces: list[Piece]) -> None:
        if not text:
            return
        if self._state == "between":
            self._open("answer")  # text outside of any message
        if self._state == "header":
            self._header += text
            if not _may_become_header(self._header):
                self._give_up_header(pieces)
            return
        self._say(text, pieces)

    def _give_up_header(self, pieces: list[Piece]) -> None:
        """It was no header: a message without one, for the user."""
        text, self._header = self._header, ""
        if text:
            self._open("answer")
            self._say(text, pieces)

    def _open(self, channel: Channel) -> None:
        self._state, self._channel, self._header = "body", channel, ""
        self._is_joining = channel in self._said

    def _say(self, text: str, pieces: list[Piece]) -> None:
        if self._is_joining:
            pieces.append((self._channel, "\n\n"))
            self._is_joining = False
        self._said.add(self._channel)
        pieces.append((self._channel, text))


def _may_become_header(text: str) -> bool:
    """Whether text without its `<|message|>` may be a header or the beginning of one."""
    if len(text) > _MOST_HEADER:
        return False
    if _HEADER.fullmatch(text):
        return True
    rest = text.removeprefix("assistant").lstrip() if text.startswith("assistant") else text.lstrip()
    return any(word.startswith(rest) for word in _WORDS)
