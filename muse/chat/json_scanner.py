"""Follows a JSON object that comes in pieces: whether a string is open, whether the object is complete."""

from __future__ import annotations

import re
from typing import Final

_STRING: Final = re.compile(r'[^"\\\x00-\x1f]*+')
_SPACE: Final = re.compile(r"[ \t\r\n]*+")
# Also what true, false, null and numbers are made of. Whether they are well made is for the decoder.
_BETWEEN: Final = re.compile(r"[ \t\r\n:,0-9.eE+\-truefalsn]*+")


class JsonScanner:
    """Linear in the text. It sees only the mistakes that make it lose the thread; the rest a decoder finds."""

    def __init__(self) -> None:
        self.is_in_string = False
        self.is_complete = False
        self.is_broken = False
        """No JSON object begins like this; nothing more is followed."""
        self._depth = 0
        self._is_escaped = False

    def feed(self, text: str) -> None:
        """Take the next piece."""
        position = 0
        while position < len(text) and not self.is_broken:
            if self._is_escaped:
                self._is_escaped = False
                position += 1
                continue
            if self.is_in_string:
                plain = _STRING
            else:
                plain = _BETWEEN if self._depth else _SPACE
            found = plain.match(text, position)
            assert found is not None  # they match nothing, too
            position = found.end() + 1
            if position <= len(text):
                self._mark(text[position - 1])

    def _mark(self, char: str) -> None:
        if self.is_in_string:
            self.is_in_string = char != '"' and char >= " "
            self._is_escaped = char == "\\"
            self.is_broken = char < " "
        elif char == '"' and self._depth:
            self.is_in_string = True
        elif char in "{[" and not self.is_complete and (self._depth or char == "{"):
            self._depth += 1
        elif char in "}]" and self._depth:
            self._depth -= 1
            self.is_complete = not self._depth
        else:
            self.is_broken, self.is_complete = True, False
