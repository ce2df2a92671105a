"""Bodies of chat requests for the tests of their checks."""

from __future__ import annotations

from typing import Any, Final

import pytest

from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.errors import ClientFault
from muse.protocol import Sampling

_VALUES: Final[dict[str, Any]] = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "repeat_penalty": 1.1,
    "presence_penalty": 0.2,
    "frequency_penalty": -0.3,
    "seed": None,
}
DEFAULTS: Final = SamplingDefaults(**_VALUES, max_tokens=512)
SAMPLING: Final = Sampling(**_VALUES)
"""What they make of a request that says nothing of it."""
USER: Final = {"role": "user", "content": "hi"}


def parse(**fields: Any) -> ChatRequest:
    """The request of one question with these fields."""
    return parse_chat_request({"messages": [USER], **fields}, DEFAULTS)


def refuse(body: object) -> ClientFault:
    """Why this body is refused."""
    with pytest.raises(ClientFault) as caught:
        parse_chat_request(body, DEFAULTS)
    assert caught.value.status == 400
    return caught.value


def refuse_field(name: str, value: object) -> ClientFault:
    """Why one question with this field is refused."""
    return refuse({"messages": [USER], name: value})
