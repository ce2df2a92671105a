"""What a turn waits for before it begins: a model, and a prompt that can fit."""

from __future__ import annotations

from actors.kernel import Address
from actors.reply import Reply, Sign
from actors.state_board import ANSWERING, StateBoard
from actors.supervisor.faults import prompt_too_long
from actors.supervisor.messages import CountTokens, SupervisorMessage
from muse import protocol
from muse.errors import MuseError, Unavailable


async def wait_model(board: StateBoard, reply: Reply) -> protocol.Ready:
    """Wait for a model that answers, with signs of life meanwhile. Raises Unavailable when none will come by
    itself."""
    while True:
        version, state = board.version, board.value
        worker = state.worker
        if worker.state in ANSWERING and state.model is not None:
            return state.model
        if worker.state in ("failed", "stopped"):
            reason = worker.reason or "The model is not running."
            raise Unavailable("model_unavailable", reason)
        if worker.state == "restarting":
            reply.show(Sign(phase="restarting"))
        else:
            reply.show(Sign(phase="loading", fraction=worker.fraction))
        await board.wait_newer(version)


async def check_room(
    supervisor: Address[SupervisorMessage], segments: tuple[protocol.Segment, ...], model: protocol.Ready
) -> None:
    """Raise ClientFault when the prompt can never fit; what cannot be told now passes."""
    try:
        counted = await supervisor.ask(CountTokens(segments=segments))
    except MuseError:
        return  # the worker is gone: nothing is known, and the wait goes on
    tokens = counted.prompt_tokens
    if tokens is not None and tokens >= model.context_length:
        raise prompt_too_long(tokens, model.context_length)
