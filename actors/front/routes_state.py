"""Routes that tell and change the state: health, readiness, runtime, events, models, cancel.

None of them waits for the model: they read the StateBoard, which is a value.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import attrs
import trio
from quart import Blueprint, Response, request

from actors.front.body import read_json
from actors.front.context import FrontContext
from actors.front.sse import sse_comment, sse_event, sse_response
from actors.sessions.messages import CancelTurn
from actors.state_board import ANSWERING
from actors.supervisor.messages import RestartWorker
from muse.api.chat_request import parse_session_id
from muse.api.fields import invalid_value
from muse.api.images import MAX_IMAGE_BYTES, MAX_IMAGES, MAX_PIXELS, MAX_REQUEST_BYTES, MAX_SIDE
from muse.api.responses import model_body, models_body
from muse.errors import RETRY_AFTER_S, ClientFault, Unavailable
from muse.sizes import DRAFT_BYTES
from muse.strict_json import JsonValue
from muse.worker.picture_size import FRAME, MOST_CELLS, cells_of

EVENTS_PING_S: Final = 15.0


def state_routes(context: FrontContext) -> Blueprint:
    """The routes, over one context."""
    routes = Blueprint("state", __name__)
    board = context.board

    @routes.get("/health")
    async def health() -> dict[str, object]:
        return {"status": "ok", "worker": board.value.worker.as_dict()}

    @routes.get("/ready")
    async def ready() -> tuple[dict[str, object], int, dict[str, str]]:
        worker = board.value.worker
        body: dict[str, object] = {"ready": worker.state in ANSWERING, "worker": worker.as_dict()}
        return (body, 200, {}) if body["ready"] else (body, 503, {"Retry-After": str(RETRY_AFTER_S)})

    @routes.get("/api/runtime")
    async def runtime() -> dict[str, object]:
        limits = context.settings.limits
        model = board.value.model
        return {
            **context.state_dict(),
            "server": {**context.server_dict(), "uptime_s": context.uptime_s()},
            "limits": {
                "queue": limits.queue,
                "max_inflight": model.max_inflight_requests if model is not None else None,
                "body_bytes": limits.body_bytes,
                "draft_bytes": DRAFT_BYTES,
                "pictures": {
                    "max_bytes": MAX_IMAGE_BYTES,
                    "max_total_bytes": MAX_REQUEST_BYTES,
                    "max_count": MAX_IMAGES,
                    "max_side": MAX_SIDE,
                    "max_pixels": MAX_PIXELS,
                },
            },
            "defaults": attrs.asdict(context.defaults),
        }

    @routes.get("/api/picture-tokens")
    async def picture_tokens() -> dict[str, object]:
        width, height = _side("width"), _side("height")
        if width * height > MAX_PIXELS:
            raise invalid_value("height", f"must be such that there are at most {MAX_PIXELS:,} pixels")
        model = board.value.model
        most = model.max_image_cells if model is not None and model.max_image_cells else MOST_CELLS
        rows, columns = cells_of(width, height, most)
        return {"tokens": rows * columns + FRAME, "rows": rows, "columns": columns}

    @routes.get("/api/events")
    async def events() -> Response:
        return sse_response(_state_events(context))

    @routes.get("/v1/models")
    async def models() -> dict[str, object]:
        model = board.value.model
        return models_body([model.model_id] if model is not None else [], created=int(context.started_at))

    @routes.get("/v1/models/<path:model_id>")
    async def one_model(model_id: str) -> dict[str, object]:
        model = board.value.model
        if model is None or model_id != model.model_id:
            raise ClientFault("model_not_found", "That model is not loaded here.", status=404, param="model")
        return model_body(model.model_id, created=int(context.started_at))

    @routes.post("/api/cancel")
    async def cancel() -> dict[str, object]:
        target = _cancel_target(await read_json(request))
        if board.value.worker.state in ("failed", "stopped"):
            raise Unavailable("model_unavailable", "The model is not running, so there is nothing to cancel.")
        done = await context.sessions.ask(
            CancelTurn(reply_id=target.get("reply_id"), session_id=target.get("session_id"))
        )
        return {"cancelled": done}

    @routes.post("/api/worker/restart")
    async def restart() -> dict[str, object]:
        await context.supervisor.ask(RestartWorker())
        return {"restarting": True}

    return routes


def _side(name: str) -> int:
    """A side of a picture from the query, in pixels of the upright picture."""
    given = request.args.get(name, "")
    if not (given.isascii() and given.isdecimal() and len(given) <= 5 and 1 <= int(given) <= MAX_SIDE):
        raise invalid_value(name, f"must be a whole number from 1 to {MAX_SIDE}")
    return int(given)


def _cancel_target(body: JsonValue) -> dict[str, str]:
    """Exactly one of reply_id and session_id, both strings."""
    if not isinstance(body, dict):
        raise ClientFault("invalid_type", 'The body must be {"reply_id": "..."} or {"session_id": "..."}.')
    unknown = sorted(set(body) - {"reply_id", "session_id"})
    if unknown:
        raise ClientFault("unknown_parameter", f"Unknown field: {', '.join(unknown)[:200]}.", param=unknown[0][:100])
    given = {name: value for name, value in body.items() if value is not None}
    if len(given) != 1:
        raise ClientFault("invalid_value", "Give exactly one of reply_id and session_id.", param="reply_id")
    ((name, value),) = given.items()
    if name == "session_id":
        return {name: parse_session_id(value)}
    if not isinstance(value, str):
        raise ClientFault("invalid_type", "reply_id must be a string.", param="reply_id")
    return {name: value}


async def _state_events(context: FrontContext) -> AsyncIterator[bytes]:
    """The state now, then each change of it, until the server stops. A slow reader skips states: it
    gets the newest one."""
    board = context.board
    while True:
        version = board.version
        if board.value.stopping:
            yield sse_event("stopping", {})
            return
        yield sse_event("state", context.state_dict())
        while board.version == version:
            with trio.move_on_after(EVENTS_PING_S) as patience:
                await board.wait_newer(version)
            if patience.cancelled_caught:
                yield sse_comment("ping")
