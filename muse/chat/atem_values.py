"""From the raw text of an ATEM parameter to a value of its declared type (contracts/harmony-format.md section 5).

The text is not escaped and says nothing of its type, so the schema decides. What does not fit its type stays the
text that it is: the client, who knows what the tool can take, gets what the model wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from muse.errors import ClientFault
from muse.strict_json import JsonValue, decode_json

# As many digits as numbers in a request may have (strict_json.py).
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}


def typed_value(text: str, schema: Any) -> JsonValue:
    """Read a parameter. schema: its JSON schema, None where none is declared. Always finite, always UTF-8."""
    declared = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    match declared:
        case "string":
            return text
        case "boolean":
            return _BOOLEANS.get(text.strip().lower(), text)
        case "integer":
            return int(trimmed) if _INTEGER.fullmatch(trimmed := text.strip()) else text
        case "number":
            return _number(text)
        case _:
            return _json(text)


def _number(text: str) -> JsonValue:
    trimmed = text.strip()
    if _INTEGER.fullmatch(trimmed):
        return int(trimmed)
    if _NUMBER.fullmatch(trimmed) and math.isfinite(number := float(trimmed)):
        return number
    return text


def _json(text: str) -> JsonValue:
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except ClientFault:
        return text
