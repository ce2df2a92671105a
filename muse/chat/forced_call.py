"""A call that must be made (`tool_choice` required, or a certain function).

Constrained decoding holds the answer to one JSON object, the name of a tool and arguments by its schema
(muse/structured/jobs.py), whatever form the model has for calls of its own. So the call is always valid, and the model
gets no thoughts before it. What comes out is not what the model would have written, so its ids are not kept: later
prompts have the call as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from muse.api.chat_request import ChatRequest
from muse.api.held_form import HeldForm
from muse.chat import harmony
from muse.chat.channel_types import CUT_OFF, BrokenCall, Channel, ChannelParser, Event, FoundCall, TextKind
from muse.errors import ClientFault
from muse.protocol import Segment, TextSegment
from muse.strict_json import decode_json


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


def answer_prefix(parser: ChannelParser) -> tuple[Segment, ...]:
    """What stands between the prompt and an answer that is constrained to JSON: the model would write it itself before
    an answer to the user. parser: as above."""
    if isinstance(parser, harmony.HarmonyParser):
        return (TextSegment(text=f" to=user{harmony.MESSAGE}", special=True),)
    return parser.close_reasoning() or ()


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
        if not text:
            return []
        try:
            # As strict as a request is read, so that every call that goes out can come back.
            call: Any = decode_json(text.encode("utf-8", "surrogatepass"))
            found = FoundCall(name=call["name"], arguments=json.dumps(call["arguments"], ensure_ascii=False))
        except ClientFault as fault:
            if not _is_whole(text):
                return [BrokenCall(text=text, name=None, reason=CUT_OFF)]  # kept, for it may go on
            self._texts.clear()
            return [BrokenCall(text=text, name=None, reason=f"The call cannot be read. {fault.detail}")]
        except (TypeError, KeyError):
            return [BrokenCall(text=text, name=None, reason=CUT_OFF)]
        self._texts.clear()
        return [found]

    def close_reasoning(self) -> None:
        return

    def answer_call(self, name: str, text: str) -> None:
        return

    def copy(self) -> ForcedCallParser:
        copied = ForcedCallParser()
        copied._texts = self._texts[:]
        return copied


def _is_whole(text: str) -> bool:
    """Not cut: also what is no strict JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        pass
    return True
