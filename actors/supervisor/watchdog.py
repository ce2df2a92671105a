"""When is a worker hung? Judged by progress, never by a live pid. Pure: time comes in as a value.

Three facts are watched. A *silent* worker sends no line at all: it is asked by a ping, which its protocol
loop answers in every phase, and given up when that stays unanswered too. A *stuck* request makes no
progress although the worker talks. An *unread* line is one of which the worker takes no further byte. All limits
depend on phase or engine, because a native call may hold the interpreter for its whole length.

A cancel that is not obeyed climbs the kill ladder: SIGTERM, then SIGKILL (design section 2). A worker
whose single steps are known to be slow is given as many of them; one that encodes an image, which nothing can
interrupt, is given longer, for a large model takes as long to load again. A step is what lies between two events of one
request once it was accepted; a wait for the engine, or for another request's image, is none.

Time is that of `actors/clock.py`: what passes while the main process is stopped is nobody's fault, and no time here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

Phase = Literal["load", "idle", "prefill", "decode"]


@attrs.frozen(kw_only=True)
class HangLimits:
    """Seconds. silent_*: without any line in that phase. stuck_*: one request without progress.

    load: a load prints a line at least every few seconds; 120 s or three good loads without one is a
    hang. prefill and decode: far above any step seen (64 tokens of prefill take 0.2 s here, and about
    1 s for a 30B model on a laptop). unread: a line waits in the pipe, and no byte of it is taken.
    """

    load_s: float = 120.0
    ping_after_s: float = 5.0
    silent_idle_s: float = 15.0
    silent_prefill_s: float = 60.0
    silent_decode_s: float = 30.0
    stuck_prefill_s: float = 120.0
    stuck_decode_s: float = 60.0
    unread_s: float = 15.0
    cancel_s: float = 2.0
    cancel_vision_s: float = 20.0
    term_s: float = 1.0


GIL_HOLDING: Final = HangLimits(
    load_s=600.0,
    silent_prefill_s=180.0,
    silent_decode_s=90.0,
    stuck_prefill_s=240.0,
    unread_s=180.0,
    cancel_s=20.0,
    cancel_vision_s=60.0,
)
"""For engines whose calls hold the interpreter: while one runs no ping is answered, no cancel and no other line read.

