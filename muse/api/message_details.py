"""What is shown beside an answer: fields that `GET /v1/sessions/{id}` gives with a message of the assistant.

Clients hand them back with the message, and may have them from elsewhere, such as a chat that was kept in a file. They
are kept as they are, to be shown again, and mean nothing to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muse.api.fields import invalid_value, read_object, read_text
from muse.json_pieces import json_pieces, json_text
from muse.sizes import MAX_DETAILS_CHARS, MAX_ID_CHARS

DETAILS: Final = ("reasoning_content", "reply_id", "finish_reason", "muse_metrics", "error")
"""Their names, in the order in which they are shown."""


def read_detail(name: str, value: object, path: str) -> object:
    """Check the form of one of them; it is not null. Raises ClientFault."""
    if name in ("muse_metrics", "error"):
        return read_object(value, path)
    text = read_text(value, path)
    if name != "reasoning_content" and len(text) > MAX_ID_CHARS:
        raise invalid_value(path, f"must have at most {MAX_ID_CHARS} characters")
    return text


def written_details(details: Mapping[str, object], path: str) -> str:
    """All of one message as JSON text, empty if there are none. Raises ClientFault if they are too long."""
    shown = {name: details[name] for name in DETAILS if details.get(name) not in (None, "")}
    if not shown:
        return ""
    beside = {name: value for name, value in shown.items() if name != "reasoning_content"}
    if json_text(beside, most_chars=MAX_DETAILS_CHARS) is None:
        raise invalid_value(path, f"has more than {MAX_DETAILS_CHARS} characters beside its text and reasoning")
    return "".join(json_pieces(shown))
