"""Routes of drafts: what a page is about to say in a session, kept in memory while the page is reloaded.

`/api/drafts/{part}/{session id}`: the part comes first because a session's id may hold any character. What a part
holds is the client's own; it is checked to be JSON and given back as it came. With `"adds": true` it replaces nothing,
and is given back beside what is kept, as `added`: for a page that is left before it has seen what that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast, get_args

from quart import Blueprint, Response, request

from actors.front.body import parse_data, read_data
from actors.front.context import FrontContext
from actors.transcripts.messages import DraftPart, SaveDraft, ShowDraft
from muse.api.chat_request import parse_session_id
from muse.api.fields import Offenders, invalid_type, invalid_value
from muse.errors import ClientFault
from muse.sizes import DRAFT_BYTES, MIB
from muse.strict_json import JsonValue

_MOST_VERSION: Final = 2**53 - 1
"""The largest whole number that JavaScript is sure of."""
_NOTHING: Final = b'{"version":null,"content":null}'


def draft_routes(context: FrontContext) -> Blueprint:
    """The routes, over one context."""
    routes = Blueprint("drafts", __name__)
    transcripts = context.transcripts

    @routes.get("/api/drafts/<part>/<session_id:session_id>")
    async def show_draft(part: str, session_id: str) -> Response:
        ask = ShowDraft(session_id=parse_session_id(session_id), part=_parse_part(part))
        body, added = await transcripts.ask(ask)
        return Response(_with_added(body or _NOTHING, added), content_type="application/json")

    @routes.put("/api/drafts/<part>/<session_id:session_id>")
    async def save_draft(part: str, session_id: str) -> dict[str, object]:
        known, kind = parse_session_id(session_id), _parse_part(part)
        given = read_data(request)
        if len(given) > DRAFT_BYTES:
            raise ClientFault(
                "draft_too_large",
                f"This draft has more than the {DRAFT_BYTES // MIB} MiB that are kept.",
                status=413,
            )
        version, adds = await parse_data(given, _parse_version)
        body = bytes(given)
        saved = await transcripts.ask(SaveDraft(session_id=known, part=kind, version=version, body=body, adds=adds))
        return {"saved": saved}

    return routes


def _parse_part(part: str) -> DraftPart:
    if part not in get_args(DraftPart):
        raise ClientFault("not_found", "A draft has the parts text and files.", status=404)
    return cast("DraftPart", part)  # one of its values


def _with_added(body: bytes, added: Sequence[bytes]) -> bytes:
    """A body, which is a JSON object, with what was added to it as one more member."""
    return body if not added else body.rstrip()[:-1] + b',"added":[' + b",".join(added) + b"]}"


def _parse_version(body: JsonValue) -> tuple[int, bool]:
    """The body {"version": whole number, "content": anything, "adds": true or false}, the last one if wanted."""
    if not isinstance(body, dict) or "content" not in body:
        raise ClientFault("invalid_type", 'The body must be {"version": ..., "content": ...}.')
    offenders = Offenders()
    for key in body:
        if key not in ("version", "content", "adds"):
            offenders.add_unknown(key)
    offenders.raise_if_any()
    version = body.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise invalid_type("version", "a whole number")
    if not 0 <= version <= _MOST_VERSION:
        raise invalid_value("version", f"must be from 0 to {_MOST_VERSION}")
    adds = body.get("adds", False)
    if not isinstance(adds, bool):
        raise invalid_type("adds", "true or false")
    return version, adds
