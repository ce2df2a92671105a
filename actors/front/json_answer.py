"""Long JSON answers, made where they hold nobody up."""

from __future__ import annotations

from collections.abc import Callable

from quart import Response

from actors.threads import run_in_thread
from muse.json_pieces import json_bytes


async def json_answer(make: Callable[[], object]) -> Response:
    """An answer with what `make` returns, which is called and encoded in a thread: a session or a prompt may have
    megabytes."""
    return Response(await run_in_thread(lambda: json_bytes(make())), mimetype="application/json")
