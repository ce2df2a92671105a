"""How an answer ends, in its client's words: the finish reason, and the worker's errors with the field they mean."""

from __future__ import annotations

from actors.sessions.answer import Answer
from actors.supervisor.faults import fault_of
from muse import protocol
from muse.api.chat_request import ChatRequest
from muse.api.metrics import AnswerEnd
from muse.chat.pictures import path_of_picture
from muse.errors import MuseError
from muse.structured.forms import asked_schemas, param_of


def finish_reason(answer: Answer | None, done: protocol.Done | None, *, out_of_budget: bool) -> AnswerEnd:
    """Why an answer that has not failed is over. done: None if the worker was not heard to the end."""
    if answer is not None and answer.stopped:
        reason = "stop"
    elif out_of_budget:
        return "length"
    else:
        reason = "cancelled" if done is None else done.finish_reason
    return "tool_calls" if reason == "stop" and answer is not None and answer.calls else reason


def fault_in_request(event: protocol.Error, request: ChatRequest, *, is_constrained: bool) -> MuseError:
    """The worker's error about a request, with the path of the field that it is about, if that is known."""
    fault = fault_of(event)
    if event.code in ("bad_request", "constrained_dead_end") and is_constrained:
        fault.param = param_of(asked_schemas(request))
    if event.image is not None:
        fault.param = path_of_picture(request.messages, event.image)
    return fault
