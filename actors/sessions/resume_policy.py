"""Whether an answer goes on after its worker was lost, and with which error it ends if not.

Rules (design section 5): at most MAX_RESUMES resumes a turn. A request on which the worker dies twice at the
same place is poison and ends with an error of its own; a death before the worker had accepted the request
is the worker's own affair and proves nothing about it. An answer that is held to a JSON form cannot be
entered half way: it starts again if nothing was generated, else it ends.
"""

from __future__ import annotations

from typing import Final

from muse.errors import MuseError, WorkerFault

MAX_RESUMES: Final = 2


class ResumePolicy:
    """The rules over the life of one turn. `resumes` counts them."""

    def __init__(self, *, constrained: bool) -> None:
        self.resumes = 0
        self._constrained = constrained
        self._last_death_at: int | None = None

    def judge(self, fault: MuseError, *, generated: int, accepted: bool) -> MuseError | None:
        """None: go on. Else the fault to end with.

        fault: why the attempt ended. generated: tokens so far. accepted: by the worker that was lost.
        """
        if fault.code == "model_unavailable":
            return None  # the worker died before it had the request: nothing was tried yet
        if fault.code not in ("worker_lost", "worker_restarted"):
            return fault
        if self._constrained and generated:
            return WorkerFault(
                "constrained_reply_lost",
                "The model process was lost in the middle of an answer with a response_format or a forced call, which "
                f"cannot be entered half way. Send the request again. {fault.detail}",
                status=502,
            )
        if fault.code == "worker_lost" and accepted:
            if self._last_death_at == generated:
                return WorkerFault(
                    "poison_prompt",
                    f"The model process died twice at the same place of this request. {fault.detail}",
                    status=502,
                )
            self._last_death_at = generated
        if self.resumes >= MAX_RESUMES:
            return fault
        self.resumes += 1
        return None
