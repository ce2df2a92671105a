"""Long JSON answers, made where they hold nobody up."""

from __future__ import annotations

import json
from collections.abc import Callable

from quart import Response

from actors.threads import run_in_thread


async def json_answer(make: Callable[[], object]) -> Response:
    """An answer with what `make` returns, which is called and encoded in a thread: a session or a prompt may have
    megabytes. Encoded piece by piece, since one call for all of it would keep the interpreter lock."""

    def written() -> bytes:
        return "".join(json.JSONEncoder().iterencode(make())).encode()

    return Response(await run_in_thread(written), mimetype="application/json")
