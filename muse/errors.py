"""Errors of the whole product: one tree, split by whose fault it is and what to do now.

Fields, not sentences, are the contract: `code` is stable and snake_case, `detail` is safe to show to
the client, `data` holds numbers a program may want (token counts, limits). The HTTP front turns any
of these into `{"error": {"message", "type", "code", "param"}}`; nothing else in the tree knows HTTP
beyond the status number kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

JsonScalar = str | int | float | bool | None

_TYPE_BY_STATUS: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    429: "capacity_error",
}
_TRY_AGAIN: Final = frozenset({429, 503})
RETRY_AFTER_S: Final = 5
"""Where nobody knows better. A model process is back by then, most of the time."""


class MuseError(Exception):
    """Root of all errors that may reach a client.

    Args:
        code: stable name for programs, snake_case.
        detail: one sentence for people: what, where, how to mend it. No prompt or answer text.
        status: HTTP status the front answers with.
        param: path of the offending request field (`messages[2].role`), if there is one.
        retry_after_s: seconds after which the same request may work (sent as Retry-After). Every 429 and 503 has it:
            RETRY_AFTER_S if nothing else is said.
        data: extra members of the error object, such as token counts.
    """

    default_status: int = 500

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
        data: Mapping[str, JsonScalar] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = self.default_status if status is None else status
        self.param = param
        self.retry_after_s = RETRY_AFTER_S if retry_after_s is None and self.status in _TRY_AGAIN else retry_after_s
        self.data: Mapping[str, JsonScalar] = dict(data or {})

    def without_frames(self) -> Self:
        """The same error, to be kept, shared or answered: a copy that was never raised. The raised one forgets where.

        A raised error holds the frames that it went through, which hold the request with all its text, and often the
        error too, so that only the garbage collector would free them."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        fault = type(self).__new__(type(self))
        fault.args = self.args
        fault.__dict__.update(self.__dict__)
        return fault

    @property
    def type(self) -> str:
        """The OpenAI error type that goes with the status."""
        if self.status in _TYPE_BY_STATUS:
            return _TYPE_BY_STATUS[self.status]
        return "invalid_request_error" if self.status < 500 else "server_error"

    def envelope(self) -> dict[str, dict[str, JsonScalar]]:
        """The body every HTTP error has, also inside a stream."""
        return {
            "error": {
                "message": self.detail,
                "type": self.type,
                "code": self.code,
                "param": self.param,
                **self.data,
            }
        }


class ClientFault(MuseError):
    """The request cannot be served as it stands; the same request will fail again."""

    default_status = 400


class Unavailable(MuseError):
    """The request is fine, the system cannot serve it now: no worker, shutting down, queue full."""

    default_status = 503


class WorkerFault(MuseError):
    """The model process failed this request (died, reported an engine error, broke the protocol)."""

    default_status = 500


class InternalFault(MuseError):
    """A fault of ours, caught by a barrier."""

    default_status = 500


class EnvironmentFault(MuseError):
    """Something outside our code stands in the way: port taken, model file missing, folder read-only."""

    default_status = 500
