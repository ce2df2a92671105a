"""The Quart application: routes joined together, and every error as our JSON envelope.

Security, static files and body limits lie before it (gate.py); connections around it (serve.py).
"""

from __future__ import annotations

import codecs
import logging

from quart import Response
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter

from actors.front.answers import fault_answer
from actors.front.context import FrontContext
from actors.front.routes_chat import chat_routes
from actors.front.routes_drafts import draft_routes
from actors.front.routes_sessions import session_routes
from actors.front.routes_state import state_routes
from muse.errors import ClientFault, InternalFault, MuseError

log = logging.getLogger("muse.front")

# werkzeug encodes the Host of each request with it. A codec is imported when it is first used, and with no file
# descriptor left the first request would get a 500.
codecs.lookup("idna")


class SessionIdConverter(BaseConverter):
    """Any text, slashes included, also as its first or last character (werkzeug's `path` does not begin with one).
    Which texts are session ids `parse_session_id` decides."""

    regex = ".+"
    weight = 200
    part_isolating = False


def _respond(fault: MuseError) -> Response:
    answer = fault_answer(fault.without_frames())
    response = Response(answer.body, status=answer.status)
    response.headers.clear()
    for name, value in answer.headers:
        response.headers[name.decode("ascii")] = value.decode("latin-1")
    return response


def make_app(context: FrontContext) -> QuartTrio:
    """Build the application. It keeps no state of its own."""
    app = QuartTrio(__name__, static_folder=None)
    # What the gate and the connections decide already is not decided a second time, with other figures.
    app.config["MAX_CONTENT_LENGTH"] = None
    app.config["BODY_TIMEOUT"] = None
    app.config["RESPONSE_TIMEOUT"] = None
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    app.url_map.converters["session_id"] = SessionIdConverter
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the order of our documents is for readers

    async def on_muse_error(fault: Exception) -> Response:
        assert isinstance(fault, MuseError)
        if fault.status >= 500:
            log.warning("request-failed code=%s", fault.code)
        return _respond(fault)

    async def on_http_error(fault: Exception) -> Response:
        assert isinstance(fault, HTTPException)
        code = fault.code or 500
        if code == 404:
            return _respond(ClientFault("not_found", "There is nothing at this address.", status=404))
        if code == 405:
            methods = sorted(set(getattr(fault, "valid_methods", None) or ()) - {"OPTIONS"})
            allow = ", ".join(methods)
            detail = f"This address takes {allow or 'no such method'}."
            return _respond(ClientFault("method_not_allowed", detail, status=405, data={"allow": allow}))
        return _respond(ClientFault("bad_request", f"{fault.name}.", status=code))

    async def on_any_error(fault: Exception) -> Response:
        # Barrier: whatever a request does, its connection gets an answer.
        log.error("request-crashed", exc_info=fault)
        return _respond(InternalFault("internal_error", "The server failed to handle this request."))

    app.register_error_handler(MuseError, on_muse_error)
    app.register_error_handler(HTTPException, on_http_error)
    app.register_error_handler(Exception, on_any_error)
    app.register_blueprint(state_routes(context))
    app.register_blueprint(chat_routes(context))
    app.register_blueprint(session_routes(context))
    app.register_blueprint(draft_routes(context))
    return app