load: weights of 17 GB are made ready in one call, from a slow disk where memory is short. cancel: a chunk of 512 tokens
takes a 30B model 4 s on a fast laptop and 15 s on a slow one by its arithmetic, a picture of the largest size longer;
the first is cancelled before any was seen. Both are no more than another load would take."""

_LIMITS_BY_ENGINE: Final[Mapping[str, HangLimits]] = {"executorch": GIL_HOLDING}
STEPS_FOR_CANCEL: Final = 3
LOADS_PATIENCE: Final = 3


def limits_for(engine: str) -> HangLimits:
    """Of an engine, by its name."""
    return _LIMITS_BY_ENGINE.get(engine, HangLimits())


@attrs.frozen
class SendPing:
    """Ask whether it still listens."""


@attrs.frozen
class Terminate:
    """SIGTERM to the group."""

    reason: str


@attrs.frozen
class Kill:
    """SIGKILL to the group."""

    reason: str


Verdict = SendPing | Terminate | Kill | None


@attrs.define(slots=True)
class _Request:
    phase: Literal["prefill", "vision", "decode"]
    progress_at: float
    accepted: bool = False
    cancelled_at: float | None = None


@attrs.define(slots=True)
class Watchdog:
    """What is known of one worker process. `now` is monotonic seconds everywhere."""

    started_at: float
    limits: HangLimits = attrs.field(factory=HangLimits)
    last_load_s: float = 0.0
    _line_at: float = attrs.field(init=False)
    _ready: bool = False
    _pinged_at: float | None = None
    _terminated: bool = False
    _slowest_step_s: float = 0.0
    _slowest_picture_s: float = 0.0
    _picture_at: float = 0.0
    _requests: dict[str, _Request] = attrs.field(factory=dict[str, _Request])

    def __attrs_post_init__(self) -> None:
        self._line_at = self.started_at

    # ------------------------------------------------------------ what happened

    def line(self, now: float) -> None:
        """Any valid line came."""
        self._line_at = now
        self._pinged_at = None

    def ready(self, limits: HangLimits) -> None:
        """The model is loaded; from now on the limits of the engine that it says hold."""
        self._ready = True
        self.limits = limits

    def started(self, request_id: str, now: float) -> None:
        """A request was sent."""
        self._requests[request_id] = _Request("prefill", now)

    def progressed(self, request_id: str, now: float, *, token: bool, picture: bool = False) -> None:
        """A request got further: it was accepted, or got to a token, to an image, or on in its prompt."""
        request = self._requests.get(request_id)
        if request is not None:
            self._note_step(request, now - request.progress_at)
            request.accepted = True
            request.progress_at = now
            if picture:
                self._picture_at = now
            if token or request.phase != "decode":
                request.phase = "decode" if token else "vision" if picture else "prefill"

    def _note_step(self, request: _Request, step_s: float) -> None:
        if not request.accepted:
            return  # it may have waited for others until now
        if request.phase == "vision":
            self._slowest_picture_s = max(self._slowest_picture_s, step_s)
        elif self._picture_at <= request.progress_at and "vision" not in {r.phase for r in self._requests.values()}:
            self._slowest_step_s = max(self._slowest_step_s, step_s)

    def cancelled(self, request_id: str, now: float) -> None:
        """A cancel was sent."""
        request = self._requests.get(request_id)
        if request is not None and request.cancelled_at is None:
            request.cancelled_at = now

    def ended(self, request_id: str) -> None:
        """A request is over."""
        self._requests.pop(request_id, None)

    # ------------------------------------------------------------ what to do

    @property
    def phase(self) -> Phase:
        """The most patient phase of what runs."""
        if not self._ready:
            return "load"
        phases = {request.phase for request in self._requests.values()}
        return "prefill" if phases & {"prefill", "vision"} else "decode" if phases else "idle"

    def verdict(self, now: float, *, unread_since: float | None = None) -> Verdict:
        """Judge. Call it about once a second; each call may answer the same until something changes.

        unread_since: when the worker last took a byte of the line that is being written to it; None: there is none."""
        return self._disobeyed(now) or self._stuck(now) or self._unread(now, unread_since) or self._silent(now)

    def _unread(self, now: float, since: float | None) -> Verdict:
        if since is None or now - since <= self.limits.unread_s:
            return None
        return Kill(f"The model process stopped reading its requests ({now - since:.0f} s).")

    def _silent(self, now: float) -> Verdict:
        silent_s = now - self._line_at
        phase = self.phase
        limits = self.limits
        if phase == "load":
            limit_s = max(limits.load_s, LOADS_PATIENCE * self.last_load_s)
            return (
                Kill(f"The model did not load: no sign of life for {silent_s:.0f} s.") if silent_s > limit_s else None
            )
        limit_s = {
            "idle": limits.silent_idle_s,
            "prefill": limits.silent_prefill_s,
            "decode": limits.silent_decode_s,
        }[phase]
        if silent_s > limit_s:
            return Kill(f"The model process stopped answering ({phase}, {silent_s:.0f} s).")
        if silent_s > limits.ping_after_s and self._pinged_at is None:
            self._pinged_at = now
            return SendPing()
        return None

    def _stuck(self, now: float) -> Verdict:
        for request in self._requests.values():
            limit_s = self.limits.stuck_decode_s if request.phase == "decode" else self.limits.stuck_prefill_s
            # While one looks at a picture, the engine does nothing else.
            still_s = now - max(request.progress_at, self._picture_at)
            if still_s > limit_s:
                return Kill(f"The model made no progress for {still_s:.0f} s ({request.phase}).")
        return None

    def _disobeyed(self, now: float) -> Verdict:
        patience_s = max(self.limits.cancel_s, STEPS_FOR_CANCEL * self._slowest_step_s)
        if any(request.phase == "vision" for request in self._requests.values()):
            patience_s = max(self.limits.cancel_vision_s, STEPS_FOR_CANCEL * self._slowest_picture_s)
        for request in self._requests.values():
            if request.cancelled_at is None or now - request.cancelled_at <= patience_s:
                continue
            reason = f"The model process did not stop within {patience_s:.0f} s of being told to."
            if now - request.cancelled_at > patience_s + self.limits.term_s:
                return Kill(reason)
            if not self._terminated:
                self._terminated = True
                return Terminate(reason)
        return None
