"""A call that must be made (`tool_choice` required, or a certain function).

Constrained decoding holds the answer to one JSON object, the name of a tool and arguments by its schema
(muse/structured/jobs.py), whatever form the model has for calls of its own. So the call is always valid, and the model
gets no thoughts before it. What comes out is not what the model would have written, so its ids are not kept: later
prompts have the call as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from muse.api.chat_request import ChatRequest
from muse.api.held_form import HeldForm
from muse.chat import harmony
from muse.chat.channel_types import BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.errors import ClientFault
from muse.protocol import Segment, TextSegment
from muse.strict_json import decode_json

_CUT_OFF: Final = "The call is cut off before its end, and cannot be continued."


def form_of(request: ChatRequest) -> HeldForm | None:
    """What the answer is held to, None if it is free. An answer with a form never begins without its check."""
    asked = request.json_schema is not None or bool(request.tool_use.forced)
    assert asked == (request.form is not None), "the form of a request is checked before its turn"
    return request.form


def call_prefix(parser: ChannelParser, forced: Sequence[str]) -> tuple[Segment, ...]:
    """What stands between the prompt and the object. parser: that of an ordinary answer, as it is before the first
    token; it knows whether the prompt has opened a thought."""
    if isinstance(parser, harmony.HarmonyParser):
        recipient = forced[0] if len(forced) == 1 else "tool"
        return (TextSegment(text=f" to={recipient}{harmony.MESSAGE}", special=True),)
    return (*(parser.close_reasoning() or ()), TextSegment(text="<tool_call>\n", special=True))


class ForcedCallParser:
    """Reads the one object. Nothing is certain before its end."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    @property
    def channel(self) -> Channel:
        return "answer"

    @property
    def turn_over(self) -> bool:
        return False

    def feed(self, text: str, kind: TextKind = "text") -> list[Event]:
        if kind != "control":
            self._texts.append(text)
        return []

    def flush(self) -> list[Event]:
        text = "".join(self._texts)
        self._texts.clear()
        if not text:
            return []
        try:
            # As strict as a request is read, so that every call that goes out can come back.
            call: Any = decode_json(text.encode("utf-8", "surrogatepass"))
            return [FoundCall(name=call["name"], arguments=json.dumps(call["arguments"], ensure_ascii=False))]
        except ClientFault as fault:
            is_whole = text.rstrip().endswith("}")
            reason = f"The call cannot be read. {fault.detail}" if is_whole else _CUT_OFF
            return [BrokenCall(text=text, name=None, reason=reason)]
        except (TypeError, KeyError):
            return [BrokenCall(text=text, name=None, reason=_CUT_OFF)]

    def close_reasoning(self) -> None:
        return

    def answer_call(self, name: str, text: str) -> None:
        return

    def copy(self) -> ForcedCallParser:
        copied = ForcedCallParser()
        copied._texts = self._texts[:]
        return copied
