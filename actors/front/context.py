"""What the routes may hold: addresses, the board, the settings. Made once by the composition root."""

from __future__ import annotations

import time

import attrs

from actors.front.form_checker import FormChecker
from actors.kernel import Address
from actors.sessions.messages import SessionMessage
from actors.state_board import StateBoard
from actors.supervisor.messages import SupervisorMessage
from actors.transcripts.messages import TranscriptMessage
from muse import __version__
from muse.api.chat_request import SamplingDefaults
from muse.errors import JsonScalar
from muse.settings import Settings


@attrs.frozen(kw_only=True)
class FrontContext:
    """started_at: unix seconds. instance_id: random, new with each start."""

    settings: Settings
    board: StateBoard
    sessions: Address[SessionMessage]
    supervisor: Address[SupervisorMessage]
    transcripts: Address[TranscriptMessage]
    instance_id: str
    started_at: float
    forms: FormChecker
    defaults: SamplingDefaults = attrs.field(factory=SamplingDefaults)

    def server_dict(self) -> dict[str, JsonScalar]:
        """The part `server` of /api/runtime and /api/events."""
        return {"version": __version__, "instance_id": self.instance_id, "started_at": round(self.started_at, 3)}

    def state_dict(self) -> dict[str, object]:
        """Everything that changes: the body of one `state` event."""
        state = self.board.value
        return {
            "server": self.server_dict(),
            "worker": state.worker.as_dict(),
            "model": state.model_dict(),
            "draft": state.draft.as_dict() if state.draft is not None else None,
            "requests": state.requests.as_dict(),
        }

    def uptime_s(self) -> float:
        """Seconds since the start, for display only."""
        return round(max(0.0, time.time() - self.started_at), 1)
