"""What a turn needs before it begins: a model that can do what is asked, and a prompt that can fit."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from actors.kernel import Address
from actors.reply import Reply, Sign
from actors.state_board import ANSWERING, StateBoard
from actors.supervisor.faults import model_unavailable, prompt_too_long
from actors.supervisor.messages import CountTokens, SupervisorMessage
from actors.threads import run_in_thread
from muse import protocol
from muse.api.chat_request import ChatRequest, model_not_found
from muse.chat.channels import can_call_tools
from muse.errors import ClientFault, MuseError
from muse.sizes import MIB, PROMPT_LINE_BYTES, is_too_long, json_string_bytes

ID_BYTES: Final = 11
"""In a line, with its comma: an id has at most 32 bits."""
LOOKED_AT_ONCE: Final = 256 * 1024
"""Characters that are looked at on the event loop: 1 ms. Longer texts are looked at in a thread."""
SEGMENT_BYTES: Final = 128
"""Around the text of a segment: names of fields, the hash of an image."""
MOST_BYTES: Final = 6
"""Of a character in JSON: `\\u0001`."""


async def wait_model(board: StateBoard, reply: Reply) -> protocol.Ready:
    """Wait for a model that answers, with signs of life meanwhile. Raises Unavailable when none will come by
    itself."""
    while True:
        version, state = board.version, board.value
        worker = state.worker
        if worker.state in ANSWERING and state.model is not None:
            return state.model
        if worker.state in ("failed", "stopped"):
            raise model_unavailable(worker.reason)
        if worker.state == "restarting":
            reply.show(Sign(phase="restarting"))
        else:
            reply.show(Sign(phase="loading", fraction=worker.fraction))
        await board.wait_newer(version)


def check_abilities(request: ChatRequest, model: protocol.Ready) -> None:
    """Raise ClientFault, with the name of the field, for what this model or its engine cannot do."""
    if request.model not in (None, model.model_id):
        raise model_not_found(model.model_id)
    if not model.supports.grammar:
        for name, wanted in (("response_format", request.json_schema), ("tool_choice", request.tool_use.forced)):
            if wanted:
                raise ClientFault(
                    "unsupported_parameter",
                    f"The engine of this server ({model.engine}) does not support structured output.",
                    param=name,
                )
    penalties = protocol.penalties_on(request.sampling)
    if penalties and not model.supports.penalties:
        raise ClientFault(
            "unsupported_parameter",
            f"The engine of this server ({model.engine}) has no penalties for repetition.",
            param=next(iter(penalties)),
        )
    pictured = next((index for index, message in enumerate(request.messages) if message.images), None)
    if pictured is not None and not model.supports.image:
        why = "it was loaded without an image projector (--mmproj)"
        if model.engine in ("executorch", "native"):
            why = "its artifact, or the worker that runs it, cannot read them"
        raise ClientFault(
            "unsupported_parameter",
            f"This model cannot see pictures, as in 'messages[{pictured}].content': {why}.",
            param=f"messages[{pictured}].content",
        )
    if request.tool_use.tools and not can_call_tools(model.chat_template):
        raise ClientFault(
            "unsupported_parameter",
            "This model's chat template has a form of tool calls that this server cannot read.",
            param="tools",
        )
    if request.max_tokens is not None and request.max_tokens > model.context_length:
        raise ClientFault(
            "invalid_value",
            f"max_tokens is {request.max_tokens}, but prompt and answer together have the model's context of "
            f"{model.context_length} tokens. Leave it out to use what room there is.",
            param="max_tokens",
            data={"context_length": model.context_length},
        )


async def check_length(request: ChatRequest, model: protocol.Ready) -> None:
    """Raise ClientFault for a conversation that must be longer than the context by its length alone, before any work on
    it. What an assistant said is left out: templates may drop parts of it, and it may stand there as ids."""
    texts = [message.content for message in request.messages if message.role != "assistant"]
    for tool in request.tool_use.tools:
        texts += (tool.description, tool.parameters)
    await _refuse_too_long(texts, model)


async def check_size(segments: tuple[protocol.Segment, ...], json_schema: str | None, model: protocol.Ready) -> None:
    """Raise ClientFault for a prompt that must be longer than the context, or than a line to the worker may be."""
    texts = [segment.text for segment in segments if isinstance(segment, protocol.TextSegment)]
    await _refuse_too_long(texts, model)
    images = sum(len(segment.image) for segment in segments if isinstance(segment, protocol.ImageSegment))
    ids = sum(len(segment.ids) for segment in segments if isinstance(segment, protocol.IdsSegment))
    rest = images + ids * ID_BYTES + len(segments) * SEGMENT_BYTES
    if json_schema is not None:
        texts.append(json_schema)
    if rest + sum(map(len, texts)) * MOST_BYTES <= PROMPT_LINE_BYTES:
        return
    size = rest + await run_in_thread(lambda: sum(map(json_string_bytes, texts)))
    if size > PROMPT_LINE_BYTES:
        raise ClientFault(
            "prompt_too_large",
            f"The prompt of this conversation takes {size / MIB:.0f} MiB, more than the {PROMPT_LINE_BYTES // MIB} MiB "
            "that are handed to the model process. Shorten it.",
            param="messages",
        )


async def _refuse_too_long(texts: Collection[str], model: protocol.Ready) -> None:
    context, longest = model.context_length, model.longest_token_bytes
    look = partial(is_too_long, texts, context_length=context, longest_token_bytes=longest)
    is_long = sum(map(len, texts)) > LOOKED_AT_ONCE
    if await run_in_thread(look) if is_long else look():
        raise prompt_too_long(None, context)


async def check_room(
    supervisor: Address[SupervisorMessage], segments: tuple[protocol.Segment, ...], model: protocol.Ready
) -> None:
    """Raise ClientFault when the prompt can never fit; what cannot be told now passes."""
    try:
        counted = await supervisor.ask(CountTokens(segments=segments))
    except ClientFault:
        raise  # what the count refuses, the answer would be refused for
    except MuseError:
        return  # the worker is gone: nothing is known, and the wait goes on
    tokens = counted.prompt_tokens
    if tokens is not None and tokens >= model.context_length:
        raise prompt_too_long(tokens, model.context_length)
