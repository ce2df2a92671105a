"""From the raw text of an ATEM parameter to a value of its declared type (contracts/harmony-format.md section 5).

The text is not escaped and says nothing of its type, so the schema decides (allowed_values.py):

1. The text itself, to the letter, where the schema allows a string by name and this one is allowed. For a list of
   values such as `["a", "b"]` also the text without the white space around it.
2. Else the value that it reads as in JSON, if that is allowed: `90210`, `true`, `null`, `{"a": 1}`.
3. Else what plainly means an allowed boolean (`True`) or number (`+7`, `.5`).
4. Else the text: the client, who knows what the tool can take, gets what the model wrote.

So `1` is "1" for `["string", "integer"]` and for `{"enum": [1, "1"]}`, and 1 for `{"enum": [1, "a"]}`. Where nothing
is said of types, what reads as JSON is that value. A whole number for an integer has no point and no exponent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from muse.chat.allowed_values import Allowed
from muse.errors import ClientFault
from muse.strict_json import JsonValue, decode_json

MAX_DEPTH: Final = 63
"""One less than what `arguments` of a request may have: the value stands inside an object there."""

# As many digits as numbers in a request may have (strict_json.py).
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}


def typed_value(text: str, allowed: Allowed) -> JsonValue:
    """Read a parameter. allowed: what its schema allows. Always finite."""
    if allowed.names_string:
        for spelled in (text, text.strip()):
            if allowed.has(spelled):
                return spelled
    return next((value for value in _readings(text, allowed) if allowed.has(value)), text)


def _readings(text: str, allowed: Allowed) -> Iterator[JsonValue]:
    with suppress(ClientFault):
        yield decode_json(text.encode("utf-8", "surrogatepass"), max_depth=MAX_DEPTH)
    if allowed.is_anything:
        return
    trimmed = text.strip()
    if trimmed.lower() in _BOOLEANS:
        yield _BOOLEANS[trimmed.lower()]
    if _INTEGER.fullmatch(trimmed):
        yield int(trimmed)
    elif _NUMBER.fullmatch(trimmed) and math.isfinite(number := float(trimmed)):
        yield number
